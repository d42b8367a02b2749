// How many replicas there shall be.
import { useState } from "react";
import { post } from "../../api/client";
import { refresh } from "../../api/hooks";
import { type ObjectRef, object } from "../../api/paths";
import { useText } from "../../i18n";
import { Button } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { Field } from "../../ui/field";
import { Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";

export function Scale({ refers, replicas, onClose }: { refers: ObjectRef; replicas: number; onClose: () => void }) {
  const t = useText();
  const [wanted, setWanted] = useState(String(replicas));
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const count = Number(wanted);
  const valid = /^\d+$/.test(wanted) && count <= 10_000;
  const act = async () => {
    setBusy(true);
    setError(null);
    try {
      await post(`${object(refers)}/scale`, { replicas: count });
      toast({ tone: "good", title: t.explore.scaled(refers.name, count) });
      onClose();
      await refresh();
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t.explore.scaleTitle(refers.name)}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{t.common.cancel}</Button>
          <Button look="primary" disabled={!valid || busy} onClick={() => void act()}>
            {t.explore.scale}
          </Button>
        </>
      }
    >
      <Field
        label={t.explore.replicas}
        type="number"
        min={0}
        max={10_000}
        value={wanted}
        onChange={(event) => setWanted(event.target.value)}
      />
      {error && <Problem error={error} compact />}
    </Dialog>
  );
}
