// A labelled input with room for a hint and for what is wrong with it.
import { type InputHTMLAttributes, type ReactNode, type TextareaHTMLAttributes, useId } from "react";

interface Around {
  label: string;
  hint?: ReactNode;
  wrong?: string | undefined;
}

export function Field({ label, hint, wrong, ...rest }: Around & InputHTMLAttributes<HTMLInputElement>) {
  const id = useId();
  const described = wrong ? `${id}-wrong` : hint ? `${id}-hint` : undefined;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <input id={id} aria-describedby={described} aria-invalid={wrong ? true : undefined} {...rest} />
      <Notes id={id} hint={hint} wrong={wrong} />
    </div>
  );
}

export function TextArea({ label, hint, wrong, ...rest }: Around & TextareaHTMLAttributes<HTMLTextAreaElement>) {
  const id = useId();
  const described = wrong ? `${id}-wrong` : hint ? `${id}-hint` : undefined;
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea
        id={id}
        aria-describedby={described}
        aria-invalid={wrong ? true : undefined}
        spellCheck={false}
        {...rest}
      />
      <Notes id={id} hint={hint} wrong={wrong} />
    </div>
  );
}

function Notes({ id, hint, wrong }: { id: string; hint?: ReactNode; wrong?: string | undefined }) {
  if (wrong)
    return (
      <p className="wrong" id={`${id}-wrong`} role="alert">
        {wrong}
      </p>
    );
  if (hint)
    return (
      <p className="hint muted" id={`${id}-hint`}>
        {hint}
      </p>
    );
  return null;
}
