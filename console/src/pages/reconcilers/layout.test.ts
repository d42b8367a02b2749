import dagre from "@dagrejs/dagre";
import { describe, expect, it } from "vitest";
import { curve, layout } from "./layout";

describe("a phase machine drawn", () => {
  const graph = {
    phases: [{ name: "PENDING" }, { name: "RUNNING" }, { name: "DONE", terminal: true }],
    edges: [
      { from: "PENDING", to: "RUNNING", on: "success" },
      { from: "RUNNING", to: "DONE", on: "success" },
      { from: "RUNNING", to: "DONE", on: "cancel" },
      { from: "RUNNING", to: "NOWHERE", on: "failure" },
    ],
  };
  it("goes from left to right, two ways between the same phases apart", () => {
    const drawn = layout(graph, dagre);
    const x = drawn.nodes.map((node) => node.x);
    expect([...x].sort((a, b) => a - b)).toEqual(x);
    const [, success, cancel] = drawn.edges;
    expect(success?.path).not.toBe(cancel?.path);
  });
  it("leaves out arrows to phases that do not exist", () => {
    expect(layout(graph, dagre).edges.map((edge) => edge.to)).not.toContain("NOWHERE");
  });
  it("draws a curve that begins and ends where it should", () => {
    expect(curve([])).toBe("");
    expect(
      curve([
        { x: 0, y: 0 },
        { x: 9, y: 0 },
      ]),
    ).toBe("M0 0 L9 0");
    expect(
      curve([
        { x: 0, y: 0 },
        { x: 4, y: 4 },
        { x: 9, y: 0 },
      ]),
    ).toMatch(/^M0 0 Q4 4 9 0$/);
  });
});
