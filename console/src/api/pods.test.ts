import { describe, expect, it } from "vitest";
import { podFacts } from "./pods";
import type { FlatRow } from "./types";

const pod = (status: object, more: object = {}): FlatRow =>
  ({ cluster: "beijing", namespace: "shop", name: "web-1", status, ...more }) as FlatRow;
const container = (ready: boolean, state: object, restartCount = 0) => ({ name: "web", ready, state, restartCount });

describe("a pod in one line", () => {
  it("counts ready containers and restarts", () => {
    const facts = podFacts(
      pod({
        phase: "Running",
        containerStatuses: [container(true, { running: {} }, 2), container(false, { running: {} }, 1)],
      }),
    );
    expect([facts.ready, facts.restarts, facts.word, facts.well]).toEqual(["1/2", 3, "Running", "busy"]);
  });
  it("says the reason of a waiting container rather than the phase", () => {
    const waiting = { waiting: { reason: "CrashLoopBackOff", message: "back-off 40s" } };
    const facts = podFacts(pod({ phase: "Running", containerStatuses: [container(false, waiting, 7)] }));
    expect([facts.word, facts.why, facts.well]).toEqual(["CrashLoopBackOff", "back-off 40s", "bad"]);
  });
  it("does not call a starting pod ill", () => {
    const waiting = { waiting: { reason: "ContainerCreating" } };
    expect(podFacts(pod({ phase: "Pending", containerStatuses: [container(false, waiting)] })).well).toBe("busy");
  });
  it("calls a finished pod completed, a failed one by its reason", () => {
    expect(podFacts(pod({ phase: "Succeeded" })).word).toBe("Completed");
    const failed = podFacts(pod({ phase: "Failed", reason: "Evicted", message: "node was low on memory" }));
    expect([failed.word, failed.why, failed.well]).toEqual(["Evicted", "node was low on memory", "bad"]);
    const ended = { terminated: { exitCode: 3 } };
    expect(podFacts(pod({ phase: "Failed", containerStatuses: [container(false, ended)] })).why).toBe("exit code 3");
  });
  it("says that it is being deleted above everything else", () => {
    expect(podFacts(pod({ phase: "Running" }, { deleting: "2026-01-01T00:00:00Z" })).word).toBe("Terminating");
  });
  it("takes a row without status", () => {
    expect(podFacts({ cluster: "a", name: "x" } as FlatRow).word).toBe("Unknown");
  });
});
