// What people do, end to end, in a real browser on a real server.
import { accessible, expect, login, rows, settle, somePods, test } from "./person";

const podPath = (pod: { cluster: string; namespace: string; name: string }) =>
  `/explore/core/v1/pods/${pod.cluster}/${pod.namespace}/${pod.name}`;

test("the page is live, and says so", async ({ page }) => {
  await page.goto("/");
  await settle(page);
  await expect(page.locator(".topbar .live")).toHaveText("Live");
});

test("a change on a member appears by itself", async ({ page }) => {
  const [deployment] = await rows(
    page,
    "/api/cluster/all/resources/apps/v1/deployments?pageSize=1&sort=name&filter=namespace+ne+kube-system",
  );
  if (!deployment) throw new Error("the demo has no deployment");
  const path = `/api/cluster/${deployment.cluster}/resources/apps/v1/namespaces/${deployment.namespace}/deployments/${deployment.name}`;
  await page.goto(`/explore/apps/v1/deployments?scope=${deployment.cluster}&q=${deployment.name}`);
  const row = page.locator(`tr[data-row="${deployment.cluster}/${deployment.namespace}/${deployment.name}"]`);
  await expect(row).toBeVisible();
  await expect(page.locator(".topbar .live")).toHaveText("Live");
  const before = (await (await page.request.get(path)).json()) as { spec: { replicas: number } };
  const csrf = ((await (await page.request.get("/wapi/v1/session")).json()) as { csrf: string }).csrf;
  const scale = (replicas: number) =>
    page.request.post(`${path}/scale`, { data: { replicas }, headers: { "x-muster-csrf": csrf } });
  const wanted = before.spec.replicas + 1;
  expect((await scale(wanted)).status()).toBe(200);
  // Nothing is clicked or reloaded here.
  await expect(row).toContainText(`/ ${wanted}`);
  await scale(before.spec.replicas);
});

test("logs of two pods of two clusters are read together, searched and kept while pages change", async ({ page }) => {
  const pods = await somePods(page);
  const first = pods[0];
  const second = pods.find((pod) => pod.cluster !== first?.cluster);
  if (!first || !second) throw new Error("the demo has no pods on two clusters");
  await page.goto(
    `/logs?pod=${first.cluster}/${first.namespace}/${first.name}&pod=${second.cluster}/${second.namespace}/${second.name}`,
  );
  await expect(page.locator(".log-line").first()).toBeVisible();
  await expect(page.locator(".logs-foot")).toContainText("lines");
  await accessible(page);

  await page.goto(`/pods?q=${first.name}&scope=${first.cluster}`);
  await page.getByRole("button", { name: `Logs of ${first.name}` }).click();
  const dock = page.getByRole("region", { name: "Dock: logs and terminals" });
  await expect(dock.locator(".log-line").first()).toBeVisible();
  // Every line has a number in it.
  await dock.getByRole("searchbox").fill("2");
  await expect(dock.locator("mark").first()).toBeVisible();
  await dock.getByRole("button", { name: "Only matches" }).click();
  await dock.getByRole("button", { name: "Timestamps" }).click();
  await expect(dock.locator(".log-line time").first()).toBeVisible();
  await dock.getByRole("button", { name: "Regular expression" }).click();
  await dock.getByRole("searchbox").fill("(");
  await expect(dock.getByText("The pattern cannot be read")).toBeVisible();
  await accessible(page);

  await page.getByRole("link", { name: "Events", exact: true }).first().click();
  await settle(page);
  await expect(dock.locator(".log-line").first()).toBeVisible();
  await dock.getByRole("button", { name: "Close all" }).click();
  await expect(dock).toHaveCount(0);
});

test("a terminal runs commands in a pod", async ({ page }) => {
  const [pod] = await somePods(page);
  if (!pod) throw new Error("the demo has no running pod");
  await page.goto(podPath(pod));
  await page.getByRole("button", { name: "Terminal", exact: true }).click();
  const dock = page.getByRole("region", { name: "Dock: logs and terminals" });
  await expect(dock.getByText("Connected")).toBeVisible();
  await dock.locator(".terminal-screen").click();
  await page.keyboard.type("hostname\n", { delay: 15 });
  await expect(dock.locator(".xterm-rows, .xterm-accessibility").first()).toContainText(pod.name);
  await accessible(page);
  await page.keyboard.type("exit\n", { delay: 15 });
});

test("a change is seen as a difference before it is applied, and applied", async ({ page }) => {
  const [map] = await rows(
    page,
    "/api/cluster/all/resources/apps/v1/deployments?pageSize=1&sort=name&filter=namespace+ne+kube-system",
  );
  if (!map) throw new Error("the demo has no deployment");
  await page.goto(`/explore/apps/v1/deployments/${map.cluster}/${map.namespace}/${map.name}/yaml`);
  await page.getByRole("button", { name: "Edit" }).click();
  const editor = page.getByRole("textbox", { name: /editable/ });
  await expect(editor).toBeVisible();
  // A label of our own: nobody else has it, so nobody is in the way.
  const stamp = `t${Date.now()}`;
  await editor
    .locator(".cm-line", { hasText: /^\s+labels:$/ })
    .first()
    .click();
  await page.keyboard.press("End");
  await page.keyboard.type(`\n`);
  await page.keyboard.type(`  console-${stamp}: applied`);
  await page.getByRole("button", { name: "Review changes" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByText(stamp).first()).toBeVisible();
  await accessible(page);
  await dialog.getByRole("button", { name: "Apply" }).click();
  await expect(page.getByText(`${map.name} was applied`)).toBeVisible();
  const after = await page.request.get(
    `/api/cluster/${map.cluster}/resources/apps/v1/namespaces/${map.namespace}/deployments/${map.name}`,
  );
  expect(await after.text()).toContain(stamp);
});

test("a kubeconfig with a command in it is refused before anything is stored", async ({ page }) => {
  await page.goto("/clusters/import");
  await page.getByLabel("Name").fill("hostile");
  const kubeconfig = {
    apiVersion: "v1",
    kind: "Config",
    "current-context": "x",
    clusters: [{ name: "x", cluster: { server: "https://127.0.0.1:1" } }],
    contexts: [{ name: "x", context: { cluster: "x", user: "x" } }],
    users: [
      {
        name: "x",
        user: { exec: { apiVersion: "client.authentication.k8s.io/v1", command: "/bin/sh", args: ["-c", "id"] } },
      },
    ],
  };
  await page.getByLabel("Kubeconfig", { exact: true }).fill(JSON.stringify(kubeconfig, null, 1));
  await page.getByText("Allow what is refused otherwise").click();
  await page.getByLabel(/this machine's own authorities/).check();
  await page.getByRole("button", { name: "Check" }).click();
  await expect(page.getByRole("alert").filter({ hasText: "exec" })).toBeVisible();
  await expect(page.getByRole("button", { name: "Import cluster" })).toBeDisabled();
  await accessible(page);
});

test("the palette finds a cluster; the keyboard goes everywhere", async ({ page }) => {
  const [cluster] = await rows(page, "/api/cluster/all?sort=name");
  await page.goto("/");
  await settle(page);
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: "Search or jump to…" }).fill(cluster?.name ?? "");
  await expect(page.getByRole("option", { name: new RegExp(`^${cluster?.name}.*Cluster`) })).toBeVisible();
  await accessible(page);
  await page.keyboard.press("Enter");
  await expect(page).toHaveURL(new RegExp(`/clusters/${cluster?.name}$`));
  await settle(page);
  await page.keyboard.press("g");
  await page.keyboard.press("p");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Pods");
  await settle(page);
  await page.keyboard.press("j");
  await page.keyboard.press("l");
  await expect(page.getByRole("region", { name: "Dock: logs and terminals" })).toBeVisible();
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keyboard shortcuts" })).toBeVisible();
  await accessible(page);
});

test("the language and the theme stay when the page is opened again", async ({ page }) => {
  await page.goto("/settings");
  await page.getByRole("button", { name: "简体中文" }).click();
  await page.getByRole("button", { name: "深色", exact: true }).click();
  await page.reload();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("设置");
  await expect(page.locator("html")).toHaveAttribute("data-theme", "dark");
});

test("what is not there is said, with the way out", async ({ page }) => {
  const [cluster] = await rows(page, "/api/cluster/all?sort=name");
  await page.goto(`/explore/core/v1/pods/${cluster?.name}/default/there-is-no-such-pod`);
  await expect(page.getByRole("alert")).toContainText("It is not there");
  await expect(page.getByRole("alert")).toContainText("Request id");
});

test("logging out ends the session for good", async ({ browser, baseURL }) => {
  const context = await browser.newContext({
    locale: "en-GB",
    ...(baseURL && { baseURL }),
    storageState: { cookies: [], origins: [] },
  });
  const page = await context.newPage();
  await login(page);
  await page.getByRole("button", { name: /^User / }).click();
  await page.getByRole("menuitem", { name: "Log out" }).click();
  await expect(page.getByRole("heading", { name: "Log in to Muster" })).toBeVisible();
  expect((await page.request.get("/wapi/v1/session")).status()).toBe(401);
  await context.close();
});
