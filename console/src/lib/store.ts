// A value that components can watch, and that may outlive the page in the browser's storage.
import { useSyncExternalStore } from "react";

export interface Store<T> {
  get(): T;
  set(next: T | ((now: T) => T)): void;
  subscribe(listener: () => void): () => void;
}

export function store<T>(first: T): Store<T> {
  let value = first;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      const now = typeof next === "function" ? (next as (now: T) => T)(value) : next;
      if (Object.is(now, value)) return;
      value = now;
      for (const listener of listeners) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

/** Kept in localStorage; what is found there is used only if `valid` says so. */
export function kept<T>(key: string, first: T, valid: (value: unknown) => value is T): Store<T> {
  const name = `muster.${key}`;
  let start = first;
  try {
    const found: unknown = JSON.parse(localStorage.getItem(name) ?? "null");
    if (valid(found)) start = found;
  } catch {
    // No storage, or not ours: begin afresh.
  }
  const inner = store(start);
  inner.subscribe(() => {
    try {
      localStorage.setItem(name, JSON.stringify(inner.get()));
    } catch {
      // A full or forbidden storage only means that the choice is forgotten.
    }
  });
  return inner;
}

export const useStore = <T>(from: Store<T>): T => useSyncExternalStore(from.subscribe, from.get);
