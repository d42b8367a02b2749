import { describe, expect, it } from "vitest";
import { age, bytes, bytesOf, percent } from "./format";

const now = Date.parse("2026-05-01T12:00:00Z");
const ago = (seconds: number) => new Date(now - seconds * 1000).toISOString();

describe("ages", () => {
  it.each([
    [5, "5s"],
    [119, "119s"],
    [185, "3m5s"],
    [3600, "60m"],
    [3 * 3600 + 120, "3h2m"],
    [30 * 3600, "30h"],
    [50 * 3600, "2d2h"],
    [30 * 86400, "30d"],
    [800 * 86400, "2y"],
  ])("%i seconds are %s", (seconds, text) => {
    expect(age(ago(seconds), now, "en")).toBe(text);
  });
  it("speak Chinese", () => {
    expect(age(ago(185), now, "zh")).toBe("3分5秒");
  });
  it("are a dash when unknown, and never negative", () => {
    expect(age(undefined, now, "en")).toBe("–");
    expect(age("nonsense", now, "en")).toBe("–");
    expect(age(now + 60_000, now, "en")).toBe("0s");
  });
});

describe("amounts", () => {
  it("are binary", () => {
    expect(bytes(512, "en")).toBe("512 B");
    expect(bytes(1536, "en")).toBe("1.5 KiB");
    expect(bytes(64 * 1024 ** 3, "en")).toBe("64 GiB");
  });
  it("of a whole share its unit", () => {
    expect(bytesOf(1.5 * 1024 ** 3, 288 * 1024 ** 3, "en")).toBe("1.5 / 288 GiB");
    expect(bytesOf(0, 0, "en")).toBe("0 / 0 B");
  });
  it("do not divide by nothing", () => {
    expect(percent(1, 0)).toBe(0);
    expect(percent(1, 3)).toBe(33);
  });
});
