// Who is logged in. Everything that depends on it (CSRF proof, live line, cached data) changes here and nowhere else.

import * as client from "../api/client";
import { Refusal, setCsrf, whenSessionEnds } from "../api/client";
import { queries } from "../api/hooks";
import { live } from "../api/live";
import type { Session } from "../api/types";
import { closeAll } from "../dock/store";
import { store } from "../lib/store";

export type Who =
  | { is: "unknown" }
  | { is: "in"; session: Session }
  | { is: "out"; setup: boolean; demo: boolean; ended: boolean }
  | { is: "unreachable"; error: Error };

export const who = store<Who>({ is: "unknown" });

export function enter(session: Session): void {
  setCsrf(session.csrf);
  queries.clear();
  who.set({ is: "in", session });
  live.start();
}

/** Nobody is logged in any more: nothing that was read stays. */
function leave(setup: boolean, demo: boolean, ended: boolean): void {
  setCsrf("");
  live.stop();
  closeAll();
  queries.clear();
  who.set({ is: "out", setup, demo, ended });
}

/** What a 401 says about the server: whether it still waits for its first administrator. */
export const hints = (refusal: Refusal) => ({
  setup: refusal.details.setup === true,
  demo: refusal.details.demo === true,
});

export async function look(): Promise<void> {
  try {
    enter(await client.session());
  } catch (error) {
    if (error instanceof Refusal && error.code === 401) {
      const { setup, demo } = hints(error);
      leave(setup, demo, false);
    } else who.set({ is: "unreachable", error: error as Error });
  }
}

export async function logout(): Promise<void> {
  const demo = who.get().is === "in" && (who.get() as { session: Session }).session.demo;
  await client.logout().catch(() => undefined);
  leave(false, demo, false);
}

whenSessionEnds((refusal) => {
  if (who.get().is !== "in") return;
  const { setup, demo } = hints(refusal);
  leave(setup, demo, true);
});
