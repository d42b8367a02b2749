// The pictures of the user guide: MUSTER_SHOTS=1, `make shots`. They go to console/shots/guide, from where make copies them.
import type { Page } from "@playwright/test";
import { expect, fillIn, PASSWORD, rows, settle, somePods, test, theDock, USER } from "./person";

const folder = new URL("../shots/guide/", import.meta.url).pathname;

const KUBECONFIG = `apiVersion: v1
kind: Config
current-context: prod
clusters:
- name: prod
  cluster: { server: https://prod.example.com:6443 }
contexts:
- name: prod
  context: { cluster: prod, user: muster }
users:
- name: muster
  user: { token: not-a-real-token }
`;

/** All of the page, or a part of it: what has many small letters is large. */
async function shoot(page: Page, name: string, part?: { y: number; height: number }): Promise<void> {
  // Nothing that blinks, floats or is half way.
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur());
  await page.mouse.move(1270, 790);
  await page.screenshot({
    path: `${folder}${name}.png`,
    animations: "disabled",
    caret: "hide",
    ...(part && { clip: { x: 0, width: 1280, ...part } }),
  });
}

const live = (page: Page) => expect(page.locator(".topbar .live")).toHaveText("Live");

test("the way in", async ({ browser, baseURL }) => {
  const empty = { cookies: [], origins: [] };
  const context = await browser.newContext({
    locale: "en-GB",
    viewport: { width: 1280, height: 800 },
    storageState: empty,
    ...(baseURL && { baseURL }),
  });
  const page = await context.newPage();
  await page.goto("/");
  await page.getByLabel("User name").fill(USER);
  await page.getByLabel("Password").fill(PASSWORD);
  await shoot(page, "login", { y: 190, height: 420 });
  await fillIn(page);
  await settle(page);
  await live(page);
  await expect(page.locator("tr[data-row], .member, .card").first()).toBeVisible();
  await shoot(page, "overview");
  await context.close();
});

test("clusters, and one more", async ({ page }) => {
  await page.goto("/clusters");
  await settle(page);
  await live(page);
  await shoot(page, "clusters");
  await page.goto("/clusters/import");
  await page.getByLabel("Name").fill("prod");
  await page.getByLabel("Kubeconfig", { exact: true }).fill(KUBECONFIG);
  await page.getByLabel("Labels").fill("region=east, tier=production");
  await page.getByText("Allow what is refused otherwise").click();
  await page.getByLabel(/this machine's own authorities/).check();
  await page.getByRole("button", { name: "Check" }).click();
  await expect(page.getByText("Nothing in it is refused")).toBeVisible();
  await shoot(page, "import");
});

test("pods, logs and a terminal", async ({ page }) => {
  await page.goto("/pods?q=web-canary");
  await settle(page);
  await live(page);
  const boxes = page.locator("tr[data-row] input[type=checkbox]");
  for (const n of [0, 1, 2]) await boxes.nth(n).check();
  await shoot(page, "pods");
  await page.getByRole("button", { name: "Logs of 3 pods" }).click();
  const dock = theDock(page);
  await expect(dock.locator(".logs-foot")).toContainText("following 3 of 3");
  await dock.getByRole("searchbox").fill("GET");
  await shoot(page, "logs", { y: 517, height: 232 });
  await dock.getByRole("button", { name: "Close all" }).click();
  const [pod] = (await somePods(page)).filter((one) => one.name.startsWith("web"));
  if (!pod) throw new Error("the demo has no web");
  await page.goto(`/explore/core/v1/pods/${pod.cluster}/${pod.namespace}/${pod.name}`);
  await settle(page);
  await page.getByRole("button", { name: "Terminal", exact: true }).click();
  await expect(dock.getByText("Connected")).toBeVisible();
  await dock.locator(".terminal-screen").click();
  await page.keyboard.type("hostname && ps && tail -n 3 /var/log/app.log\n", { delay: 15 });
  await expect(dock.locator(".xterm-rows, .xterm-accessibility").first()).toContainText("PID");
  await shoot(page, "terminal");
});

test("a change before it is made", async ({ page }) => {
  const [deployment] = await rows(
    page,
    "/api/cluster/all/resources/apps/v1/deployments?pageSize=1&sort=name&q=web-blue",
  );
  if (!deployment) throw new Error("the demo has no web-blue");
  const { cluster, namespace, name } = deployment;
  await page.goto(`/explore/apps/v1/deployments/${cluster}/${namespace}/${name}/yaml`);
  await page.getByRole("button", { name: "Edit" }).click();
  const editor = page.getByRole("textbox", { name: /editable/ });
  await editor
    .locator(".cm-line", { hasText: /^\s+labels:$/ })
    .first()
    .click();
  await page.keyboard.press("End");
  await page.keyboard.type("\n  cost-centre: storefront");
  await page.getByRole("button", { name: "Review changes" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByText("cost-centre").first()).toBeVisible();
  await shoot(page, "diff");
  await dialog.getByRole("button", { name: "Back to editing" }).click();
  await page.getByRole("button", { name: "Discard" }).click();
});

test("events, releases, reconcilers, the audit log", async ({ page }) => {
  await page.goto("/events?q=recommend");
  await settle(page);
  await live(page);
  await shoot(page, "events", { y: 0, height: 480 });
  await page.goto("/apps/web?tab=releases");
  await settle(page);
  await shoot(page, "releases");
  const controllers = await rows(page, "/wapi/v1/controllers");
  const machine = controllers.find((one) => "graph" in one);
  await page.goto(machine ? `/reconcilers/${machine.name}` : "/reconcilers");
  await settle(page);
  await expect(page.locator(".graph svg").first()).toBeVisible();
  await shoot(page, "reconciler");
  await page.goto("/audit");
  await settle(page);
  await shoot(page, "audit", { y: 0, height: 560 });
});

test("dark and Chinese", async ({ page }) => {
  await page.goto("/settings");
  await page.getByRole("button", { name: "简体中文" }).click();
  await page.getByRole("button", { name: "深色", exact: true }).click();
  await settle(page);
  await shoot(page, "settings-zh-dark");
  await page.goto("/");
  await settle(page);
  await expect(page.locator(".topbar .live")).toHaveText("实时");
  await shoot(page, "overview-zh-dark");
  await page.goto("/");
});
