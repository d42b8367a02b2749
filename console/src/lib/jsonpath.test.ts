import { describe, expect, it } from "vitest";
import type { Json } from "../api/types";
import { find, steps } from "./jsonpath";

const object: Json = {
  spec: {
    replicas: 3,
    list: [
      { name: "a", n: 1 },
      { name: "b", n: 2 },
    ],
  },
  status: {
    conditions: [
      { type: "Ready", status: "True" },
      { type: "Synced", status: "False" },
    ],
  },
  labels: { "app.kubernetes.io/name": "web" },
};

describe("the path of a column", () => {
  it("finds what definitions point at", () => {
    for (const [path, found] of [
      [".spec.replicas", [3]],
      ["{.spec.replicas}", [3]],
      ["$.spec.replicas", [3]],
      [".spec.list[0].name", ["a"]],
      [".spec.list[-1].name", ["b"]],
      [".spec.list[*].n", [1, 2]],
      ['.status.conditions[?(@.type=="Ready")].status', ["True"]],
      [".status.conditions[?(@.type == 'Synced')].status", ["False"]],
      ['.status.conditions[?(@.type!="Ready")].type', ["Synced"]],
      [".spec.list[?(@.n==2)].name", ["b"]],
      [".labels.app\\.kubernetes\\.io/name", ["web"]],
      [".labels['app.kubernetes.io/name']", ["web"]],
      [".spec.gone.deeper", []],
      [".spec.replicas.deeper", []],
      [".spec.list[9].name", []],
      [".constructor", []],
      [".spec.__proto__", []],
    ] as const) {
      const path_ = steps(path);
      expect(path_ && find(object, path_), path).toEqual(found);
    }
  });

  it("that says more than is understood is not taken for something else", () => {
    for (const path of [
      "",
      ".",
      "..name",
      ".a[?(@.n>1)]",
      ".a[1:2]",
      ".a[",
      "{range .items[*]}",
      `.${"a".repeat(600)}`,
    ]) {
      expect(steps(path), path).toBeNull();
    }
  });
});
