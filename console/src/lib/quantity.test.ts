import { expect, it } from "vitest";
import { quantity } from "./quantity";

it.each([
  ["500m", 0.5],
  ["4", 4],
  ["16Gi", 16 * 1024 ** 3],
  ["1e3", 1000],
  ["2M", 2_000_000],
  ["", 0],
  ["many", 0],
])("the quantity %s is %d", (text, value) => {
  expect(quantity(text)).toBeCloseTo(value);
});
