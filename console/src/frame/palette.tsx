// ⌘K: pages, actions and anything that the server finds by name.
import { Boxes, CornerDownLeft, FileBox, type LucideIcon, Search, Server } from "lucide-react";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { useRead } from "../api/hooks";
import { groupName, withQuery } from "../api/paths";
import type { Found } from "../api/types";
import { language, useText } from "../i18n";
import { isDark, theme } from "../lib/theme";
import { navigate } from "../router/router";
import { PLACES } from "./keys";
import { logout } from "./session";

interface Choice {
  key: string;
  label: string;
  detail?: string;
  icon?: LucideIcon;
  hint?: string;
  act: () => void;
}

/** The page of something found. */
export function placeOf(found: Found): string {
  const part = encodeURIComponent;
  if (/^clusters?$/i.test(found.kind) || found.kind === "Member") return `/clusters/${part(found.name)}`;
  const [group, plural] = KNOWN[found.kind] ?? ["", `${found.kind.toLowerCase()}s`];
  return `/explore/${groupName(group)}/v1/${plural}/${part(found.cluster ?? "")}/${part(found.namespace ?? "-")}/${part(found.name)}`;
}
const KNOWN: Record<string, [string, string]> = {
  Pod: ["", "pods"],
  Node: ["", "nodes"],
  Service: ["", "services"],
  Deployment: ["apps", "deployments"],
  StatefulSet: ["apps", "statefulsets"],
  DaemonSet: ["apps", "daemonsets"],
};

export function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }) {
  const t = useText();
  const id = useId();
  const box = useRef<HTMLDialogElement>(null);
  const [typed, setTyped] = useState("");
  const [asked, setAsked] = useState("");
  const [at, setAt] = useState(0);
  useEffect(() => {
    if (box.current && !box.current.open) box.current.showModal();
  }, []);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(typed.trim()), 150);
    return () => clearTimeout(timer);
  }, [typed]);
  const found = useRead<Found[]>(withQuery("/wapi/v1/search", { q: asked }), {
    enabled: asked.length > 1,
    once: true,
  });

  const pages: Choice[] = (
    [
      ["o", t.nav.overview],
      ["c", t.nav.clusters],
      ["p", t.nav.pods],
      ["x", t.nav.explore],
      ["e", t.nav.events],
      ["r", t.nav.reconcilers],
      ["a", t.nav.audit],
      ["s", t.nav.settings],
    ] as const
  ).map(([key, label]) => ({ key: `page ${key}`, label, hint: `g ${key}`, act: () => navigate(PLACES[key] ?? "/") }));
  const actions: Choice[] = [
    { key: "import", label: t.clusters.import, act: () => navigate("/clusters/import") },
    { key: "theme", label: isDark() ? t.frame.light : t.frame.dark, act: () => theme.set(isDark() ? "light" : "dark") },
    { key: "language", label: t.frame.otherLanguage, act: () => language.set(language.get() === "en" ? "zh" : "en") },
    { key: "keys", label: t.frame.keys, hint: "?", act: onHelp },
    { key: "logout", label: t.frame.logout, act: () => void logout() },
  ];
  const wanted = typed.trim().toLowerCase();
  const local = [...pages, ...actions].filter((choice) => choice.label.toLowerCase().includes(wanted));
  const remote: Choice[] =
    asked.length > 1 && wanted
      ? (found.data ?? []).map((one) => ({
          key: `${one.kind} ${one.cluster} ${one.namespace} ${one.name}`,
          label: one.name,
          detail: [one.kind, one.cluster, one.namespace].filter(Boolean).join(" · "),
          icon: one.kind === "Pod" ? Boxes : /cluster|member/i.test(one.kind) ? Server : FileBox,
          act: () => navigate(placeOf(one)),
        }))
      : [];
  const choices = wanted ? [...remote, ...local] : local;
  const current = Math.min(at, choices.length - 1);

  const run = (choice: Choice | undefined) => {
    if (!choice) return;
    onClose();
    choice.act();
  };
  const onKey = (event: KeyboardEvent) => {
    event.stopPropagation();
    if (event.key === "ArrowDown") setAt(Math.min(choices.length - 1, current + 1));
    else if (event.key === "ArrowUp") setAt(Math.max(0, current - 1));
    else if (event.key === "Enter") run(choices[current]);
    else if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") onClose();
    else return;
    event.preventDefault();
  };
  return (
    <dialog
      ref={box}
      className="palette"
      aria-label={t.frame.search}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onKeyDown={onKey}
      onClick={(event) => event.target === box.current && onClose()}
    >
      <div className="palette-input">
        <Search size={16} aria-hidden />
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls={`${id}-list`}
          aria-activedescendant={choices[current] ? `${id}-${current}` : undefined}
          aria-label={t.frame.search}
          placeholder={t.palette.placeholder}
          value={typed}
          spellCheck={false}
          autoComplete="off"
          onChange={(event) => {
            setTyped(event.target.value);
            setAt(0);
          }}
        />
      </div>
      <div className="palette-list" id={`${id}-list`} role="listbox" aria-label={t.palette.results} tabIndex={-1}>
        {choices.map((choice, n) => {
          const Icon = choice.icon ?? CornerDownLeft;
          return (
            // biome-ignore lint/a11y/useKeyWithClickEvents: the input above moves through the list
            <div
              key={choice.key}
              id={`${id}-${n}`}
              role="option"
              tabIndex={-1}
              aria-selected={n === current}
              ref={n === current ? (row) => row?.scrollIntoView?.({ block: "nearest" }) : undefined}
              onClick={() => run(choice)}
              onPointerMove={() => setAt(n)}
            >
              <Icon size={15} aria-hidden />
              <span className="grow clip">{choice.label}</span>
              {choice.detail && <span className="muted clip">{choice.detail}</span>}
              {choice.hint && <kbd className="kbd">{choice.hint}</kbd>}
            </div>
          );
        })}
        {choices.length === 0 && (
          <p className="muted palette-none">{found.isFetching ? t.common.loading : t.palette.nothing}</p>
        )}
      </div>
    </dialog>
  );
}
