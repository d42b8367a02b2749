// Tabs left open while the fleet changes all the time: neither the pages nor the server grow. `make soak MINUTES=60`. // F-20, L-9
import { readdirSync, readFileSync } from "node:fs";
import type { CDPSession, Page } from "@playwright/test";
import { begin, expect, heap, noRowTwice, proof, rows, settle, test } from "../person";
import { Server, Simulated } from "../server";

const MINUTES = Math.max(6, Number(process.env.MUSTER_SOAK ?? 60));
/** What is filled once, code and memory, is full by then. */
const WARM_UP = Math.max(1, Math.round(MINUTES / 6));
const PAGES = ["/", "/pods", "/events"];
const MEMBERS = 3;
const PODS_EACH = 50;
/** Each makes and ends pods, of which every step is a change on its own, with events. */
const SCALES_A_SECOND = 8;
const MIB = 1 << 20;

/** MiB that a process holds, and how many files it has open. */
function held(process: number): { memory: number; files: number } {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${process}/status`, "utf8"))?.[1];
  return { memory: Math.round(Number(kib) / 1024), files: readdirSync(`/proc/${process}/fd`).length };
}

test("tabs that stay open hold no more than at first @soak", async ({ browser }) => {
  test.setTimeout((MINUTES + 10) * 60_000);
  const server = await Server.start();
  // Clusters in a process of their own, whose events come and go: the server holds no more at the end than at the beginning.
  const simulated = await Simulated.start(MEMBERS, 3, `--pods=${PODS_EACH}`, `--event-ttl=${WARM_UP}m`);
  for (const { name, kubeconfig } of simulated.members)
    await server.command("cluster", "import", name, "--kubeconfig", kubeconfig);
  const context = await browser.newContext({ locale: "en-GB", baseURL: server.url });
  const broken: string[] = [];
  const tabs: { page: Page; cdp: CDPSession }[] = [];
  for (const path of PAGES) {
    const page = await context.newPage();
    page.on("pageerror", (error) => broken.push(`${path}: ${error}`));
    if (tabs.length === 0) await begin(page, server.setupLink, "a long enough sentence");
    await page.goto(path);
    await settle(page);
    tabs.push({ page, cdp: await context.newCDPSession(page) });
  }
  const [first] = tabs;
  if (!first) throw new Error("no tab");
  const headers = await proof(first.page.request);
  const deployments = await rows(first.page, "/api/cluster/all/resources/apps/v1/deployments?pageSize=100");

  const begun = Date.now();
  const minutes = () => (Date.now() - begun) / 60_000;
  const refusals = new Map<number, number>();
  let scaled = 0;
  const restless = async () => {
    while (minutes() < MINUTES) {
      const one = deployments[scaled % deployments.length];
      if (!one) throw new Error("there is no deployment");
      const path = `/api/cluster/${one.cluster}/resources/apps/v1/namespaces/${one.namespace}/deployments/${one.name}`;
      const replicas = 1 + (Math.floor(scaled / deployments.length) % 4);
      const answer = await first.page.request.post(`${path}/scale`, { data: { replicas }, headers });
      if (!answer.ok()) refusals.set(answer.status(), (refusals.get(answer.status()) ?? 0) + 1);
      await answer.dispose();
      scaled += 1;
      await new Promise((done) => setTimeout(done, begun + (scaled * 1000) / SCALES_A_SECOND - Date.now()));
    }
  };
  const measured: { pages: number[]; memory: number; files: number }[] = [];
  const watching = async () => {
    for (let minute = 1; minute <= MINUTES; minute += 1) {
      await new Promise((done) => setTimeout(done, begun + minute * 60_000 - Date.now()));
      const pages: number[] = [];
      for (const { cdp, page } of tabs) {
        pages.push(await heap(cdp));
        await noRowTwice(page);
      }
      measured.push({ pages, ...held(server.id) });
      const told = pages.map((bytes, n) => `${PAGES[n]} ${(bytes / MIB).toFixed(1)}`).join(", ");
      const { memory, files } = measured.at(-1) ?? { memory: 0, files: 0 };
      console.log(`    minute ${minute}: ${told} MiB; server ${memory} MiB, ${files} files; ${scaled} scales`);
    }
  };
  await Promise.all([restless(), watching()]);

  // The least of some minutes: what lives for a moment is not held.
  const least = (of: typeof measured, what: (one: (typeof measured)[number]) => number) => Math.min(...of.map(what));
  const [early, late] = [measured.slice(2 * WARM_UP, 3 * WARM_UP), measured.slice(-WARM_UP)];
  for (const [n, path] of PAGES.entries()) {
    const [before, after] = [least(early, (one) => one.pages[n] ?? 0), least(late, (one) => one.pages[n] ?? 0)];
    expect.soft(after, `${path} grows`).toBeLessThanOrEqual(before * 1.1 + MIB / 4);
  }
  const memory = (of: typeof measured) => least(of, (one) => one.memory);
  const files = (of: typeof measured) => least(of, (one) => one.files);
  expect.soft(memory(late), "the server grows").toBeLessThanOrEqual(memory(early) * 1.1);
  expect.soft(files(late), "the server opens files and does not close them").toBeLessThanOrEqual(files(early) + 8);
  for (const { page } of tabs) await expect(page.locator(".topbar .live")).toHaveText("Live");
  expect(Object.fromEntries(refusals)).toEqual({});
  expect(broken).toEqual([]);
  await context.close();
  await server.stop();
  await simulated.stop();
});
