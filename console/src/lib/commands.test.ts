import { describe, expect, it } from "vitest";
import { getCommand, logCommand, quote } from "./commands";

const pod = { cluster: "beijing", namespace: "shop", name: "web-1" };

describe("the command for a click", () => {
  it("names the pod and what was chosen", () => {
    expect(logCommand("muster", pod, { container: "web", follow: true, sinceSeconds: 300 })).toBe(
      "muster logs web-1 -n shop --cluster beijing -c web -f --since=300s",
    );
    expect(logCommand("kubectl", pod, { previous: true, tailLines: 500 })).toBe(
      "kubectl logs web-1 -n shop --context beijing -p --tail=500",
    );
  });
  it("spells a kind of a group in full", () => {
    const ref = { ...pod, group: "apps", version: "v1", plural: "deployments" };
    expect(getCommand(ref)).toBe("kubectl get deployments.apps web-1 -n shop --context beijing -o yaml");
  });
  it("quotes what a shell would read otherwise", () => {
    expect(quote("a b")).toBe("'a b'");
    expect(quote("it's; rm -rf $HOME")).toBe(`'it'\\''s; rm -rf $HOME'`);
  });
});
