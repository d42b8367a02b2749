// Importing a cluster: what was understood of the kubeconfig, what is refused and why, before anything is stored.
import { Check, ShieldAlert, Upload } from "lucide-react";
import { type ChangeEvent, type FormEvent, useState } from "react";
import { post } from "../../api/client";
import { refresh } from "../../api/hooks";
import { withQuery, zcloud } from "../../api/paths";
import type { Allowance, ImportPreview, ImportRequest } from "../../api/types";
import { useText } from "../../i18n";
import { importCommand } from "../../lib/commands";
import { navigate } from "../../router/router";
import { Button, Card, CommandLine, Facts, Page } from "../../ui/basics";
import { Field, TextArea } from "../../ui/field";
import { Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";
import { MemberRole } from "./role";

const LARGEST_FILE = 1_000_000;
const ALLOWANCES: Allowance[] = ["system-roots", "insecure", "plain-http"];
const NAME = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/** `a=b, c=d` or one per line. */
export function readLabels(text: string): Record<string, string> | null {
  const labels: Record<string, string> = {};
  for (const one of text.split(/[,\n]/).map((part) => part.trim())) {
    if (!one) continue;
    const at = one.indexOf("=");
    if (at < 1) return null;
    labels[one.slice(0, at).trim()] = one.slice(at + 1).trim();
  }
  return labels;
}

export default function Import() {
  const t = useText();
  const [way, setWay] = useState<"kubeconfig" | "token">("kubeconfig");
  const [name, setName] = useState("");
  const [kubeconfig, setKubeconfig] = useState("");
  const [server, setServer] = useState("");
  const [ca, setCa] = useState("");
  const [token, setToken] = useState("");
  const [labels, setLabels] = useState("");
  const [allow, setAllow] = useState<Allowance[]>([]);
  const [preview, setPreview] = useState<ImportPreview | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);

  const badName = name !== "" && !NAME.test(name);
  const read = readLabels(labels);
  const complete =
    name !== "" &&
    !badName &&
    read !== null &&
    (way === "kubeconfig" ? kubeconfig !== "" : server !== "" && token !== "");
  const request = (dryRun: boolean): ImportRequest => ({
    name,
    ...(way === "kubeconfig" ? { kubeconfig } : { server, ca, token }),
    labels: read ?? {},
    ...(allow.length > 0 && { allow }),
    dryRun,
  });
  const changed =
    <T,>(set: (value: T) => void) =>
    (value: T) => {
      set(value);
      setPreview(null);
      setError(null);
    };
  const send = async (dryRun: boolean) => {
    setBusy(true);
    setError(null);
    try {
      const answer = await post<ImportPreview>(withQuery(zcloud, { action: "import" }), request(dryRun));
      if (dryRun) setPreview(answer);
      else {
        toast({ tone: "good", title: t.import.done(name) });
        await refresh();
        navigate(`/clusters/${encodeURIComponent(name)}`);
      }
    } catch (problem) {
      setPreview(null);
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  const upload = (event: ChangeEvent<HTMLInputElement>) => {
    const file = event.target.files?.[0];
    event.target.value = "";
    if (!file) return;
    if (file.size > LARGEST_FILE) {
      toast({ tone: "warn", title: t.import.tooLarge });
      return;
    }
    void file.text().then(changed(setKubeconfig));
  };
  const refused = preview?.refused ?? [];
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (complete) void send(true);
  };

  return (
    <Page title={t.clusters.import} subtitle={t.import.subtitle}>
      <div className="columns">
        <Card title={t.import.what}>
          <form className="form" onSubmit={submit}>
            <Field
              label={t.import.name}
              hint={t.import.nameHint}
              wrong={badName ? t.import.nameWrong : undefined}
              value={name}
              required
              autoComplete="off"
              spellCheck={false}
              onChange={(event) => changed(setName)(event.target.value)}
            />
            <fieldset className="chips">
              <legend>{t.import.by}</legend>
              <button
                type="button"
                className="chip"
                aria-pressed={way === "kubeconfig"}
                onClick={() => changed(setWay)("kubeconfig")}
              >
                {t.import.byKubeconfig}
              </button>
              <button
                type="button"
                className="chip"
                aria-pressed={way === "token"}
                onClick={() => changed(setWay)("token")}
              >
                {t.import.byToken}
              </button>
            </fieldset>
            {way === "kubeconfig" ? (
              <>
                <TextArea
                  label={t.import.kubeconfig}
                  hint={t.import.kubeconfigHint}
                  rows={10}
                  className="mono"
                  value={kubeconfig}
                  required
                  onChange={(event) => changed(setKubeconfig)(event.target.value)}
                />
                <label className="button upload">
                  <Upload size={15} aria-hidden />
                  {t.import.upload}
                  <input type="file" className="hidden" onChange={upload} />
                </label>
              </>
            ) : (
              <>
                <Field
                  label={t.import.server}
                  placeholder="https://10.0.0.1:6443"
                  value={server}
                  required
                  onChange={(event) => changed(setServer)(event.target.value)}
                />
                <TextArea
                  label={t.import.ca}
                  rows={4}
                  className="mono"
                  placeholder="-----BEGIN CERTIFICATE-----"
                  value={ca}
                  onChange={(event) => changed(setCa)(event.target.value)}
                />
                <Field
                  label={t.import.token}
                  type="password"
                  autoComplete="off"
                  value={token}
                  required
                  onChange={(event) => changed(setToken)(event.target.value)}
                />
              </>
            )}
            <Field
              label={t.common.labels}
              hint={t.import.labelsHint}
              wrong={read === null ? t.import.labelsWrong : undefined}
              placeholder="region=north, tier=prod"
              value={labels}
              onChange={(event) => changed(setLabels)(event.target.value)}
            />
            <details>
              <summary>{t.import.allow}</summary>
              <fieldset className="choices">
                <legend className="muted">{t.import.allowWhy}</legend>
                {ALLOWANCES.map((word) => (
                  <label key={word} className="row">
                    <input
                      type="checkbox"
                      checked={allow.includes(word)}
                      onChange={(event) =>
                        changed(setAllow)(event.target.checked ? [...allow, word] : allow.filter((one) => one !== word))
                      }
                    />
                    {t.import.allowances[word]}
                  </label>
                ))}
              </fieldset>
            </details>
            {error && <Problem error={error} compact />}
            <div className="actions">
              <Button type="submit" look={preview ? "plain" : "primary"} disabled={!complete || busy}>
                {t.import.check}
              </Button>
            </div>
          </form>
        </Card>
        <div className="stack">
          {preview && (
            <Card title={t.import.understood}>
              <Facts
                facts={[
                  [t.import.name, preview.name],
                  [t.import.server, preview.server ?? "–"],
                  [t.import.user, preview.user ?? "–"],
                  [t.import.trust, preview.trust ?? "–"],
                  [
                    t.import.fingerprint,
                    preview.fingerprints?.length ? <code key="ca">{preview.fingerprints.join(" ")}</code> : "–",
                  ],
                ]}
              />
              <p className="muted">{t.import.stored}</p>
              {preview.exists && <p className="banner warn">{t.import.exists}</p>}
              {preview.allow && preview.allow.length > 0 && (
                <p className="banner warn">
                  {t.import.allowed} <code>{preview.allow.join(", ")}</code>
                </p>
              )}
              {refused.length > 0 ? (
                <div className="problem compact" role="alert">
                  <ShieldAlert size={16} aria-hidden />
                  <div>
                    <strong>{t.import.refused}</strong>
                    <ul>
                      {refused.map((one) => (
                        <li key={one.field}>
                          <code>{one.field}</code> {one.why} {one.remedy && <span className="muted">{one.remedy}</span>}
                        </li>
                      ))}
                    </ul>
                  </div>
                </div>
              ) : (
                <p className="row good">
                  <Check size={16} aria-hidden /> {t.import.nothingRefused}
                </p>
              )}
              <div className="actions">
                <Button
                  look="primary"
                  disabled={busy || refused.length > 0 || preview.exists === true}
                  onClick={() => void send(false)}
                >
                  {t.clusters.import}
                </Button>
              </div>
            </Card>
          )}
          <Card title={t.import.byCommand}>
            <CommandLine command={importCommand(name)} />
          </Card>
          <MemberRole />
        </div>
      </div>
    </Page>
  );
}
