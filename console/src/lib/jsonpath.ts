// The JSONPath of printer columns, as far as definitions use it: keys, places in lists, all of a list, elements that have a value. Pure.
import type { Json } from "../api/types";

export type Step =
  | { is: "key"; key: string }
  | { is: "at"; index: number }
  | { is: "all" }
  | { is: "where"; path: Step[]; equals: Json; not: boolean };

const LONGEST = 512;
const MOST_STEPS = 24;
const MOST_FOUND = 100;

/** What may stand next in a path, and what it means. */
const READERS: [RegExp, (match: RegExpExecArray) => Step | null][] = [
  [/^(?:\[\*\]|\.\*)/, () => ({ is: "all" })],
  [/^\[(-?\d+)\]/, (match) => ({ is: "at", index: Number(match[1]) })],
  [
    /^\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]/,
    (match) => ({ is: "key", key: unquoted(match[1] ?? match[2] ?? "") }),
  ],
  [
    /^\[\?\(\s*@((?:\.[A-Za-z0-9_$\-/]+|\[(?:'[^']*'|"[^"]*")\])+)\s*(==|!=)\s*("[^"]*"|'[^']*'|[^\s()]+)\s*\)\]/,
    (match) => {
      const path = steps(match[1] ?? "");
      return path && { is: "where", path, equals: literal(match[3] ?? ""), not: match[2] === "!=" };
    },
  ],
  // `a\.b` is one key with a dot in it.
  [/^\.?((?:[A-Za-z0-9_$\-/]|\\\.)+)/, (match) => ({ is: "key", key: unquoted(match[1] ?? "") })],
];

/** The steps of a path, or nothing when it says more than is understood here. */
export function steps(path: string): Step[] | null {
  if (path.length > LONGEST) return null;
  let rest = path.trim().replace(/^\{(.*)\}$/, "$1");
  if (rest.startsWith("$")) rest = rest.slice(1);
  const found: Step[] = [];
  while (rest) {
    const read = READERS.map(([pattern, make]) => ({ match: pattern.exec(rest), make })).find((one) => one.match);
    const step = read?.match && read.make(read.match);
    if (!step || found.length >= MOST_STEPS) return null;
    found.push(step);
    rest = rest.slice(read.match?.[0].length);
  }
  return found.length > 0 ? found : null;
}

const unquoted = (text: string) => text.replace(/\\(.)/g, "$1");

function literal(text: string): Json {
  if (/^["']/.test(text)) return text.slice(1, -1);
  if (text === "true" || text === "false") return text === "true";
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

/** What stands at the end of the path: nothing, one value, or several. */
export function find(value: Json | undefined, path: readonly Step[]): Json[] {
  let found: Json[] = value === undefined ? [] : [value];
  for (const step of path) found = found.flatMap((one) => next(one, step)).slice(0, MOST_FOUND);
  return found;
}

function next(value: Json, step: Step): Json[] {
  const list = Array.isArray(value) ? value : null;
  const map =
    !list && typeof value === "object" && value !== null ? (value as { [key: string]: Json | undefined }) : null;
  if (step.is === "key") {
    // Of an object only what is its own: `constructor` is a name like any other.
    const inner = map && Object.hasOwn(map, step.key) ? map[step.key] : undefined;
    return inner === undefined || inner === null ? [] : [inner];
  }
  if (step.is === "at") {
    const inner = list?.at(step.index);
    return inner === undefined || inner === null ? [] : [inner];
  }
  const all = list ?? (map ? Object.values(map).filter((one): one is Json => one !== undefined) : []);
  if (step.is === "all") return all;
  return all.filter((one) => (find(one, step.path)[0] === step.equals) !== step.not);
}
