import { describe, expect, it } from "vitest";
import { highlight, Lines, LONGEST_LINE, LogBuffer, matcher, select, split } from "./buffer";

const at = (second: number, text: string, fraction = "") =>
  `2026-01-01T00:00:${String(second).padStart(2, "0")}${fraction}Z ${text}`;
const texts = (buffer: LogBuffer) => buffer.lines.map((line) => line.text);

describe("a line", () => {
  it("gives its timestamp away in a form that can be compared", () => {
    const early = split("2026-01-01T00:00:01.5Z a");
    const late = split("2026-01-01T00:00:01.50001Z b");
    expect(early.text).toBe("a");
    expect(early.order < late.order).toBe(true);
  });
  it("is compared in one zone", () => {
    expect(split("2026-01-01T08:00:01+08:00 a").order).toBe(split("2026-01-01T00:00:01Z b").order);
  });
  it("without a timestamp is left alone, and cut when it is too long", () => {
    expect(split("hello 2026").text).toBe("hello 2026");
    expect(split("x".repeat(LONGEST_LINE * 2)).text).toHaveLength(LONGEST_LINE);
  });
});

describe("a stream", () => {
  it("is cut at line ends wherever its chunks end", () => {
    const lines = new Lines();
    expect(lines.push("one\ntw")).toEqual(["one"]);
    expect(lines.push("o\r\nthree\nfo")).toEqual(["two", "three"]);
    expect(lines.end()).toEqual(["fo"]);
    expect(lines.end()).toEqual([]);
  });
  it("without any line end does not grow for ever", () => {
    const lines = new Lines();
    let out = 0;
    for (let n = 0; n < 100; n += 1) out += lines.push("x".repeat(LONGEST_LINE)).length;
    expect(out).toBeGreaterThan(10);
  });
});

describe("the buffer", () => {
  it("merges sources by time", () => {
    const buffer = new LogBuffer();
    buffer.add(0, [at(1, "a1"), at(3, "a3"), at(5, "a5")]);
    buffer.add(1, [at(2, "b2"), at(4, "b4")]);
    expect(texts(buffer)).toEqual(["a1", "b2", "a3", "b4", "a5"]);
  });
  it("keeps the order of arrival for equal times", () => {
    const buffer = new LogBuffer();
    buffer.add(0, [at(1, "a"), at(2, "c")]);
    buffer.add(1, [at(1, "b")]);
    expect(texts(buffer)).toEqual(["a", "b", "c"]);
  });
  it("keeps lines without a time behind the line they belong to", () => {
    const buffer = new LogBuffer();
    buffer.add(0, [at(1, "panic"), "  at main", at(4, "end")]);
    buffer.add(1, [at(2, "other")]);
    expect(texts(buffer)).toEqual(["panic", "  at main", "other", "end"]);
  });
  it("drops the oldest when it is full and says how many", () => {
    const buffer = new LogBuffer(100);
    buffer.add(
      0,
      Array.from({ length: 150 }, (_, n) => `line ${n}`),
    );
    expect(buffer.lines.length).toBeLessThanOrEqual(100);
    expect(buffer.dropped + buffer.lines.length).toBe(150);
    expect(buffer.lines[buffer.lines.length - 1]?.text).toBe("line 149");
  });
  it("tells its listeners once per addition", () => {
    const buffer = new LogBuffer();
    let told = 0;
    const stop = buffer.subscribe(() => {
      told += 1;
    });
    buffer.add(0, ["a", "b"]);
    buffer.add(0, []);
    stop();
    buffer.add(0, ["c"]);
    expect(told).toBe(1);
  });
});

describe("searching", () => {
  const buffer = new LogBuffer();
  buffer.add(0, ["GET /cart 200", "GET /pay 500", "started (1+1)"]);
  const found = (text: string, regex = false, inverse = false) =>
    select(buffer.lines, { text, regex, inverse }).map((line) => line.text);
  it("finds plain text whatever its case, its marks taken as they are", () => {
    expect(found("get /C")).toEqual(["GET /cart 200"]);
    expect(found("(1+1)")).toEqual(["started (1+1)"]);
  });
  it("finds patterns, and what does not match", () => {
    expect(found(" 5\\d\\d$", true)).toEqual(["GET /pay 500"]);
    expect(found("GET", false, true)).toEqual(["started (1+1)"]);
  });
  it("says what is wrong with a pattern and shows everything meanwhile", () => {
    expect(matcher({ text: "(", regex: true, inverse: false }).wrong).not.toBe("");
    expect(found("(", true)).toHaveLength(3);
  });
  it("marks every hit", () => {
    expect(highlight("aXbxc", /x/i)).toEqual([
      { text: "a", hit: false },
      { text: "X", hit: true },
      { text: "b", hit: false },
      { text: "x", hit: true },
      { text: "c", hit: false },
    ]);
    expect(highlight("abc", /x*/i)).toEqual([{ text: "abc", hit: false }]);
  });
});
