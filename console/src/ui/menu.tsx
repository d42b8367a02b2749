// A button that opens a short list of things to do; arrows move, Escape and a click elsewhere close.
import { type LucideIcon, MoreHorizontal } from "lucide-react";
import {
  type CSSProperties,
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from "react";

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
}

const GAP = 4;

/** Below the button, or above it where there is no room; fixed, so that no scrolling box cuts it off. */
function placed(button: DOMRect, list: HTMLElement): CSSProperties {
  const below = button.bottom + GAP + list.offsetHeight <= window.innerHeight;
  const left = Math.max(GAP, Math.min(button.right - list.offsetWidth, window.innerWidth - list.offsetWidth - GAP));
  return { left, top: below ? button.bottom + GAP : Math.max(GAP, button.top - GAP - list.offsetHeight) };
}

export function Menu({ label, items, children, className }: MenuProps) {
  const [open, setOpen] = useState(false);
  const [place, setPlace] = useState<CSSProperties>({});
  const list = useRef<HTMLDivElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);

  useLayoutEffect(() => {
    if (open && button.current && list.current) setPlace(placed(button.current.getBoundingClientRect(), list.current));
  }, [open]);

  useEffect(() => {
    if (!open) return;
    const away = () => setOpen(false);
    const outside = (event: Event) => {
      if (!box.current?.contains(event.target as Node)) setOpen(false);
    };
    // The list goes with its button, for a live page moves by itself, and closes when that is out of sight.
    const scrolled = (event: Event) => {
      if (!(event.target instanceof Node && event.target.contains(box.current))) return;
      const at = button.current?.getBoundingClientRect();
      if (!at || !list.current || at.bottom < 0 || at.top > window.innerHeight) setOpen(false);
      else setPlace(placed(at, list.current));
    };
    document.addEventListener("pointerdown", outside);
    window.addEventListener("resize", away);
    document.addEventListener("scroll", scrolled, true);
    box.current?.querySelector<HTMLButtonElement>('[role="menuitem"]:not(:disabled)')?.focus({ preventScroll: true });
    return () => {
      document.removeEventListener("pointerdown", outside);
      window.removeEventListener("resize", away);
      document.removeEventListener("scroll", scrolled, true);
    };
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
        <div ref={list} className="menu-list" role="menu" aria-label={label} style={place}>
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
