// Short news in the corner: what was done, or why not. They go by themselves, failures only by hand.
import { X } from "lucide-react";
import { useText } from "../i18n";
import { store, useStore } from "../lib/store";

export interface Toast {
  tone: "good" | "warn" | "bad";
  title: string;
  detail?: string;
}

const MOST = 4;
const toasts = store<(Toast & { id: number })[]>([]);
let next = 0;

export const dismiss = (id: number) => toasts.set((now) => now.filter((one) => one.id !== id));

export function toast(news: Toast): void {
  next += 1;
  const id = next;
  toasts.set((now) => [...now.slice(1 - MOST), { ...news, id }]);
  if (news.tone !== "bad") setTimeout(() => dismiss(id), 6_000);
}

export function Toasts() {
  const t = useText();
  const all = useStore(toasts);
  return (
    <div className="toasts" role="log" aria-live="polite" aria-label={t.common.news}>
      {all.map((one) => (
        <div key={one.id} className={`toast ${one.tone}`}>
          <div>
            <strong>{one.title}</strong>
            {one.detail && <p>{one.detail}</p>}
          </div>
          <button type="button" className="icon-button" aria-label={t.common.close} onClick={() => dismiss(one.id)}>
            <X size={14} aria-hidden />
          </button>
        </div>
      ))}
    </div>
  );
}
