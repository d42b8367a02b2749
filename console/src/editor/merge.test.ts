import { describe, expect, it } from "vitest";
import { hideValues, keptByOthers, merge, same, tidy } from "./merge";

const mine = () => "mine" as const;
const theirs = () => "theirs" as const;

describe("merging three versions", () => {
  it("takes what only one side changed", () => {
    const result = merge({ a: 1, b: 1, c: 1 }, { a: 2, b: 1, c: 1 }, { a: 1, b: 1, c: 3 }, mine);
    expect(result).toEqual({ merged: { a: 2, b: 1, c: 3 }, clashes: [] });
  });
  it("lets a removal of one side stand", () => {
    expect(merge({ a: 1, b: 1 }, { a: 1, b: 1 }, { a: 1 }, mine).merged).toEqual({ a: 1 });
    expect(merge({ a: 1, b: 1 }, { a: 1 }, { a: 1, b: 1 }, mine).merged).toEqual({ a: 1 });
  });
  it("reports a clash and does as it is told", () => {
    const ask = (choose: typeof mine | typeof theirs) =>
      merge({ spec: { n: 1 } }, { spec: { n: 2 } }, { spec: { n: 3 } }, choose);
    expect(ask(mine)).toEqual({ merged: { spec: { n: 3 } }, clashes: [{ path: "spec.n", theirs: 2, mine: 3 }] });
    expect(ask(theirs).merged).toEqual({ spec: { n: 2 } });
  });
  it("does not call the same change of both a clash", () => {
    expect(merge({ a: 1 }, { a: 2 }, { a: 2 }, mine).clashes).toEqual([]);
  });
  it("merges named things by name, keeping my order", () => {
    const box = (web: string, db: string) => [
      { name: "web", image: web },
      { name: "db", image: db },
    ];
    expect(merge(box("1", "1"), box("1", "2"), box("3", "1"), mine)).toEqual({ merged: box("3", "2"), clashes: [] });
    const clash = merge(box("1", "1"), box("2", "1"), box("3", "1"), mine).clashes;
    expect(clash.map((one) => one.path)).toEqual(["[web].image"]);
  });
  it("keeps what the other side added, and drops what it deleted", () => {
    const merged = merge(
      [{ name: "a" }, { name: "b" }],
      [{ name: "a" }, { name: "c" }],
      [{ name: "a" }, { name: "b" }],
      mine,
    ).merged;
    expect(merged).toEqual([{ name: "a" }, { name: "c" }]);
  });
  it("takes a plain list as one value", () => {
    expect(merge(["a"], ["a", "b"], ["c"], mine).clashes).toEqual([{ path: "", theirs: ["a", "b"], mine: ["c"] }]);
  });
  it("is the identity when nobody changed anything", () => {
    const object = { a: [1, { b: null }], c: "x" };
    expect(merge(object, structuredClone(object), structuredClone(object), mine)).toEqual({
      merged: object,
      clashes: [],
    });
  });
});

describe("reading objects", () => {
  it("leaves out what only the server writes", () => {
    const object = {
      kind: "Deployment",
      metadata: {
        name: "web",
        uid: "u",
        resourceVersion: "7",
        annotations: { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
      },
      spec: {},
      status: { x: 1 },
    };
    expect(tidy(object)).toEqual({ kind: "Deployment", metadata: { name: "web" }, spec: {} });
  });
  it("hides the values of a Secret and nothing else", () => {
    expect(hideValues({ kind: "Secret", data: { token: "abc" } }).data).toEqual({ token: "••••••••" });
    expect(hideValues({ kind: "ConfigMap", data: { token: "abc" } }).data).toEqual({ token: "abc" });
  });
  it("compares whatever the order of keys, and tells absent from null", () => {
    expect(same({ a: 1, b: 2 }, { b: 2, a: 1 })).toBe(true);
    expect(same({ a: null }, {})).toBe(false);
  });
  it("names what I removed and somebody else keeps", () => {
    const before = { spec: { a: 1, b: 1, c: { d: 1, e: 1 } } };
    expect(keptByOthers(before, { spec: { a: 1, c: { d: 1 } } }, { spec: { a: 1, b: 1, c: { d: 1 } } })).toEqual([
      "spec.b",
    ]);
  });
});
