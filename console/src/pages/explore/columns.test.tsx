import { describe, expect, it } from "vitest";
import type { FlatRow } from "../../api/types";
import { cellText, column, columnsOf, type ServerColumn } from "./columns";

const definition = {
  name: "backups.example.com",
  spec: {
    versions: [
      { name: "v1", additionalPrinterColumns: [{ name: "Old", type: "string", jsonPath: ".spec.old" }] },
      {
        name: "v2",
        additionalPrinterColumns: [
          { name: "Every", type: "string", jsonPath: ".spec.schedule", description: "when" },
          { name: "Ready", type: "string", jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
          { name: "Team", type: "string", jsonPath: ".metadata.labels['example.com/team']" },
          { name: "Size", type: "integer", jsonPath: ".status.size", priority: 1 },
          { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
          { name: "Odd", type: "string", jsonPath: "..odd" },
        ],
      },
    ],
  },
} as unknown as FlatRow;

describe("the columns of a kind", () => {
  it("are those of its definition, in the version that is shown", () => {
    const columns = columnsOf(definition, "v2");
    expect(columns.map(({ name, field, sort, wide }) => [name, field, sort, wide])).toEqual([
      ["Every", "spec.schedule", "spec.schedule", false],
      ["Ready", "status.conditions", undefined, false],
      ["Team", 'labels."example.com/team"', 'labels."example.com/team"', false],
      ["Size", "status.size", "status.size", true],
    ]);
    expect(columnsOf(definition, "v1").map(({ name }) => name)).toEqual(["Old"]);
    expect(columnsOf(definition, "v9")).toEqual([]);
    expect(columnsOf({ cluster: "a", name: "x" }, "v1")).toEqual([]);
  });

  it("show what stands in the row", () => {
    const row = {
      cluster: "a",
      name: "nightly",
      labels: { "example.com/team": "blue" },
      spec: { schedule: "0 3 * * *", modes: ["a", "b"], deep: { x: 1 }, off: false },
      status: { conditions: [{ type: "Ready", status: "True" }] },
    } as unknown as FlatRow;
    const said = columnsOf(definition, "v2").map((one) => cellText(row, one));
    expect(said).toEqual(["0 3 * * *", "True", "blue", ""]);
    const text = (path: string) => cellText(row, column("x", "string", path) as ServerColumn);
    expect([text(".spec.modes"), text(".spec.deep"), text(".spec.off")]).toEqual(["a, b", '{"x":1}', "false"]);
  });
});
