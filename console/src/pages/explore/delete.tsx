// Deleting an object, said beforehand in words and as the command that does the same.
import { useState } from "react";
import { askJson } from "../../api/client";
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
