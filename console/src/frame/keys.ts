// The keyboard: single letters and `g x` sequences, off while somebody types.
import { useEffect } from "react";
import { navigate } from "../router/router";

export const PLACES: Record<string, string> = {
  o: "/",
  c: "/clusters",
  p: "/pods",
  x: "/explore",
  e: "/events",
  r: "/reconcilers",
  a: "/audit",
  s: "/settings",
};

const SEQUENCE_MS = 1_200;

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.closest('[data-keys="own"], dialog, [role="menu"]')) return true;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

interface Wanted {
  palette: () => void;
  help: () => void;
  dock: () => void;
}

export function useKeys({ palette, help, dock }: Wanted): void {
  useEffect(() => {
    let pending = 0;
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        palette();
        return;
      }
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
      if (pending && Date.now() - pending < SEQUENCE_MS) {
        pending = 0;
        const place = PLACES[event.key];
        if (place) {
          event.preventDefault();
          navigate(place);
          return;
        }
      }
      pending = 0;
      if (event.key === "g") pending = Date.now();
      else if (event.key === "?") help();
      else if (event.key === "/") {
        const box = document.querySelector<HTMLInputElement>("[data-search]");
        if (!box) return palette();
        event.preventDefault();
        box.focus();
        box.select();
      } else if (event.key === "j" || event.key === "k") window.dispatchEvent(new Event("muster:enter-list"));
      else if (event.key === "`") dock();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [palette, help, dock]);
}
