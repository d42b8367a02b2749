// The first administrator, made once with the link that the server printed. The token stands behind #, so it is in no log.
import { type FormEvent, useState } from "react";
import { setup } from "../../api/client";
import { enter } from "../../frame/session";
import { useText } from "../../i18n";
import { navigate } from "../../router/router";
import { Button, CommandLine } from "../../ui/basics";
import { Field } from "../../ui/field";
import { Empty, Problem } from "../../ui/problem";
import { Shell } from "./shell";

export const SHORTEST_PASSWORD = 12;

const tokenHere = () => new URLSearchParams(location.hash.slice(1)).get("t") ?? "";

export function Setup() {
  const t = useText();
  const [token] = useState(tokenHere);
  const [user, setUser] = useState("admin");
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);

  const short = password.length < SHORTEST_PASSWORD;
  const differs = password !== again;
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (short || differs) return;
    setBusy(true);
    setError(null);
    try {
      const session = await setup(token, user, password);
      history.replaceState(null, "", "/setup");
      enter(session);
      navigate("/", { replace: true });
    } catch (problem) {
      setError(problem as Error);
    } finally {
      setBusy(false);
    }
  };

  if (!token) {
    return (
      <Shell title={t.setup.title}>
        <Empty title={t.setup.noLink}>
          <p>{t.setup.noLinkNext}</p>
          <CommandLine command="muster up" />
        </Empty>
      </Shell>
    );
  }
  return (
    <Shell title={t.setup.title}>
      <p className="muted">{t.setup.intro}</p>
      <form onSubmit={(event) => void submit(event)}>
        <Field
          label={t.login.user}
          name="username"
          autoComplete="username"
          required
          value={user}
          onChange={(event) => setUser(event.target.value)}
        />
        <Field
          label={t.setup.password}
          type="password"
          name="password"
          autoComplete="new-password"
          required
          autoFocus
          value={password}
          hint={t.setup.rule(SHORTEST_PASSWORD)}
          wrong={tried && short ? t.setup.tooShort(SHORTEST_PASSWORD) : undefined}
          onChange={(event) => setPassword(event.target.value)}
        />
        <Field
          label={t.setup.again}
          type="password"
          name="again"
          autoComplete="new-password"
          required
          value={again}
          wrong={tried && differs ? t.setup.differs : undefined}
          onChange={(event) => setAgain(event.target.value)}
        />
        {error && <Problem error={error} compact />}
        <Button type="submit" look="primary" disabled={busy}>
          {t.setup.submit}
        </Button>
      </form>
    </Shell>
  );
}
