// The small parts everything is made of: buttons, status words, ages, copyable commands.
import {
  AlertTriangle,
  Check,
  CheckCircle2,
  CircleDashed,
  CircleDot,
  Copy as CopyIcon,
  type LucideIcon,
  XCircle,
} from "lucide-react";
import { type ButtonHTMLAttributes, type ReactNode, useEffect, useState } from "react";
import { useLanguage, useText } from "../i18n";
import { copy } from "../lib/clipboard";
import { useNow } from "../lib/clock";
import { age, fullTime } from "../lib/format";
import { Link } from "../router/router";
import { toast } from "./toast";

type ButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & {
  look?: "plain" | "primary" | "quiet" | "danger";
  icon?: LucideIcon;
};

export function Button({ look = "plain", icon: Icon, children, className, type = "button", ...rest }: ButtonProps) {
  return (
    <button type={type} className={`button ${look} ${className ?? ""}`} {...rest}>
      {Icon && <Icon size={15} aria-hidden />}
      {children}
    </button>
  );
}

export function LinkButton({
  to,
  look = "plain",
  icon: Icon,
  children,
}: {
  to: string;
  look?: "plain" | "primary" | "quiet";
  icon?: LucideIcon;
  children: ReactNode;
}) {
  return (
    <Link to={to} className={`button ${look}`}>
      {Icon && <Icon size={15} aria-hidden />}
      {children}
    </Link>
  );
}

type IconButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { icon: LucideIcon; label: string; pressed?: boolean };

export function IconButton({ icon: Icon, label, pressed, className, ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      className={`icon-button ${className ?? ""}`}
      aria-label={label}
      title={label}
      {...(pressed !== undefined && { "aria-pressed": pressed })}
      {...rest}
    >
      <Icon size={16} aria-hidden />
    </button>
  );
}

export type Tone = "good" | "busy" | "warn" | "bad" | "off";

const tones: Record<Tone, LucideIcon> = {
  good: CheckCircle2,
  busy: CircleDashed,
  warn: AlertTriangle,
  bad: XCircle,
  off: CircleDot,
};

/** How something is: an icon, a colour and a word, so that no one of them has to be seen. */
export function Status({ tone, word, why }: { tone: Tone; word: string; why?: string | undefined }) {
  const Icon = tones[tone];
  return (
    <span className={`status ${tone}`} title={why || undefined}>
      <Icon size={14} aria-hidden />
      <span>{word}</span>
    </span>
  );
}

const GOOD = new Set([
  "Running",
  "Ready",
  "Available",
  "Active",
  "Bound",
  "Complete",
  "Succeeded",
  "DONE",
  "Established",
  "deployed",
  "True",
  "Healthy",
]);
const BAD = new Set([
  "Failed",
  "NotReady",
  "Unavailable",
  "Unreachable",
  "Error",
  "CrashLoopBackOff",
  "ImagePullBackOff",
  "ErrImagePull",
  "Lost",
  "failed",
  "FAILED",
  "Unknown",
]);
const OFF = new Set(["Completed", "Suspended", "Paused", "superseded", "uninstalled"]);

/** A tone for a word that any kind may say. */
export const toneOf = (word: string): Tone =>
  GOOD.has(word) ? "good" : BAD.has(word) ? "bad" : OFF.has(word) ? "off" : "busy";

export function Phase({ word, why }: { word: string | undefined; why?: string | undefined }) {
  if (!word) return <span className="muted">–</span>;
  return <Status tone={toneOf(word)} word={word} why={why} />;
}

export function Age({ of }: { of: string | number | undefined }) {
  const language = useLanguage();
  const now = useNow();
  if (of === undefined || of === "") return <span className="muted">–</span>;
  return (
    <time
      className="number"
      dateTime={new Date(of).toString() === "Invalid Date" ? "" : new Date(of).toISOString()}
      title={fullTime(of, language)}
    >
      {age(of, now, language)}
    </time>
  );
}

export function CopyButton({ text: what, label }: { text: string; label?: string }) {
  const t = useText();
  const [done, setDone] = useState(false);
  const act = async () => {
    if (await copy(what)) {
      setDone(true);
      setTimeout(() => setDone(false), 1_500);
    } else toast({ tone: "warn", title: t.common.copyFailed });
  };
  return <IconButton icon={done ? Check : CopyIcon} label={label ?? t.common.copy} onClick={() => void act()} />;
}

/** A command to be copied into a shell. */
export function CommandLine({ command }: { command: string }) {
  const t = useText();
  return (
    <div className="command-line">
      <code>{command}</code>
      <CopyButton text={command} label={t.common.copyCommand} />
    </div>
  );
}

/** A part of a whole. Of what is used much is a warning; of what should be ready, anything less than all. */
export function Meter({ part, whole, label, ready }: { part: number; whole: number; label: string; ready?: boolean }) {
  const share = whole > 0 ? Math.min(1, part / whole) : 0;
  const ill = ready ? 1 - share : share;
  const tone = ready
    ? ill > 0.2
      ? "bad"
      : ill > 0
        ? "warn"
        : "good"
    : ill > 0.95
      ? "bad"
      : ill > 0.8
        ? "warn"
        : "good";
  return (
    // biome-ignore lint/a11y/useSemanticElements: browsers draw <meter> each in its own way
    <span
      className={`meter ${tone}`}
      role="meter"
      aria-label={label}
      title={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={Math.round(share * 100)}
    >
      <span style={{ width: `${share * 100}%` }} />
    </span>
  );
}

export const Spinner = ({ label }: { label: string }) => (
  <div className="waiting" role="status">
    <span className="spinner" aria-hidden />
    {label}
  </div>
);

export const Kbd = ({ children }: { children: ReactNode }) => <kbd className="kbd">{children}</kbd>;

export function Labels({ of, most = 4 }: { of: Record<string, string> | undefined; most?: number }) {
  const all = Object.entries(of ?? {});
  if (all.length === 0) return <span className="muted">–</span>;
  return (
    <span className="labels">
      {all.slice(0, most).map(([key, value]) => (
        <span className="label" key={key} title={`${key}=${value}`}>
          {key}={value}
        </span>
      ))}
      {all.length > most && (
        <span
          className="label more"
          title={all
            .slice(most)
            .map(([key, value]) => `${key}=${value}`)
            .join("\n")}
        >
          +{all.length - most}
        </span>
      )}
    </span>
  );
}

interface PageProps {
  title: ReactNode;
  /** What the browser's tab says, when the title is more than a text. */
  name?: string;
  subtitle?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

export function Page({ title, name, subtitle, actions, children }: PageProps) {
  const tab = name ?? (typeof title === "string" ? title : "");
  useEffect(() => {
    document.title = tab ? `${tab} · Muster` : "Muster";
  }, [tab]);
  return (
    <div className="page">
      <header className="page-head">
        <div>
          <h1>{title}</h1>
          {subtitle && <p className="muted">{subtitle}</p>}
        </div>
        {actions && <div className="actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Card({
  title,
  actions,
  children,
  flush,
}: {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  flush?: boolean;
}) {
  return (
    <section className={`card ${flush ? "flush" : ""}`}>
      {(title || actions) && (
        <header className="card-head">
          {title && <h2>{title}</h2>}
          {actions && <div className="actions">{actions}</div>}
        </header>
      )}
      {children}
    </section>
  );
}

export function Tabs({
  label,
  tabs,
  current,
}: {
  label: string;
  tabs: { name: string; label: string; to: string }[];
  current: string;
}) {
  return (
    <nav className="tabs" aria-label={label}>
      {tabs.map((tab) => (
        <Link key={tab.name} to={tab.to} {...(tab.name === current && { "aria-current": "page" as const })}>
          {tab.label}
        </Link>
      ))}
    </nav>
  );
}

export const Facts = ({ facts }: { facts: [string, ReactNode][] }) => (
  <dl className="facts">
    {facts.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);
