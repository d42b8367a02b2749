// The address bar as state: where we are, going elsewhere, links. Lists keep their page, order and filters here, so that every view can be shared.
import { type AnchorHTMLAttributes, type MouseEvent, useCallback, useMemo, useSyncExternalStore } from "react";
import { follow } from "./match";

const listeners = new Set<() => void>();
const notify = () => {
  for (const listener of listeners) listener();
};
window.addEventListener("popstate", notify);

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
  };
};
const here = () => location.pathname + location.search;

export function navigate(to: string, how: { replace?: boolean } = {}): void {
  const target = follow(to, location.search);
  if (target === here()) return;
  const samePage = target.split("?")[0] === location.pathname;
  history[how.replace ? "replaceState" : "pushState"](null, "", target);
  notify();
  if (!samePage) {
    document.getElementById("content")?.scrollTo(0, 0);
    // Screen readers and the keyboard go on in the new page.
    requestAnimationFrame(() => document.getElementById("content")?.focus({ preventScroll: true }));
  }
}

export interface Where {
  path: string;
  query: URLSearchParams;
}

export function useWhere(): Where {
  const at = useSyncExternalStore(subscribe, here);
  return useMemo(() => {
    const [path = "/", query = ""] = at.split("?", 2);
    return { path, query: new URLSearchParams(query) };
  }, [at]);
}

/** Changes query parameters of the present page; `null` takes one away. */
export function setQuery(changes: Record<string, string | null>, how: { replace?: boolean } = { replace: true }): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history[how.replace ? "replaceState" : "pushState"](null, "", location.pathname + (text ? `?${text}` : ""));
  notify();
}

/** One query parameter as state. */
export function useParameter(name: string, otherwise = ""): [string, (value: string | null) => void] {
  const { query } = useWhere();
  const set = useCallback((value: string | null) => setQuery({ [name]: value }), [name]);
  return [query.get(name) ?? otherwise, set];
}

type LinkProps = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "href"> & { to: string };

export function Link({ to, onClick, children, ...rest }: LinkProps) {
  const { query } = useWhere();
  const href = follow(to, query.toString());
  const go = (event: MouseEvent<HTMLAnchorElement>) => {
    onClick?.(event);
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!plain || event.defaultPrevented || rest.target) return;
    event.preventDefault();
    navigate(to);
  };
  return (
    <a {...rest} href={href} onClick={go}>
      {children}
    </a>
  );
}

const SCOPE = "scope";

/** Which members the pages look at: "all", or one member. It is part of the address. */
export function useScope(): [string, (scope: string) => void] {
  const { query } = useWhere();
  const set = useCallback((scope: string) => setQuery({ [SCOPE]: scope === "all" ? null : scope, page: null }), []);
  return [query.get(SCOPE) ?? "all", set];
}
