// What is open in the dock. It belongs to no page, so it survives going from one to another.
import type { PodRef } from "../api/paths";
import { store } from "../lib/store";

export interface LogTab {
  kind: "logs";
  id: string;
  title: string;
  pods: PodRef[];
  /** The container to begin with; every pod's first one when absent. */
  container?: string;
}

export interface TerminalTab {
  kind: "terminal";
  id: string;
  title: string;
  pod: PodRef;
  container: string;
}

export type Tab = LogTab | TerminalTab;

export interface Dock {
  tabs: Tab[];
  active: string | null;
  folded: boolean;
  height: number;
}

/** More open streams than this are of no use to anybody and cost the server. */
export const MOST_TABS = 12;
export const MOST_PODS = 20;

export const dock = store<Dock>({ tabs: [], active: null, folded: false, height: 320 });

const podKey = (pod: PodRef) => `${pod.cluster}/${pod.namespace}/${pod.name}`;

function open(tab: Tab): void {
  dock.set((now) => {
    const known = now.tabs.some((one) => one.id === tab.id);
    const tabs = known ? now.tabs : [...now.tabs.slice(1 - MOST_TABS), tab];
    return { ...now, tabs, active: tab.id, folded: false };
  });
}

export function openLogs(pods: PodRef[], container?: string): void {
  const some = pods.slice(0, MOST_PODS);
  const first = some[0];
  if (!first) return;
  const title = some.length === 1 ? first.name : `${first.name} +${some.length - 1}`;
  const id = `logs ${some.map(podKey).join(" ")} ${container ?? ""}`;
  open({ kind: "logs", id, title, pods: some, ...(container && { container }) });
}

let terminals = 0;
export function openTerminal(pod: PodRef, container = ""): void {
  terminals += 1;
  open({ kind: "terminal", id: `terminal ${terminals}`, title: pod.name, pod, container });
}

export function closeTab(id: string): void {
  dock.set((now) => {
    const at = now.tabs.findIndex((tab) => tab.id === id);
    const tabs = now.tabs.filter((tab) => tab.id !== id);
    const active = now.active === id ? (tabs[Math.min(at, tabs.length - 1)]?.id ?? null) : now.active;
    return { ...now, tabs, active };
  });
}

export const closeAll = () => dock.set((now) => ({ ...now, tabs: [], active: null }));
export const activate = (id: string) => dock.set((now) => ({ ...now, active: id, folded: false }));
export const fold = (folded: boolean) => dock.set((now) => ({ ...now, folded }));
export const resize = (height: number) =>
  dock.set((now) => ({ ...now, height: Math.round(Math.max(120, Math.min(height, window.innerHeight - 140))) }));
