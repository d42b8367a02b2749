import { describe, expect, it } from "vitest";
import { follow, match } from "./match";

describe("which page a path means", () => {
  it("reads parameters, decoded", () => {
    expect(match("/clusters/:name/:tab?", "/clusters/a%2Fb/nodes")).toEqual({ name: "a/b", tab: "nodes" });
  });
  it("lets an optional part be absent", () => {
    expect(match("/clusters/:name/:tab?", "/clusters/beijing/")).toEqual({ name: "beijing" });
  });
  it("refuses what is longer, shorter or another word", () => {
    expect(match("/clusters/:name", "/clusters")).toBeNull();
    expect(match("/clusters/:name", "/clusters/a/b")).toBeNull();
    expect(match("/clusters", "/pods")).toBeNull();
  });
  it("refuses a broken escape instead of failing", () => {
    expect(match("/clusters/:name", "/clusters/%E0%A4%A")).toBeNull();
  });
});

describe("links", () => {
  it("keep the scope of the user", () => {
    expect(follow("/pods?q=web", "?scope=beijing&page=3")).toBe("/pods?q=web&scope=beijing");
  });
  it("let a link choose its own scope", () => {
    expect(follow("/pods?scope=shanghai", "?scope=beijing")).toBe("/pods?scope=shanghai");
  });
});
