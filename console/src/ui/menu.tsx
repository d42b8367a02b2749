// A button that opens a short list of things to do; arrows move, Escape and a click elsewhere close.
import { type LucideIcon, MoreHorizontal } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useEffect, useRef, useState } from "react";

export interface MenuItem {
  label: string;
  icon?: LucideIcon;
  danger?: boolean;
  disabled?: boolean;
  hint?: string;
  act: () => void;
}

interface MenuProps {
  label: string;
  items: MenuItem[];
  children?: ReactNode;
  className?: string;
  side?: "left" | "right";
}

export function Menu({ label, items, children, className, side = "right" }: MenuProps) {
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  useEffect(() => {
    if (!open) return;
    const outside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    document.addEventListener("pointerdown", outside);
    box.current?.querySelector<HTMLButtonElement>('[role="menuitem"]:not(:disabled)')?.focus();
    return () => document.removeEventListener("pointerdown", outside);
  }, [open]);

  const move = (event: KeyboardEvent) => {
    if (!open) return;
    const all = [...(box.current?.querySelectorAll<HTMLButtonElement>('[role="menuitem"]:not(:disabled)') ?? [])];
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const go = (to: number) => all[(to + all.length) % all.length]?.focus();
    if (event.key === "ArrowDown") go(at + 1);
    else if (event.key === "ArrowUp") go(at - 1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(-1);
    else if (event.key === "Escape") {
      setOpen(false);
      button.current?.focus();
    } else if (event.key === "Tab") {
      setOpen(false);
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    // biome-ignore lint/a11y/noStaticElementInteractions: keys bubble up from the buttons inside
    <div className="menu" ref={box} onKeyDown={move}>
      <button
        ref={button}
        type="button"
        className={className ?? "icon-button"}
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={(event) => {
          event.stopPropagation();
          setOpen(!open);
        }}
      >
        {children ?? <MoreHorizontal size={16} aria-hidden />}
      </button>
      {open && (
        <div className={`menu-list ${side}`} role="menu" aria-label={label}>
          {items.map(({ label: name, icon: Icon, danger, disabled, hint, act }) => (
            <button
              key={name}
              type="button"
              role="menuitem"
              tabIndex={-1}
              className={danger ? "danger" : ""}
              disabled={disabled}
              onClick={(event) => {
                event.stopPropagation();
                setOpen(false);
                button.current?.focus();
                act();
              }}
            >
              {Icon && <Icon size={15} aria-hidden />}
              <span>{name}</span>
              {hint && <kbd className="kbd">{hint}</kbd>}
            </button>
          ))}
        </div>
      )}
    </div>
  );
}
