// Who the tests are, and what every one of them watches for.
import { AxeBuilder } from "@axe-core/playwright";
import { type APIRequestContext, test as base, type CDPSession, expect, type Page } from "@playwright/test";

export const USER = process.env.MUSTER_USER ?? "admin";
export const PASSWORD = process.env.MUSTER_PASSWORD ?? "teleport";

/** The browser reports every refused request and every broken line by itself; both are checked where they are expected. */
const EXPECTED = /^Failed to load resource|^WebSocket connection to/;

/** A test fails when the page logs an error that nobody expects, or throws. */
export const test = base.extend<{ quiet: string[] }>({
  // Known only when the server runs (demo.ts).
  // biome-ignore lint/correctness/noEmptyPattern: Playwright wants a pattern here
  baseURL: async ({}, use) => use(process.env.MUSTER_URL),
  quiet: [
    async ({ page }, use) => {
      const errors: string[] = [];
      page.on("pageerror", (error) => errors.push(String(error)));
      page.on("console", (message) => {
        if (message.type() === "error" && !EXPECTED.test(message.text())) errors.push(message.text());
      });
      await use(errors);
      expect(errors, "errors in the browser's console").toEqual([]);
    },
    { auto: true },
  ],
});
export { expect };

export async function login(page: Page, at = "/", user = USER, password = PASSWORD): Promise<void> {
  await page.goto(at);
  await fillIn(page, user, password);
  await expect(page.getByRole("heading", { name: "Log in to Muster" })).toHaveCount(0);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
}

/** The form of the login, wherever it appeared. */
export async function fillIn(page: Page, user = USER, password = PASSWORD): Promise<void> {
  await page.getByLabel("User name").fill(user);
  await page.getByLabel("Password").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** Nothing serious or critical, and no list of exceptions. */
export async function accessible(page: Page): Promise<void> {
  const { violations } = await new AxeBuilder({ page })
    .withTags(["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"])
    .analyze();
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  const told = grave.map(
    ({ id, nodes }) =>
      `${id}: ${nodes.map((node) => `${node.target.join(" ")} ${node.html.slice(0, 160)}`).join(" | ")}`,
  );
  expect.soft(told, page.url()).toEqual([]);
}

export async function settle(page: Page): Promise<void> {
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  await expect(page.locator(".waiting")).toHaveCount(0);
}

interface Row {
  cluster: string;
  namespace: string;
  name: string;
}

/** Rows of a list, asked of the server itself: tests know no names. */
export async function rows(page: Page, path: string): Promise<Row[]> {
  const answer = await page.request.get(path);
  expect(answer.status(), path).toBe(200);
  return ((await answer.json()) as { items: Row[] }).items;
}

/** Pods that are well and stay: the youngest may be those of a job, which are soon gone. */
export const somePods = (page: Page) =>
  rows(
    page,
    "/api/cluster/all/appPod/all?pageSize=100&sort=created&filter=phase+eq+Running+and+ready+eq+%271/1%27+and+restarts+eq+0",
  );

/** What proves to the server that a request is meant. */
export async function proof(request: APIRequestContext): Promise<Record<string, string>> {
  const answer = await request.get("/wapi/v1/session");
  return { "x-muster-csrf": ((await answer.json()) as { csrf: string }).csrf };
}

/** Writes an object to a cluster, as somebody else would. */
export async function apply(request: APIRequestContext, path: string, data: object): Promise<void> {
  const answer = await request.put(path, { data, headers: await proof(request) });
  expect(answer.status(), await answer.text()).toBe(200);
}

/** The first administrator of a new server. */
export async function begin(page: Page, setupLink: string, password: string): Promise<void> {
  await page.goto(setupLink);
  await page.getByLabel("New password").fill(password);
  await page.getByLabel("The same again").fill(password);
  await page.getByRole("button", { name: "Create administrator" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Fleet overview");
}

/** Puts a text into the editor, in place of what is there. */
export async function write(page: Page, label: RegExp | string, text: string): Promise<void> {
  await page.getByRole("textbox", { name: label }).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.insertText(text);
}

export const theDock = (page: Page) => page.getByRole("region", { name: "Dock: logs and terminals" });

/** Rows of the list on the page; each is there once. */
export async function noRowTwice(page: Page): Promise<void> {
  const keys = await page
    .locator("tr[data-row]")
    .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-row")));
  expect(new Set(keys).size, "a row is there twice").toBe(keys.length);
}

/** Bytes that a page holds, after everything that nobody holds was thrown away. */
export async function heap(cdp: CDPSession): Promise<number> {
  for (let n = 0; n < 3; n += 1) await cdp.send("HeapProfiler.collectGarbage");
  return (await cdp.send("Runtime.getHeapUsage")).usedSize;
}
