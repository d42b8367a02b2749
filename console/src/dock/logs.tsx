// Logs of one or several pods, over several clusters, in one view: found by text or pattern, followed, downloaded, shared.
import { useQueries } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import {
  ArrowDownToLine,
  ChevronDown,
  ChevronUp,
  Clock,
  Download,
  FolderOpen,
  History,
  Link2,
  Regex,
  SquareTerminal,
  Trash2,
  WrapText,
} from "lucide-react";
import { useCallback, useEffect, useId, useMemo, useRef, useState } from "react";
import { get } from "../api/client";
import { object, PODS, type PodRef, withQuery } from "../api/paths";
import { asFields, asList, asText } from "../api/pods";
import type { FlatRow } from "../api/types";
import { useLanguage, useText } from "../i18n";
import { copy, download } from "../lib/clipboard";
import { logCommand } from "../lib/commands";
import { number } from "../lib/format";
import { IconButton } from "../ui/basics";
import { Menu } from "../ui/menu";
import { explain } from "../ui/problem";
import { toast } from "../ui/toast";
import { dressed } from "./ansi";
import { highlight, type Line, LogBuffer, matcher, select } from "./buffer";
import { FilesDialog } from "./files";
import { read, type Source, type SourceState, type Wish } from "./follow";

interface LogViewProps {
  pods: PodRef[];
  container?: string;
  shown: boolean;
}

const LINE_HEIGHT = 18;
const estimateSize = () => LINE_HEIGHT;
const SINCE = [0, 60, 300, 900, 3600, 21_600, 86_400] as const;
/** Of several containers: the first of each pod, or all. */
const FIRST = "";
const EVERY = "*";

export function LogView({ pods, container: preset = FIRST, shown }: LogViewProps) {
  const t = useText();
  const language = useLanguage();
  const searchId = useId();
  const [container, setContainer] = useState(preset);
  const [follow, setFollow] = useState(true);
  const [previous, setPrevious] = useState(false);
  const [since, setSince] = useState(0);
  const [stamps, setStamps] = useState(false);
  const [wrap, setWrap] = useState(false);
  const [file, setFile] = useState("");
  const [browsing, setBrowsing] = useState(false);
  const [search, setSearch] = useState({ text: "", regex: false, inverse: false });
  const [only, setOnly] = useState(false);

  const found = useContainers(pods);
  const sources = useMemo<Source[]>(
    () =>
      found.flatMap(({ pod, containers }) => {
        const names =
          container === EVERY
            ? containers
            : container === FIRST
              ? containers.slice(0, 1)
              : containers.filter((one) => one === container);
        return names.map((name) => ({ pod, container: name, ...(file && { file }) }));
      }),
    [found, container, file],
  );
  const wish = useMemo<Wish>(
    () => ({
      follow: follow && !previous,
      previous,
      tailLines: pods.length > 1 ? 500 : 2_000,
      ...(since > 0 && { sinceSeconds: since }),
    }),
    [follow, previous, since, pods.length],
  );
  const { buffer, states, version } = useLogs(sources, wish);

  const { test, wrong } = useMemo(() => matcher(search), [search]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the buffer changes in place; its version says so
  const lines = useMemo(
    () => (only || search.inverse ? select(buffer.lines, search) : buffer.lines),
    [buffer, version, search, only],
  );
  const names = useMemo(() => [...new Set(found.flatMap((one) => one.containers))], [found]);
  const failed = states.flatMap((state, n) =>
    state.is === "failed" ? [{ error: state.error, source: sources[n] }] : [],
  );
  const following = states.filter((state) => state.is === "following").length;
  const multi = sources.length > 1;

  const name = () => `${pods[0]?.name ?? "logs"}${pods.length > 1 ? `-and-${pods.length - 1}` : ""}.log`;
  const asText = () =>
    lines
      .map((line) => [multi && label(sources[line.source]), stamps && line.time, line.text].filter(Boolean).join(" "))
      .join("\n");
  const share = async () => {
    const address = withQuery("/logs", {
      pod: pods.map((pod) => `${pod.cluster}/${pod.namespace}/${pod.name}`),
      container,
    });
    const done = await copy(location.origin + address);
    toast(done ? { tone: "good", title: t.logs.linkCopied } : { tone: "warn", title: t.common.copyFailed });
  };
  const command = async (program: "muster" | "kubectl") => {
    const text = pods
      .map((pod) =>
        logCommand(program, pod, {
          ...(container && container !== EVERY && { container }),
          previous,
          follow: wish.follow,
          ...(since > 0 && { sinceSeconds: since }),
          timestamps: stamps,
        }),
      )
      .join("\n");
    const done = await copy(text);
    toast(
      done ? { tone: "good", title: t.logs.commandCopied, detail: text } : { tone: "warn", title: t.common.copyFailed },
    );
  };

  return (
    <div className="logs">
      <div className="logs-bar" role="toolbar" aria-label={t.logs.tools}>
        {names.length > 1 && (
          <select
            aria-label={t.logs.container}
            value={container}
            onChange={(event) => setContainer(event.target.value)}
          >
            <option value={FIRST}>{t.logs.firstContainer}</option>
            <option value={EVERY}>{t.logs.allContainers}</option>
            {names.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        )}
        <select aria-label={t.logs.since} value={since} onChange={(event) => setSince(Number(event.target.value))}>
          {SINCE.map((seconds) => (
            <option key={seconds} value={seconds}>
              {t.logs.sinceChoice(seconds)}
            </option>
          ))}
        </select>
        <div className="search-box">
          <label className="hidden" htmlFor={searchId}>
            {t.logs.search}
          </label>
          <input
            id={searchId}
            type="search"
            placeholder={t.logs.search}
            value={search.text}
            aria-invalid={wrong !== ""}
            title={wrong || undefined}
            spellCheck={false}
            onChange={(event) => setSearch({ ...search, text: event.target.value })}
          />
        </div>
        <IconButton
          icon={Regex}
          label={t.logs.regex}
          pressed={search.regex}
          onClick={() => setSearch({ ...search, regex: !search.regex })}
        />
        <button
          type="button"
          className="chip"
          aria-pressed={search.inverse}
          onClick={() => setSearch({ ...search, inverse: !search.inverse })}
        >
          {t.logs.inverse}
        </button>
        <button type="button" className="chip" aria-pressed={only} onClick={() => setOnly(!only)}>
          {t.logs.only}
        </button>
        <span className="gap" />
        <IconButton
          icon={ArrowDownToLine}
          label={t.logs.follow}
          pressed={follow && !previous}
          disabled={previous}
          onClick={() => setFollow(!follow)}
        />
        <IconButton icon={History} label={t.logs.previous} pressed={previous} onClick={() => setPrevious(!previous)} />
        <IconButton icon={Clock} label={t.logs.timestamps} pressed={stamps} onClick={() => setStamps(!stamps)} />
        <IconButton icon={WrapText} label={t.logs.wrap} pressed={wrap} onClick={() => setWrap(!wrap)} />
        {pods.length === 1 && (
          <IconButton icon={FolderOpen} label={t.logs.files} pressed={file !== ""} onClick={() => setBrowsing(true)} />
        )}
        <IconButton icon={Trash2} label={t.logs.clear} onClick={() => buffer.clear()} />
        <IconButton icon={Download} label={t.logs.download} onClick={() => download(name(), asText(), "text/plain")} />
        <IconButton icon={Link2} label={t.logs.share} onClick={() => void share()} />
        <Menu
          label={t.logs.copyCommand}
          items={[
            { label: t.logs.asMuster, act: () => void command("muster") },
            { label: t.logs.asKubectl, act: () => void command("kubectl") },
          ]}
        >
          <SquareTerminal size={16} aria-hidden />
        </Menu>
      </div>
      {failed.map(({ error, source }) => (
        <p key={label(source)} className="logs-note bad" role="alert">
          <strong>{label(source)}</strong> {explain(error, t).what} {explain(error, t).why}
        </p>
      ))}
      {wrong && <p className="logs-note bad">{t.logs.wrongPattern(wrong)}</p>}
      {file && (
        <p className="logs-note">
          {t.logs.ofFile} <code>{file}</code>{" "}
          <button type="button" className="link" onClick={() => setFile("")}>
            {t.logs.backToOutput}
          </button>
        </p>
      )}
      <LineList
        lines={lines}
        sources={sources}
        test={test}
        multi={multi}
        stamps={stamps}
        wrap={wrap}
        stick={follow}
        shown={shown}
      />
      <div className="logs-foot muted number" role="status">
        {t.logs.count(number(lines.length, language), number(buffer.lines.length, language))}
        {buffer.dropped > 0 && ` · ${t.logs.dropped(number(buffer.dropped, language))}`}
        {wish.follow && following > 0 && ` · ${t.logs.following(following, sources.length)}`}
      </div>
      {browsing && pods[0] && (
        <FilesDialog
          pod={pods[0]}
          container={sources[0]?.container ?? ""}
          onClose={() => setBrowsing(false)}
          onPick={(path) => {
            setFile(path);
            setBrowsing(false);
          }}
        />
      )}
    </div>
  );
}

const label = (source: Source | undefined) =>
  source ? `${source.pod.cluster}/${source.pod.name}${source.container ? `:${source.container}` : ""}` : "";

/** The containers of every pod; one that cannot be read is asked for its log without a name, which says why. */
function useContainers(pods: PodRef[]): { pod: PodRef; containers: string[] }[] {
  const results = useQueries({
    queries: pods.map((pod) => ({
      queryKey: [object({ ...PODS, ...pod })],
      queryFn: ({ signal }: { signal: AbortSignal }) => get<FlatRow>(object({ ...PODS, ...pod }), signal),
      staleTime: 60_000,
      retry: false,
    })),
  });
  const known = results.map((result) =>
    result.data ? containersOf(result.data).join(",") : result.isError ? "" : null,
  );
  const signature = JSON.stringify(known);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the signature stands for `known`, which is new on every render
  return useMemo(
    () =>
      pods.flatMap((pod, n) =>
        known[n] === null || known[n] === undefined ? [] : [{ pod, containers: known[n].split(",") }],
      ),
    [pods, signature],
  );
}

export const containersOf = (pod: FlatRow): string[] =>
  [...asList(asFields(pod.spec).containers), ...asList(asFields(pod.spec).initContainers)]
    .map((one) => asText(asFields(one).name))
    .filter(Boolean);

function useLogs(sources: Source[], wish: Wish) {
  const [buffer] = useState(() => new LogBuffer());
  const [states, setStates] = useState<SourceState[]>([]);
  const [version, setVersion] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const stop = buffer.subscribe(() => {
      // Lines come in bursts: the screen is drawn ten times a second at most.
      timer ??= setTimeout(() => {
        timer = undefined;
        setVersion(buffer.version);
      }, 100);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [buffer]);
  useEffect(() => {
    const end = new AbortController();
    buffer.clear();
    setStates(sources.map(() => ({ is: "reading" })));
    sources.forEach((source, n) => {
      const reader = {
        lines: (lines: string[]) => {
          if (!end.signal.aborted) buffer.add(n, lines);
        },
        state: (state: SourceState) => {
          if (!end.signal.aborted) setStates((now) => now.map((one, m) => (m === n ? state : one)));
        },
      };
      void read(source, wish, reader, end.signal);
    });
    return () => end.abort();
  }, [buffer, sources, wish]);
  return { buffer, states, version };
}

interface LineListProps {
  lines: readonly Line[];
  sources: Source[];
  test: RegExp | null;
  multi: boolean;
  stamps: boolean;
  wrap: boolean;
  stick: boolean;
  shown: boolean;
}

function LineList({ lines, sources, test, multi, stamps, wrap, stick, shown }: LineListProps) {
  const t = useText();
  const box = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  const top = useRef(0);
  const [hit, setHit] = useState(-1);
  const rows = useVirtualizer({
    count: lines.length,
    getScrollElement: () => box.current,
    estimateSize,
    overscan: 20,
    getItemKey: useCallback((index: number) => lines[index]?.n ?? index, [lines]),
  });

  const last = lines[lines.length - 1]?.n;
  useEffect(() => {
    if (shown && stick && atEnd && last !== undefined) rows.scrollToIndex(lines.length - 1, { align: "end" });
  }, [rows, shown, stick, atEnd, last, lines.length]);

  const find = (step: 1 | -1) => {
    if (!test) return;
    const from = hit >= 0 && hit < lines.length ? hit : step > 0 ? -1 : lines.length;
    for (let n = 1; n <= lines.length; n += 1) {
      const at = (from + step * n + lines.length * 2) % lines.length;
      if (test.test(lines[at]?.text ?? "")) {
        setHit(at);
        setAtEnd(false);
        rows.scrollToIndex(at, { align: "center" });
        return;
      }
    }
  };

  return (
    <div className="logs-lines">
      <section
        ref={box}
        className={`logs-scroll ${wrap ? "wrap" : ""}`}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a box that scrolls must be reachable by keyboard
        tabIndex={0}
        aria-label={t.logs.title}
        onScroll={(event) => {
          const view = event.currentTarget;
          // New lines take the end away from under the view: only going up means that somebody left it.
          if (view.scrollHeight - view.scrollTop - view.clientHeight < LINE_HEIGHT * 2) setAtEnd(true);
          else if (view.scrollTop < top.current) setAtEnd(false);
          top.current = view.scrollTop;
        }}
      >
        <div className="logs-tall" style={{ height: rows.getTotalSize() }}>
          {rows.getVirtualItems().map((row) => {
            const line = lines[row.index];
            if (!line) return null;
            return (
              <div
                key={row.key}
                ref={wrap ? rows.measureElement : undefined}
                data-index={row.index}
                className={`log-line ${row.index === hit ? "current" : ""} ${levelOf(line.text)}`}
                style={{ transform: `translateY(${row.start}px)` }}
              >
                {multi && <span className={`log-source source-${line.source % 8}`}>{label(sources[line.source])}</span>}
                {stamps && line.time && <time>{line.time}</time>}
                <span>
                  {dressed(highlight(line.text, test), line.runs ?? []).map((piece, n) =>
                    piece.hit ? (
                      // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one immutable line
                      <mark key={n}>{piece.text}</mark>
                    ) : piece.look ? (
                      // biome-ignore lint/suspicious/noArrayIndexKey: pieces of one immutable line
                      <span key={n} className={piece.look}>
                        {piece.text}
                      </span>
                    ) : (
                      piece.text
                    ),
                  )}
                </span>
              </div>
            );
          })}
        </div>
        {lines.length === 0 && <p className="logs-empty muted">{t.logs.nothing}</p>}
      </section>
      {test && (
        <div className="logs-find">
          <IconButton icon={ChevronUp} label={t.logs.findPrevious} onClick={() => find(-1)} />
          <IconButton icon={ChevronDown} label={t.logs.findNext} onClick={() => find(1)} />
        </div>
      )}
      {!atEnd && lines.length > 0 && (
        <button
          type="button"
          className="button logs-end"
          onClick={() => {
            setAtEnd(true);
            rows.scrollToIndex(lines.length - 1, { align: "end" });
          }}
        >
          <ArrowDownToLine size={14} aria-hidden /> {t.logs.toEnd}
        </button>
      )}
    </div>
  );
}

const BAD_LINE = /\b(ERROR|FATAL|PANIC|error:|panic:)\b|\blevel=(error|fatal)\b|"level":"(error|fatal)"/;
const WARN_LINE = /\bWARN(ING)?\b|\blevel=warn/;
const levelOf = (text: string) => {
  const head = text.slice(0, 200);
  return BAD_LINE.test(head) ? "bad" : WARN_LINE.test(head) ? "warn" : "";
};
