// Who the tests are, and what every one of them watches for.
import { AxeBuilder } from "@axe-core/playwright";
import { test as base, expect, type Page } from "@playwright/test";

export const USER = process.env.MUSTER_USER ?? "admin";
export const PASSWORD = process.env.MUSTER_PASSWORD ?? "teleport";

/** A test fails when the page logs an error that nobody expects, or throws. */
export const test = base.extend<{ quiet: string[] }>({
  quiet: [
    async ({ page }, use) => {
      const errors: string[] = [];
      page.on("pageerror", (error) => errors.push(String(error)));
      page.on("console", (message) => {
        // The browser reports every refused request by itself; refusals are checked where they are expected.
        if (message.type() === "error" && !message.text().startsWith("Failed to load resource"))
          errors.push(message.text());
      });
      await use(errors);
      expect(errors, "errors in the browser's console").toEqual([]);
    },
    { auto: true },
  ],
});
export { expect };

export async function login(page: Page): Promise<void> {
  await page.goto("/");
  await page.getByLabel("User name").fill(USER);
  await page.getByLabel("Password").fill(PASSWORD);
  await page.getByRole("button", { name: "Log in" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Fleet overview");
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

export const somePods = (page: Page) =>
  rows(
    page,
    "/api/cluster/all/resources/core/v1/pods?pageSize=20&sort=-created&filter=phase+eq+Running&fields=cluster,namespace,name",
  );
