import { describe, expect, it } from "vitest";
import { KINDS } from "../../../dev/fleet";
import { meant, skeleton } from "./create";

describe("what a text means", () => {
  it("is an object of a kind the cluster has, in its namespace or the default one", () => {
    const of = (value: unknown) => meant(value as never, "beijing", KINDS);
    const metadata = { name: "a" };
    expect(of({ apiVersion: "apps/v1", kind: "Deployment", metadata })).toEqual({
      cluster: "beijing",
      group: "apps",
      version: "v1",
      plural: "deployments",
      name: "a",
      namespace: "default",
    });
    expect(of({ apiVersion: "v1", kind: "ConfigMap", metadata: { ...metadata, namespace: "shop" } })).toMatchObject({
      group: "",
      namespace: "shop",
    });
    expect(of({ apiVersion: "v1", kind: "Namespace", metadata: { ...metadata, namespace: "x" } })).not.toHaveProperty(
      "namespace",
    );
    expect(of({ apiVersion: "v2", kind: "ConfigMap", metadata })).toBe("no kind");
    expect(of({ apiVersion: "v1", kind: "Nonsense", metadata })).toBe("no kind");
    for (const wrong of [null, 5, [], "text", {}, { kind: "ConfigMap", metadata }, { apiVersion: "v1", kind: "Pod" }])
      expect(of(wrong), JSON.stringify(wrong)).toBe("unnamed");
  });

  it("begins with what the list was of", () => {
    expect(skeleton(new URLSearchParams("api=apps/v1&kind=Deployment&ns=shop"))).toBe(
      "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: \n  namespace: shop\n",
    );
    expect(skeleton(new URLSearchParams({ kind: "A\nB: c" }))).not.toContain("\nB");
  });
});
