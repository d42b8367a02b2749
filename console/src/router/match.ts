// Which page a path means. Pure.

export type Params = Readonly<Record<string, string>>;

/** Matches `/clusters/:name/:tab?` against a path; parameters come back decoded. */
export function match(pattern: string, path: string): Params | null {
  const want = pattern.split("/").filter(Boolean);
  const have = path.split("/").filter(Boolean);
  if (have.length > want.length) return null;
  const params: Record<string, string> = {};
  for (const [n, segment] of want.entries()) {
    const optional = segment.endsWith("?");
    const name = segment.startsWith(":") ? segment.slice(1, optional ? -1 : undefined) : null;
    const given = have[n];
    if (given === undefined) {
      if (optional) continue;
      return null;
    }
    if (name === null) {
      if (segment !== given) return null;
      continue;
    }
    try {
      params[name] = decodeURIComponent(given);
    } catch {
      return null;
    }
  }
  return params;
}

/** Query parameters that follow the user from page to page. */
const STICKY = ["scope"] as const;

/** The address of a link: `to`, with what sticks to the user unless `to` says otherwise. */
export function follow(to: string, search: string): string {
  const [path = "/", query = ""] = to.split("?", 2);
  const next = new URLSearchParams(query);
  const now = new URLSearchParams(search);
  for (const name of STICKY) {
    const value = now.get(name);
    if (value !== null && !next.has(name)) next.set(name, value);
  }
  const text = next.toString();
  return text ? `${path}?${text}` : path;
}
