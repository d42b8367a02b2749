// A new password, typed twice.
import { useState } from "react";
import { useText } from "../../i18n";
import { Field } from "../../ui/field";

const SHORTEST = 12;

export function useNewPassword() {
  const [password, setPassword] = useState("");
  const [again, setAgain] = useState("");
  const [tried, setTried] = useState(false);
  return {
    password,
    setPassword,
    again,
    setAgain,
    tried,
    /** Whether it may be sent. From now on the fields say why not. */
    good: () => {
      setTried(true);
      return password.length >= SHORTEST && password === again;
    },
    clear: () => {
      setPassword("");
      setAgain("");
      setTried(false);
    },
  };
}

interface Props {
  label: string;
  of: ReturnType<typeof useNewPassword>;
  autoFocus?: boolean;
}

export function NewPassword({ label, of, autoFocus }: Props) {
  const t = useText();
  const { password, again, tried } = of;
  const common = { type: "password", autoComplete: "new-password", required: true };
  return (
    <>
      <Field
        {...common}
        label={label}
        name="password"
        autoFocus={autoFocus}
        value={password}
        hint={t.setup.rule(SHORTEST)}
        wrong={tried && password.length < SHORTEST ? t.setup.tooShort(SHORTEST) : undefined}
        onChange={(event) => of.setPassword(event.target.value)}
      />
      <Field
        {...common}
        label={t.setup.again}
        name="again"
        value={again}
        wrong={tried && password !== again ? t.setup.differs : undefined}
        onChange={(event) => of.setAgain(event.target.value)}
      />
    </>
  );
}
