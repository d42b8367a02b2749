// Three versions of an object: what was opened, what the server has now, what the user wrote. Pure.
import type { Json } from "../api/types";

export interface Clash {
  /** As people read it: spec.template.spec.containers[web].image */
  path: string;
  theirs: Json | undefined;
  mine: Json | undefined;
}

export type Side = "theirs" | "mine";

const isMap = (value: Json | undefined): value is { [key: string]: Json | undefined } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

export function same(a: Json | undefined, b: Json | undefined): boolean {
  if (Object.is(a, b)) return true;
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((one, n) => same(one, b[n]));
  if (!isMap(a) || !isMap(b)) return false;
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...keys].every((key) => same(a[key], b[key]));
}

/** Lists of named things (containers, variables, ports) are merged by name; every other list is one value. */
function byName(list: Json | undefined): Map<string, Json> | null {
  if (!Array.isArray(list)) return null;
  const named = new Map<string, Json>();
  for (const one of list) {
    const name = isMap(one) ? one.name : undefined;
    if (typeof name !== "string" || named.has(name)) return null;
    named.set(name, one);
  }
  return named;
}

/** Merges what each side changed since `base`. Where both changed the same differently, `choose` decides; the clash is reported either way. */
export function merge(
  base: Json | undefined,
  theirs: Json | undefined,
  mine: Json | undefined,
  choose: (path: string) => Side,
) {
  const clashes: Clash[] = [];
  const walk = (
    path: string,
    was: Json | undefined,
    them: Json | undefined,
    me: Json | undefined,
  ): Json | undefined => {
    if (same(them, me)) return me;
    if (same(was, them)) return me;
    if (same(was, me)) return them;
    if (isMap(them) && isMap(me)) {
      const before = isMap(was) ? was : {};
      const out: { [key: string]: Json } = {};
      for (const key of new Set([...Object.keys(me), ...Object.keys(them)])) {
        const value = walk(path ? `${path}.${key}` : key, before[key], them[key], me[key]);
        if (value !== undefined) out[key] = value;
      }
      return out;
    }
    const [namedThem, namedMe] = [byName(them), byName(me)];
    if (namedThem && namedMe) {
      const before = byName(was) ?? new Map<string, Json>();
      const out: Json[] = [];
      for (const name of new Set([...namedMe.keys(), ...namedThem.keys()])) {
        const value = walk(`${path}[${name}]`, before.get(name), namedThem.get(name), namedMe.get(name));
        if (value !== undefined) out.push(value);
      }
      return out;
    }
    clashes.push({ path, theirs: them, mine: me });
    return choose(path) === "theirs" ? them : me;
  };
  const merged = walk("", base, theirs, mine);
  return { merged, clashes };
}

/** Paths that were removed on purpose but are still in what the server made of it: they belong to somebody else. */
export function keptByOthers(
  before: Json | undefined,
  mine: Json | undefined,
  after: Json | undefined,
  path = "",
): string[] {
  if (!isMap(before)) return [];
  const [me, now] = [isMap(mine) ? mine : {}, isMap(after) ? after : {}];
  return Object.keys(before).flatMap((key) => {
    const at = path ? `${path}.${key}` : key;
    if (before[key] === undefined) return [];
    if (me[key] === undefined) return now[key] !== undefined ? [at] : [];
    return keptByOthers(before[key], me[key], now[key], at);
  });
}

const SERVERS = ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"];
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** Without what only the server writes: what a person edits. */
export function tidy<T extends { [key: string]: Json | undefined }>(object: T): T {
  const { status: _, ...rest } = object;
  const metadata: { [key: string]: Json | undefined } = isMap(rest.metadata) ? { ...rest.metadata } : {};
  for (const field of SERVERS) delete metadata[field];
  if (isMap(metadata.annotations)) {
    const { [LAST_APPLIED]: __, ...annotations } = metadata.annotations;
    if (Object.keys(annotations).length > 0) metadata.annotations = annotations;
    else delete metadata.annotations;
  }
  return { ...rest, metadata } as unknown as T;
}

/** A Secret's values, hidden; their names stay. */
export function hideValues<T extends { [key: string]: Json | undefined }>(object: T): T {
  if (object.kind !== "Secret" || !isMap(object.data)) return object;
  const data = Object.fromEntries(Object.keys(object.data).map((key) => [key, "••••••••"]));
  return { ...object, data };
}
