// A shell in a container. Loaded when the first one is opened.
import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal as Xterm } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import { RotateCw, SquareTerminal } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { socketUrl, ticket } from "../api/client";
import { useRead } from "../api/hooks";
import { object, PODS, type PodRef, terminal as terminalPath } from "../api/paths";
import type { FlatRow } from "../api/types";
import { text, useText } from "../i18n";
import { copy } from "../lib/clipboard";
import { shellCommand } from "../lib/commands";
import { theme } from "../lib/theme";
import { Button, IconButton, Status } from "../ui/basics";
import { Menu } from "../ui/menu";
import { toast } from "../ui/toast";
import { CLOSE, type Ended, ended, input, STATUS, STDERR, STDOUT, size } from "./channels";
import { containersOf } from "./logs";

interface TerminalProps {
  pod: PodRef;
  container: string;
  shown: boolean;
}

type State = { is: "connecting" } | { is: "open" } | { is: "ended"; how: Ended };

const PASTE = 16_384;

const color = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const colors = () => ({
  background: color("--terminal"),
  foreground: color("--terminal-text"),
  cursor: color("--terminal-text"),
  selectionBackground: color("--terminal-select"),
});

export default function Terminal({ pod, container: preset, shown }: TerminalProps) {
  const t = useText();
  const box = useRef<HTMLDivElement>(null);
  const screen = useRef<{ xterm: Xterm; fit: FitAddon } | null>(null);
  const [container, setContainer] = useState(preset);
  const [attempt, setAttempt] = useState(0);
  const [state, setState] = useState<State>({ is: "connecting" });
  const row = useRead<FlatRow>(object({ ...PODS, ...pod }), { once: true });
  const names = row.data ? containersOf(row.data) : [];
  const chosen = container || names[0] || "";
  const { cluster, namespace, name } = pod;

  useEffect(() => {
    if (!box.current) return;
    const xterm = new Xterm({
      fontSize: 13,
      cursorBlink: true,
      scrollback: 10_000,
      theme: colors(),
      fontFamily: "ui-monospace, Menlo, Consolas, monospace",
      screenReaderMode: true,
    });
    const fit = new FitAddon();
    xterm.loadAddon(fit);
    xterm.loadAddon(new SearchAddon());
    xterm.loadAddon(new WebLinksAddon((_, address) => window.open(address, "_blank", "noopener,noreferrer")));
    xterm.open(box.current);
    screen.current = { xterm, fit };
    const watch = new ResizeObserver(() => {
      if (box.current && box.current.clientHeight > 0) fit.fit();
    });
    watch.observe(box.current);
    const repaint = theme.subscribe(() => {
      xterm.options.theme = colors();
    });
    return () => {
      watch.disconnect();
      repaint();
      xterm.dispose();
      screen.current = null;
    };
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: another attempt is another connection
  useEffect(() => {
    const xterm = screen.current?.xterm;
    if (!xterm || !chosen) return;
    let socket: WebSocket | null = null;
    let over = false;
    const finish = (how: Ended) => {
      if (over) return;
      over = true;
      setState({ is: "ended", how });
      socket?.close();
    };
    const cleanups: (() => void)[] = [];
    setState({ is: "connecting" });
    const connect = async () => {
      const proof = await ticket();
      if (over) return;
      socket = new WebSocket(socketUrl(terminalPath({ cluster, namespace, name }, chosen, ["sh"])));
      const line = socket;
      line.binaryType = "arraybuffer";
      line.addEventListener("open", () => {
        line.send(JSON.stringify({ ticket: proof }));
        line.send(size(xterm.cols, xterm.rows));
        setState({ is: "open" });
        xterm.focus();
      });
      line.addEventListener("message", (event: MessageEvent<ArrayBuffer | string>) => {
        if (typeof event.data === "string") return;
        const bytes = new Uint8Array(event.data);
        if (bytes[0] === STDOUT || bytes[0] === STDERR) xterm.write(bytes.subarray(1));
        else if (bytes[0] === STATUS) finish(ended(bytes.subarray(1)));
        else if (bytes[0] === CLOSE) finish({ code: null, message: "" });
      });
      line.addEventListener("close", (event) =>
        finish({ code: null, message: event.reason || text().terminal.lineLost }),
      );
      const typed = xterm.onData((data) => {
        // The server takes messages of a bounded size: a large paste goes in pieces.
        for (let from = 0; from < data.length && line.readyState === 1; from += PASTE)
          line.send(input(data.slice(from, from + PASTE)));
      });
      const sized = xterm.onResize(({ cols, rows }) => {
        if (line.readyState === 1) line.send(size(cols, rows));
      });
      cleanups.push(
        () => typed.dispose(),
        () => sized.dispose(),
      );
    };
    connect().catch((error: Error) => finish({ code: null, message: error.message }));
    return () => {
      over = true;
      for (const cleanup of cleanups) cleanup();
      socket?.close();
    };
  }, [cluster, namespace, name, chosen, attempt]);

  useEffect(() => {
    if (!shown) return;
    screen.current?.fit.fit();
    screen.current?.xterm.focus();
  }, [shown]);

  const command = async (program: "muster" | "kubectl") => {
    const line = shellCommand(program, pod, chosen);
    const done = await copy(line);
    toast(
      done ? { tone: "good", title: t.logs.commandCopied, detail: line } : { tone: "warn", title: t.common.copyFailed },
    );
  };

  return (
    <div className="terminal">
      <div className="logs-bar" role="toolbar" aria-label={t.terminal.tools}>
        <span className="muted">
          {cluster} / {namespace} / {name}
        </span>
        {names.length > 1 && (
          <select aria-label={t.logs.container} value={chosen} onChange={(event) => setContainer(event.target.value)}>
            {names.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        )}
        <span className="gap" />
        {state.is === "connecting" && <Status tone="busy" word={t.terminal.connecting} />}
        {state.is === "open" && <Status tone="good" word={t.terminal.open} />}
        {state.is === "ended" && (
          <>
            <Status
              tone={state.how.code === 0 ? "off" : "bad"}
              word={state.how.code === null ? t.terminal.lost : t.terminal.ended(state.how.code)}
              why={state.how.message}
            />
            {state.how.message && <span className="muted clip">{state.how.message}</span>}
            <Button icon={RotateCw} onClick={() => setAttempt(attempt + 1)}>
              {t.terminal.again}
            </Button>
          </>
        )}
        <IconButton icon={RotateCw} label={t.terminal.reconnect} onClick={() => setAttempt(attempt + 1)} />
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
      <div className="terminal-screen" ref={box} data-keys="own" />
    </div>
  );
}
