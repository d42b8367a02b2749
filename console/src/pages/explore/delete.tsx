// Deleting an object, said beforehand in words and as the command that does the same.
import { useState } from "react";
import { askJson, Refusal } from "../../api/client";
import { refresh } from "../../api/hooks";
import { type ObjectRef, object, withQuery } from "../../api/paths";
import { useText } from "../../i18n";
import { deleteCommand } from "../../lib/commands";
import { CommandLine } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";

interface DeleteProps {
  refers: ObjectRef;
  kind: string;
  onClose: () => void;
  onDone: () => void;
}

/** Requests under way at once: a member has better things to do than our clean-up. */
const AT_ONCE = 5;
const MOST_NAMED = 20;

interface SeveralProps {
  objects: ObjectRef[];
  kind: string;
  onClose: () => void;
  /** Called with those that could not be deleted. */
  onDone: (left: ObjectRef[]) => void;
}

/** Several at once, with one confirmation that says which: their number must be typed. */
export function DeleteSeveral({ objects, kind, onClose, onDone }: SeveralProps) {
  const t = useText();
  const [failed, setFailed] = useState<{ object: ObjectRef; error: Error }[]>([]);
  const nameOf = (one: ObjectRef) => [one.cluster, one.namespace, one.name].filter(Boolean).join(" / ");
  const act = async () => {
    const wrong: typeof failed = [];
    for (let from = 0; from < objects.length; from += AT_ONCE) {
      await Promise.all(
        objects.slice(from, from + AT_ONCE).map(async (one) => {
          try {
            await askJson(object(one), { method: "DELETE" });
          } catch (problem) {
            const gone = problem instanceof Refusal && problem.code === 404;
            if (!gone) wrong.push({ object: one, error: problem as Error });
          }
        }),
      );
    }
    setFailed(wrong);
    const done = objects.length - wrong.length;
    if (done > 0) toast({ tone: "good", title: t.explore.deletedSeveral(kind, done) });
    onDone(wrong.map((one) => one.object));
    await refresh();
  };
  return (
    <Confirm
      title={t.explore.deleteSeveralTitle(kind, objects.length)}
      action={t.common.delete}
      typed={String(objects.length)}
      onClose={onClose}
      onConfirm={act}
    >
      <p>{t.explore.deleteSeveralWhat}</p>
      <ul className="names">
        {objects.slice(0, MOST_NAMED).map((one) => (
          <li key={nameOf(one)}>{nameOf(one)}</li>
        ))}
        {objects.length > MOST_NAMED && <li className="muted">+{objects.length - MOST_NAMED}</li>}
      </ul>
      {failed.map(({ object: one, error }) => (
        <div key={nameOf(one)}>
          <strong>{nameOf(one)}</strong>
          <Problem error={error} compact />
        </div>
      ))}
    </Confirm>
  );
}

/** Pods come back by themselves; for everything else the name must be typed. */
export function DeleteObject({ refers, kind, onClose, onDone }: DeleteProps) {
  const t = useText();
  const [error, setError] = useState<Error | null>(null);
  const [orphan, setOrphan] = useState(false);
  const act = async () => {
    setError(null);
    try {
      await askJson(withQuery(object(refers), { propagation: orphan ? "orphan" : undefined }), { method: "DELETE" });
      toast({ tone: "good", title: t.explore.deleted(kind, refers.name) });
      onDone();
      await refresh();
    } catch (problem) {
      setError(problem as Error);
    }
  };
  return (
    <Confirm
      title={t.explore.deleteTitle(kind, refers.name)}
      action={t.common.delete}
      {...(kind !== "Pod" && { typed: refers.name })}
      onClose={onClose}
      onConfirm={act}
    >
      <p>{t.explore.deleteWhere(refers.cluster, refers.namespace ?? "")}</p>
      {kind !== "Pod" && (
        <label className="row">
          <input type="checkbox" checked={orphan} onChange={(event) => setOrphan(event.target.checked)} />
          {t.explore.orphan}
        </label>
      )}
      <CommandLine command={`${deleteCommand(refers)}${orphan ? " --cascade=orphan" : ""}`} />
      {error && <Problem error={error} compact />}
    </Confirm>
  );
}
