import { describe, expect, it } from "vitest";
import { ansi, dressed } from "./ansi";
import { highlight, matcher } from "./buffer";

const E = "\u001b";

describe("a coloured line", () => {
  it("is text, with runs that look different", () => {
    const { text, runs } = ansi(`${E}[32mINFO${E}[0m started ${E}[1;31mbadly${E}[39m but${E}[0m ok`);
    expect(text).toBe("INFO started badly but ok");
    expect(runs.map(({ from, to, look }) => [text.slice(from, to), look])).toEqual([
      ["INFO", "ansi-2"],
      ["badly", "ansi-1 ansi-strong"],
      [" but", "ansi-strong"],
    ]);
  });

  it("of 256 or all colours gets one of sixteen, and no background", () => {
    const look = (codes: string) => ansi(`${E}[${codes}mx`).runs[0]?.look ?? "";
    expect(look("38;5;9")).toBe("ansi-9");
    expect(look("38;5;196")).toBe("ansi-9");
    expect(look("38;2;0;255;0")).toBe("ansi-10");
    expect(look("38:5:21")).toBe("ansi-12");
    expect(look("41")).toBe("");
    expect(look("48;2;255;0;0;33")).toBe("ansi-3");
  });

  it("can do nothing else: titles, links, cursor moves and half sequences are left out", () => {
    for (const [raw, text] of [
      [`${E}]0;a title\u0007after`, "after"],
      [`${E}]8;;https://evil.example${E}\\a link${E}]8;;${E}\\`, "a link"],
      [`${E}[2J${E}[1;1Hhome`, "home"],
      [`${E}[?25lhidden`, "hidden"],
      [`${E}Pq#0${E}\\sixel`, "sixel"],
      [`${E}(Bset`, "set"],
      [`${E}]0;never ends`, "0;never ends"],
      [`end${E}`, "end"],
      [`end${E}[`, "end"],
      [`end${E}[31`, "end"],
      ["\u009b31mone", "one"],
      ["a\u0000b\u0008c\u007fd\te", "abcd\te"],
      [`<img src=x onerror=alert(1)>${E}[0m`, "<img src=x onerror=alert(1)>"],
    ] as const) {
      expect(ansi(raw).text, JSON.stringify(raw)).toBe(text);
    }
  });

  it("that changes its colour without end stays bounded", () => {
    const { text, runs } = ansi(Array.from({ length: 10_000 }, (_, n) => `${E}[3${n % 8}mx`).join(""));
    expect(text).toHaveLength(10_000);
    expect(runs.length).toBeLessThanOrEqual(200);
  });

  it("is searched as text, and what is found keeps its colours", () => {
    const { text, runs } = ansi(`${E}[31mab${E}[0mcd`);
    const { test } = matcher({ text: "bc", regex: false, inverse: false });
    expect(dressed(highlight(text, test), runs)).toEqual([
      { text: "a", hit: false, look: "ansi-1" },
      { text: "b", hit: true, look: "ansi-1" },
      { text: "c", hit: true, look: "" },
      { text: "d", hit: false, look: "" },
    ]);
  });

  it("cut into pieces is the same text, whatever the runs", () => {
    for (let seed = 1; seed < 300; seed += 1) {
      const pick = (n: number) => (seed * 7919 + n * 104_729) % 13;
      const raw = Array.from({ length: 12 }, (_, n) =>
        pick(n) < 6 ? `${E}[3${pick(n)}m` : "abc".slice(0, pick(n) % 4),
      );
      const { text, runs } = ansi(raw.join(""));
      const { test } = matcher({ text: "ca", regex: false, inverse: false });
      expect(
        dressed(highlight(text, test), runs)
          .map((piece) => piece.text)
          .join(""),
      ).toBe(text);
    }
  });
});
