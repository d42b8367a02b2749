// How to reach a member otherwise: its kubeconfig for those who may have it, and what Muster itself needs there.
import { Download } from "lucide-react";
import { useState } from "react";
import { post } from "../../api/client";
import { withQuery, zcloudCluster } from "../../api/paths";
import { useText } from "../../i18n";
import { download } from "../../lib/clipboard";
import { Button, Card, CommandLine } from "../../ui/basics";
import { Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";
import { MemberRole } from "./role";

export function Access({ name }: { name: string }) {
  const t = useText();
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const fetchIt = async () => {
    setBusy(true);
    setError(null);
    try {
      const { kubeconfig } = await post<{ kubeconfig: string }>(
        withQuery(zcloudCluster(name), { action: "getkubeconfig" }),
      );
      download(`${name}.kubeconfig`, kubeconfig, "application/yaml");
      toast({ tone: "warn", title: t.access.downloaded, detail: t.access.keepSafe });
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  return (
    <div className="columns">
      <Card title={t.access.kubeconfig}>
        <p className="muted">{t.access.kubeconfigWhy}</p>
        {error && <Problem error={error} compact />}
        <div className="actions">
          <Button icon={Download} disabled={busy} onClick={() => void fetchIt()}>
            {t.access.download}
          </Button>
        </div>
        <p className="muted">{t.access.byCommand}</p>
        <CommandLine command={`muster cluster kubeconfig ${name} -f ${name}.kubeconfig`} />
      </Card>
      <MemberRole />
    </div>
  );
}
