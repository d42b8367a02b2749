// Renders the console on the fake server: what a user sees, without a browser.
import { render } from "@testing-library/react";
import { vi } from "vitest";
import { Fake } from "../../dev/fake.ts";
import { live } from "../api/live";
import { App } from "../app";

export interface Seen {
  fake: Fake;
  asked: { method: string; url: string; headers: Record<string, string>; body: string }[];
}

/** Opens a page as somebody who is logged in, or not. */
export function open(path: string, loggedIn = true): Seen {
  const fake = new Fake();
  const asked: Seen["asked"] = [];
  let cookie = loggedIn;
  vi.spyOn(live, "start").mockImplementation(() => {});
  vi.stubGlobal("fetch", async (target: string, init: RequestInit = {}) => {
    const url = new URL(target, "http://console");
    const body = typeof init.body === "string" ? init.body : "";
    const method = init.method ?? "GET";
    asked.push({ method, url: target, headers: init.headers as Record<string, string>, body });
    const answer = fake.answer({ method, path: url.pathname, query: url.searchParams, body, cookie });
    if (answer.login !== undefined) cookie = answer.login;
    const text =
      typeof answer.body === "string" ? answer.body : answer.body === undefined ? null : JSON.stringify(answer.body);
    return new Response(answer.status === 204 ? null : text, {
      status: answer.status,
      headers: { "x-request-id": "fake-0001" },
    });
  });
  history.replaceState(null, "", path);
  window.dispatchEvent(new PopStateEvent("popstate"));
  render(<App />);
  return { fake, asked };
}
