// Taking a member out: its objects stay as they are, only Muster forgets it. The name must be typed.
import { useState } from "react";
import { askJson } from "../../api/client";
import { refresh } from "../../api/hooks";
import { zcloudCluster } from "../../api/paths";
import { useText } from "../../i18n";
import { navigate } from "../../router/router";
import { CommandLine } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";

export function DeleteCluster({ name, onClose }: { name: string; onClose: () => void }) {
  const t = useText();
  const [error, setError] = useState<Error | null>(null);
  const act = async () => {
    setError(null);
    try {
      await askJson(zcloudCluster(name), { method: "DELETE" });
      toast({ tone: "good", title: t.clusters.removed(name) });
      onClose();
      navigate("/clusters");
      await refresh();
    } catch (problem) {
      setError(problem as Error);
    }
  };
  return (
    <Confirm
      title={t.clusters.removeTitle(name)}
      action={t.clusters.remove}
      typed={name}
      onClose={onClose}
      onConfirm={act}
    >
      <p>{t.clusters.removeWhat}</p>
      <CommandLine command={`muster cluster delete ${name}`} />
      {error && <Problem error={error} compact />}
    </Confirm>
  );
}
