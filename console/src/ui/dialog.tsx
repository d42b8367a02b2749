// The browser's own dialog: it keeps the focus inside, closes with Escape and gives the focus back.
import { X } from "lucide-react";
import { type ReactNode, useId, useLayoutEffect, useRef, useState } from "react";
import { useText } from "../i18n";
import { Button, IconButton } from "./basics";

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ReactNode;
  foot?: ReactNode;
  wide?: boolean;
}

export function Dialog({ title, onClose, children, foot, wide }: DialogProps) {
  const t = useText();
  const id = useId();
  const box = useRef<HTMLDialogElement>(null);
  // Before the effects of what is inside: they may want to measure it.
  useLayoutEffect(() => {
    const dialog = box.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={box}
      className={`dialog ${wide ? "wide" : ""}`}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onKeyDown={(event) => event.stopPropagation()}
    >
      <header className="dialog-head">
        <h2 id={id}>{title}</h2>
        <IconButton icon={X} label={t.common.close} onClick={onClose} />
      </header>
      <div className="dialog-body">{children}</div>
      {foot && <footer className="dialog-foot">{foot}</footer>}
    </dialog>
  );
}

interface ConfirmProps {
  title: string;
  children: ReactNode;
  action: string;
  /** Must be typed before the button works: for what cannot be undone. */
  typed?: string;
  onClose: () => void;
  onConfirm: () => Promise<void>;
}

export function Confirm({ title, children, action, typed, onClose, onConfirm }: ConfirmProps) {
  const t = useText();
  const id = useId();
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const ready = (typed === undefined || text === typed) && !busy;
  const act = async () => {
    if (!ready) return;
    setBusy(true);
    try {
      await onConfirm();
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      foot={
        <>
          <Button onClick={onClose}>{t.common.cancel}</Button>
          <Button look="danger" disabled={!ready} onClick={() => void act()}>
            {action}
          </Button>
        </>
      }
    >
      {children}
      {typed !== undefined && (
        <div className="field">
          <label htmlFor={id}>{t.common.typeToConfirm(typed)}</label>
          <input
            id={id}
            value={text}
            autoComplete="off"
            spellCheck={false}
            onChange={(event) => setText(event.target.value)}
          />
        </div>
      )}
    </Dialog>
  );
}
