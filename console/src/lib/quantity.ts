// Amounts as Kubernetes writes them: 500m, 16Gi, 1e3.
const SUFFIX: Record<string, number> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  Ki: 1024,
  Mi: 1024 ** 2,
  Gi: 1024 ** 3,
  Ti: 1024 ** 4,
  Pi: 1024 ** 5,
};

/** The value, or 0 for what cannot be read. */
export function quantity(text: string): number {
  const found = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/.exec(text);
  if (!found) return 0;
  const factor = SUFFIX[found[2] ?? ""];
  return factor === undefined ? 0 : Number(found[1]) * factor;
}
