// How to reach a member otherwise: a kubeconfig that ends by itself, the lasting one for those who may, and what Muster itself needs there.
import { Download } from "lucide-react";
import { useState } from "react";
import { post, Refusal } from "../../api/client";
import { withQuery, zcloudCluster } from "../../api/paths";
import { useLanguage, useText } from "../../i18n";
import { download } from "../../lib/clipboard";
import { fullTime } from "../../lib/format";
import { Button, Card, CommandLine } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";
import { MemberRole } from "./role";

interface Given {
  kubeconfig: string;
  /** When its token ends; the lasting one does not. */
  expires?: string;
}

/** How long a token can be good, in seconds, and as the command line has it. */
const SPANS = [
  [600, "10m"],
  [3600, "1h"],
  [8 * 3600, "8h"],
  [24 * 3600, "24h"],
] as const;

export function Access({ name }: { name: string }) {
  const t = useText();
  const language = useLanguage();
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const [span, setSpan] = useState<(typeof SPANS)[number]>(SPANS[1]);
  const [lasting, setLasting] = useState(false);
  const fetchIt = async (more: Record<string, string | number>) => {
    setBusy(true);
    setError(null);
    setLasting(false);
    try {
      const given = await post<Given>(withQuery(zcloudCluster(name), { action: "getkubeconfig", ...more }));
      download(`${name}.kubeconfig`, given.kubeconfig, "application/yaml");
      if (given.expires)
        toast({
          tone: "good",
          title: t.access.downloaded,
          detail: t.access.goodUntil(fullTime(given.expires, language)),
        });
      else toast({ tone: "warn", title: t.access.downloaded, detail: t.access.keepSafe });
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  const lend = (more: Record<string, string> = {}) => fetchIt({ ttlSeconds: span[0], ...more });
  const noAccount = error instanceof Refusal && error.reason === "NoAccount";
  return (
    <div className="columns">
      <Card title={t.access.kubeconfig}>
        <p className="muted">{t.access.kubeconfigWhy}</p>
        {noAccount ? (
          <div className="banner" role="alert">
            <strong>{t.access.noAccount}</strong>
            <p>{t.access.noAccountWhy}</p>
            <div className="actions">
              <Button disabled={busy} onClick={() => void lend({ createAccount: "read" })}>
                {t.access.makeReader}
              </Button>
              <Button disabled={busy} onClick={() => void lend({ createAccount: "operate" })}>
                {t.access.makeOperator}
              </Button>
            </div>
          </div>
        ) : (
          error && <Problem error={error} compact />
        )}
        <div className="actions">
          <select
            aria-label={t.access.goodFor}
            value={span[0]}
            onChange={(event) => setSpan(SPANS.find(([seconds]) => seconds === Number(event.target.value)) ?? SPANS[1])}
          >
            {SPANS.map(([seconds, words]) => (
              <option key={seconds} value={seconds}>
                {t.access.spans[words]}
              </option>
            ))}
          </select>
          <Button icon={Download} disabled={busy} onClick={() => void lend()}>
            {t.access.download}
          </Button>
        </div>
        <p className="muted">{t.access.byCommand}</p>
        <CommandLine
          command={`muster cluster kubeconfig ${name} -f ${name}.kubeconfig${span[1] === "1h" ? "" : ` --ttl ${span[1]}`}`}
        />
        <p className="muted">{t.access.lastingWhy}</p>
        <div className="actions">
          <Button disabled={busy} onClick={() => setLasting(true)}>
            {t.access.lasting}
          </Button>
        </div>
      </Card>
      <MemberRole />
      {lasting && (
        <Confirm
          title={t.access.lastingTitle(name)}
          action={t.access.download}
          onClose={() => setLasting(false)}
          onConfirm={() => fetchIt({ longLived: "true" })}
        >
          <p>{t.access.lastingWhat}</p>
          <CommandLine command={`muster cluster kubeconfig ${name} --long-lived -f ${name}.kubeconfig`} />
        </Confirm>
      )}
    </div>
  );
}
