// Logging in. The answer is the same for an unknown user and a wrong password.
import { type FormEvent, useState } from "react";
import { login, Refusal } from "../../api/client";
import { enter } from "../../frame/session";
import { useText } from "../../i18n";
import { Button } from "../../ui/basics";
import { Field } from "../../ui/field";
import { Problem } from "../../ui/problem";
import { Shell } from "./shell";

export function Login({ demo, ended }: { demo: boolean; ended: boolean }) {
  const t = useText();
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const wrong = error instanceof Refusal && error.code === 401;

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      enter(await login(user, password));
    } catch (problem) {
      setError(problem as Error);
      setPassword("");
    } finally {
      setBusy(false);
    }
  };
  return (
    <Shell title={t.login.title}>
      {ended && (
        <p className="banner warn" role="status">
          {t.login.ended}
        </p>
      )}
      {demo && (
        <p className="banner" role="status">
          {t.login.demo} <code>admin</code> / <code>teleport</code>
        </p>
      )}
      <form onSubmit={(event) => void submit(event)}>
        <Field
          label={t.login.user}
          name="username"
          autoComplete="username"
          autoFocus
          required
          value={user}
          onChange={(event) => setUser(event.target.value)}
        />
        <Field
          label={t.login.password}
          name="password"
          type="password"
          autoComplete="current-password"
          required
          value={password}
          wrong={wrong ? t.login.wrong : undefined}
          onChange={(event) => setPassword(event.target.value)}
        />
        {error && !wrong && <Problem error={error} compact />}
        <Button type="submit" look="primary" disabled={busy}>
          {busy ? t.login.busy : t.login.submit}
        </Button>
      </form>
    </Shell>
  );
}
