import { describe, expect, it } from "vitest";
import { ended, frame, STDIN, size } from "./channels";

const bytes = (text: string) => new TextEncoder().encode(text);

describe("frames of a terminal", () => {
  it("begin with their channel", () => {
    expect([...frame(STDIN, "ab")]).toEqual([0, 97, 98]);
    expect(new TextDecoder().decode(size(80, 24).slice(1))).toBe('{"Width":80,"Height":24}');
  });
  it("say how the command ended", () => {
    expect(ended(bytes('{"status":"Success"}'))).toEqual({ code: 0, message: "" });
    const failed =
      '{"status":"Failure","message":"command terminated with exit code 3","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}';
    expect(ended(bytes(failed))).toEqual({ code: 3, message: "command terminated with exit code 3" });
    expect(ended(bytes("no such container"))).toEqual({ code: null, message: "no such container" });
  });
});
