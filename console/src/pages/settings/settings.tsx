// What belongs to the user: language, theme, password, and the browsers that are logged in.
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { askJson, changePassword, Refusal } from "../../api/client";
import { useRead } from "../../api/hooks";
import type { OpenSession } from "../../api/types";
import { look, who } from "../../frame/session";
import { type Language, language, useLanguage, useText } from "../../i18n";
import { useStore } from "../../lib/store";
import { type Theme, theme } from "../../lib/theme";
import { useParameter } from "../../router/router";
import { Age, Button, Card, Facts, Page, Spinner, Status } from "../../ui/basics";
import { Field } from "../../ui/field";
import { explain, Problem } from "../../ui/problem";
import { toast } from "../../ui/toast";
import { NewPassword, useNewPassword } from "../login/password";

export default function Settings() {
  const t = useText();
  const chosen = useStore(theme);
  const lang = useLanguage();
  const known = useStore(who);
  const session = known.is === "in" ? known.session : null;
  return (
    <Page title={t.nav.settings} subtitle={t.settings.subtitle}>
      <div className="columns">
        <div className="stack">
          <Card title={t.settings.look}>
            <fieldset className="chips">
              <legend>{t.settings.language}</legend>
              {(
                [
                  ["en", "English"],
                  ["zh", "简体中文"],
                ] as [Language, string][]
              ).map(([value, label]) => (
                <button
                  key={value}
                  type="button"
                  className="chip"
                  lang={value === "zh" ? "zh-CN" : "en"}
                  aria-pressed={lang === value}
                  onClick={() => language.set(value)}
                >
                  {label}
                </button>
              ))}
            </fieldset>
            <fieldset className="chips">
              <legend>{t.settings.theme}</legend>
              {(
                [
                  ["system", t.settings.system],
                  ["light", t.settings.light],
                  ["dark", t.settings.dark],
                ] as [Theme, string][]
              ).map(([value, label]) => (
                <button
                  key={value}
                  type="button"
                  className="chip"
                  aria-pressed={chosen === value}
                  onClick={() => theme.set(value)}
                >
                  {label}
                </button>
              ))}
            </fieldset>
          </Card>
          {session && (
            <Card title={t.settings.you}>
              <Facts
                facts={[
                  [t.login.user, session.user],
                  [t.settings.groups, session.groups.join(", ") || "–"],
                  [t.settings.version, session.version],
                ]}
              />
            </Card>
          )}
          <Password />
        </div>
        <Sessions />
      </div>
    </Page>
  );
}

function Password() {
  const t = useText();
  const [at] = useParameter("at");
  const box = useRef<HTMLDivElement>(null);
  const [old, setOld] = useState("");
  const next = useNewPassword();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  useEffect(() => {
    if (at === "password") box.current?.querySelector("input")?.focus();
  }, [at]);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!next.good()) return;
    setBusy(true);
    setError(null);
    try {
      await changePassword(old, next.password);
      toast({ tone: "good", title: t.settings.passwordChanged, detail: t.settings.othersEnded });
      setOld("");
      next.clear();
      await look();
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };
  const wrongOld = error instanceof Refusal && (error.code === 401 || error.code === 403);
  return (
    <div ref={box}>
      <Card title={t.settings.password}>
        <form className="form" onSubmit={(event) => void submit(event)}>
          <Field
            label={t.settings.old}
            type="password"
            autoComplete="current-password"
            required
            value={old}
            wrong={wrongOld ? t.settings.oldWrong : undefined}
            onChange={(event) => setOld(event.target.value)}
          />
          <NewPassword label={t.settings.new} of={next} />
          {error && !wrongOld && <Problem error={error} compact />}
          <div className="actions">
            <Button type="submit" look="primary" disabled={busy}>
              {t.settings.change}
            </Button>
          </div>
        </form>
      </Card>
    </div>
  );
}

const sessionsPath = "/wapi/v1/sessions";

function Sessions() {
  const t = useText();
  const client = useQueryClient();
  const found = useRead<{ items: OpenSession[] }>(sessionsPath, { notices: null });
  const end = async (session: OpenSession) => {
    try {
      await askJson(`${sessionsPath}/${encodeURIComponent(session.id)}`, { method: "DELETE" });
      await client.invalidateQueries({ queryKey: [sessionsPath] });
      if (session.current) await look();
    } catch (problem) {
      const said = explain(problem, t);
      toast({ tone: "bad", title: said.what, detail: said.why });
    }
  };
  return (
    <Card title={t.settings.sessions}>
      <p className="muted">{t.settings.sessionsWhy}</p>
      {found.error && <Problem error={found.error} compact />}
      {!found.data && !found.error && <Spinner label={t.common.loading} />}
      <ul className="feed">
        {(found.data?.items ?? []).map((session) => (
          <li key={session.id}>
            <span className="row">
              <strong>{session.address ?? "–"}</strong>
              {session.current && <Status tone="good" word={t.settings.thisOne} />}
              <span className="gap" />
              <Button onClick={() => void end(session)}>{t.settings.end}</Button>
            </span>
            <p className="muted clip-2">{session.agent}</p>
            <p className="muted">
              {t.settings.since} <Age of={session.created} /> · {t.settings.used} <Age of={session.used} />
            </p>
          </li>
        ))}
      </ul>
    </Card>
  );
}
