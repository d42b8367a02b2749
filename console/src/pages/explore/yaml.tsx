// An object as YAML: read, edited, seen as a difference before it is applied, merged when somebody else was faster.
import { Eye, GitMerge, Pencil, RotateCcw } from "lucide-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { askJson, Refusal } from "../../api/client";
import { refresh, useRead } from "../../api/hooks";
import { type ObjectRef, object, withQuery } from "../../api/paths";
import type { FieldConflict, Json, KubeObject } from "../../api/types";
import { hideValues, keptByOthers, merge, type Side, same, tidy } from "../../editor/merge";
import { useText } from "../../i18n";
import { download } from "../../lib/clipboard";
import { getCommand } from "../../lib/commands";
import { Button, CommandLine, CopyButton, Spinner } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";

type Editor = typeof import("../../editor/editor");
const load = () => import("../../editor/editor");

const Body = lazy(async () => {
  const editor = await load();
  return { default: (props: YamlProps) => <YamlBody {...props} editor={editor} /> };
});

interface YamlProps {
  refers: ObjectRef;
  /** What is shown is what was known last: there is nothing to write to. */
  old?: boolean;
}

export function ObjectYaml(props: YamlProps) {
  const t = useText();
  return (
    <Suspense fallback={<Spinner label={t.common.loading} />}>
      <Body {...props} />
    </Suspense>
  );
}

/** What is reviewed before it is applied. */
interface Review {
  before: KubeObject;
  after: KubeObject;
  mine: KubeObject;
  force: boolean;
  kept: string[];
  merged: boolean;
}

function YamlBody({
  refers,
  old = false,
  editor: { write, parse, YamlEditor, Differences },
}: YamlProps & { editor: Editor }) {
  const t = useText();
  const path = object(refers);
  const found = useRead<KubeObject>(withQuery(path, { raw: true }), { notices: path, keep: false });
  const now = found.data;
  const [everything, setEverything] = useState(false);
  const [shown, setShown] = useState(false);
  /** The object as it was when editing began; null while it is only read. */
  const [base, setBase] = useState<KubeObject | null>(null);
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [conflicts, setConflicts] = useState<FieldConflict[]>([]);
  const [clashing, setClashing] = useState<{ mine: KubeObject; sides: Record<string, Side> } | null>(null);
  const [review, setReview] = useState<Review | null>(null);
  const [busy, setBusy] = useState(false);

  const secret = now?.kind === "Secret";
  const visible = useMemo(() => {
    if (!now) return "";
    const object = everything ? now : tidy(now);
    return write(secret && !shown ? hideValues(object) : object);
  }, [now, everything, secret, shown, write]);

  if (!now)
    return found.error ? (
      <Problem error={found.error} retry={() => void found.refetch()} />
    ) : (
      <Spinner label={t.common.loading} />
    );
  const behind = base !== null && !same(tidy(base) as Json, tidy(now) as Json);

  const begin = () => {
    setBase(now);
    setText(write(tidy(now)));
    setShown(true);
    setError(null);
    setWrong("");
  };
  const stop = () => {
    setBase(null);
    setConflicts([]);
    setClashing(null);
    setError(null);
    setWrong("");
  };

  /** Reads the text; then merges what the server changed meanwhile; then asks the server what would become of it. */
  const check = async (force: boolean, sides?: Record<string, Side>) => {
    if (!base) return;
    setError(null);
    setConflicts([]);
    const read = parse(text);
    if (read.wrong) return setWrong(read.wrong);
    setWrong("");
    const wrote = read.value as unknown as KubeObject;
    if (wrote?.kind !== now.kind || wrote.metadata?.name !== now.metadata.name || wrote.apiVersion !== now.apiVersion) {
      return setWrong(t.yaml.otherObject);
    }
    const choose = (at: string): Side => sides?.[at] ?? "mine";
    const { merged, clashes } = merge(tidy(base) as Json, tidy(now) as Json, wrote as Json, choose);
    if (clashes.length > 0 && !sides) {
      return setClashing({
        mine: wrote,
        sides: Object.fromEntries(clashes.map((clash) => [clash.path, "mine" as Side])),
      });
    }
    const mine = merged as unknown as KubeObject;
    setBusy(true);
    try {
      const after = await askJson<KubeObject>(withQuery(path, { dryRun: true, force }), { method: "PUT", body: mine });
      const [before, result] = [tidy(now), tidy(after)];
      const kept = keptByOthers(before as Json, mine as Json, result as Json);
      setReview({ before, after: result, mine, force, kept, merged: behind });
      setClashing(null);
    } catch (problem) {
      const said =
        problem instanceof Refusal && problem.code === 409
          ? (problem.details.conflicts as FieldConflict[] | undefined)
          : undefined;
      if (said && said.length > 0) setConflicts(said);
      else setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  const apply = async () => {
    if (!review) return;
    setBusy(true);
    try {
      await askJson<KubeObject>(withQuery(path, { force: review.force }), { method: "PUT", body: review.mine });
      toast({ tone: "good", title: t.yaml.applied(refers.name) });
      setReview(null);
      stop();
      await refresh();
    } catch (problem) {
      setReview(null);
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <div className="yaml">
      <div className="list-tools">
        {base ? (
          <>
            <Button look="primary" disabled={busy} onClick={() => void check(false)}>
              {t.yaml.review}
            </Button>
            <Button icon={RotateCcw} onClick={stop}>
              {t.yaml.discard}
            </Button>
          </>
        ) : (
          <>
            <Button icon={Pencil} disabled={old || (secret && !shown)} onClick={begin}>
              {t.yaml.edit}
            </Button>
            {secret && (
              <Button icon={Eye} onClick={() => setShown(!shown)}>
                {shown ? t.yaml.hide : t.yaml.show}
              </Button>
            )}
            <button type="button" className="chip" aria-pressed={everything} onClick={() => setEverything(!everything)}>
              {t.yaml.everything}
            </button>
          </>
        )}
        <span className="gap" />
        <CopyButton text={base ? text : visible} />
        <Button onClick={() => download(`${refers.name}.yaml`, base ? text : visible, "application/yaml")}>
          {t.common.download}
        </Button>
      </div>
      {behind && !clashing && (
        <p className="banner" role="status">
          <GitMerge size={15} aria-hidden /> {t.yaml.behind}
        </p>
      )}
      {wrong && (
        <p className="banner bad" role="alert">
          {wrong}
        </p>
      )}
      {error && <Problem error={error} compact />}
      {conflicts.length > 0 && (
        <div className="problem compact" role="alert">
          <GitMerge size={16} aria-hidden />
          <div>
            <strong>{t.yaml.owned}</strong>
            <ul>
              {conflicts.map((one) => (
                <li key={one.field}>
                  <code>{one.field}</code> {t.yaml.ownedBy} <strong>{one.manager}</strong>
                </li>
              ))}
            </ul>
            <p className="muted">{t.yaml.ownedNext}</p>
            <div className="actions">
              <Button onClick={() => setConflicts([])}>{t.yaml.goOn}</Button>
              <Button look="danger" disabled={busy} onClick={() => void check(true)}>
                {t.yaml.takeOver}
              </Button>
            </div>
          </div>
        </div>
      )}
      <div className="editor-box">
        {base ? (
          <YamlEditor key="edit" value={text} label={t.yaml.editorLabel(refers.name)} editable onChange={setText} />
        ) : (
          <YamlEditor key="read" value={visible} label={t.yaml.readerLabel(refers.name)} editable={false} />
        )}
      </div>
      <CommandLine command={getCommand(refers)} />
      {clashing && (
        <Clashes
          base={base}
          now={now}
          mine={clashing.mine}
          sides={clashing.sides}
          busy={busy}
          onChoose={(at, side) => setClashing({ ...clashing, sides: { ...clashing.sides, [at]: side } })}
          onClose={() => setClashing(null)}
          onDone={() => void check(false, clashing.sides)}
        />
      )}
      {review && (
        <Dialog
          wide
          title={t.yaml.reviewTitle(refers.name)}
          onClose={() => setReview(null)}
          foot={
            <>
              <Button onClick={() => setReview(null)}>{t.yaml.goOn}</Button>
              <Button
                look="primary"
                disabled={busy || same(review.before as Json, review.after as Json)}
                onClick={() => void apply()}
              >
                {review.force ? t.yaml.applyForce : t.yaml.apply}
              </Button>
            </>
          }
        >
          {review.merged && <p className="banner">{t.yaml.mergedNote}</p>}
          {review.kept.length > 0 && (
            <p className="banner warn">
              {t.yaml.kept} <code>{review.kept.join(", ")}</code>
            </p>
          )}
          {same(review.before as Json, review.after as Json) ? (
            <p className="muted">{t.yaml.noChange}</p>
          ) : (
            <Differences before={write(review.before)} after={write(review.after)} label={t.yaml.differences} />
          )}
        </Dialog>
      )}
    </div>
  );
}

interface ClashesProps {
  base: KubeObject | null;
  now: KubeObject;
  mine: KubeObject;
  sides: Record<string, Side>;
  busy: boolean;
  onChoose: (path: string, side: Side) => void;
  onClose: () => void;
  onDone: () => void;
}

/** Both changed the same: one choice per place. */
function Clashes({ base, now, mine, sides, busy, onChoose, onClose, onDone }: ClashesProps) {
  const t = useText();
  const { clashes } = merge(tidy(base ?? now) as Json, tidy(now) as Json, mine as Json, () => "mine");
  return (
    <Dialog
      wide
      title={t.yaml.clashTitle}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{t.yaml.goOn}</Button>
          <Button look="primary" disabled={busy} onClick={onDone}>
            {t.yaml.review}
          </Button>
        </>
      }
    >
      <p>{t.yaml.clashWhy}</p>
      {clashes.map((clash) => (
        <fieldset key={clash.path} className="clash">
          <legend>
            <code>{clash.path}</code>
          </legend>
          {(["mine", "theirs"] as const).map((side) => (
            <label key={side} className={sides[clash.path] === side ? "chosen" : ""}>
              <input
                type="radio"
                name={clash.path}
                checked={sides[clash.path] === side}
                onChange={() => onChoose(clash.path, side)}
              />
              {side === "mine" ? t.yaml.mine : t.yaml.theirs}
              <pre>{clash[side] === undefined ? t.yaml.absent : JSON.stringify(clash[side], null, 2)}</pre>
            </label>
          ))}
        </fieldset>
      ))}
    </Dialog>
  );
}
