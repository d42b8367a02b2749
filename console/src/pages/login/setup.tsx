// The first administrator, made once with the link that the server printed. The token stands behind #, so it is in no log.
import { type FormEvent, useState } from "react";
import { setup } from "../../api/client";
import { enter } from "../../frame/session";
import { useText } from "../../i18n";
import { navigate } from "../../router/router";
import { Button, CommandLine } from "../../ui/basics";
import { Field } from "../../ui/field";
import { Empty, Problem } from "../../ui/problem";
import { NewPassword, useNewPassword } from "./password";
import { Shell } from "./shell";

const tokenHere = () => new URLSearchParams(location.hash.slice(1)).get("t") ?? "";

export function Setup() {
  const t = useText();
  const [token] = useState(tokenHere);
  const [user, setUser] = useState("admin");
  const next = useNewPassword();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!next.good()) return;
    setBusy(true);
    setError(null);
    try {
      const session = await setup(token, user, next.password);
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
        <NewPassword label={t.setup.password} of={next} autoFocus />
        {error && <Problem error={error} compact />}
        <Button type="submit" look="primary" disabled={busy}>
          {t.setup.submit}
        </Button>
      </form>
    </Shell>
  );
}
