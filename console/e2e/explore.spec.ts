// Any kind: its own columns, new objects from YAML, several deleted at once.
import { accessible, apply, expect, rows, settle, test, write } from "./person";

const stamp = () => Date.now().toString(36);

test("a custom kind shows the columns of its definition, and the server sorts by them", async ({ page }) => {
  await page.goto("/explore/apiextensions.k8s.io/v1/customresourcedefinitions?scope=meta&q=redismigrations");
  await settle(page);
  await expect(page.getByRole("columnheader", { name: "Scope" })).toBeVisible();
  await expect(page.getByRole("cell", { name: "Namespaced", exact: true })).toBeVisible();
  const [service] = await rows(page, "/api/cluster/all/resources/core/v1/services?pageSize=1&sort=name");
  await page.goto(`/explore/core/v1/services?q=${service?.name}`);
  await settle(page);
  await expect(page.getByRole("columnheader", { name: "Cluster-IP" })).toBeVisible();
  await page.getByRole("button", { name: "Cluster-IP" }).click();
  await expect(page).toHaveURL(/sort=spec\.clusterIP/);
  await expect(page.locator("tr[data-row]").first()).toContainText("ClusterIP");
  await accessible(page);
});

test("objects are created from YAML, seen before they are written, and deleted together", async ({ page }) => {
  const [cluster] = await rows(page, "/api/cluster/all?sort=name&filter=state+eq+Running");
  const [space, one] = [`made-${stamp()}`, `map-${stamp()}`];
  const map = (name: string) =>
    `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${name}\n  namespace: ${space}\ndata:\n  a: "1"\n`;
  await page.goto(`/explore/core/v1/configmaps?scope=${cluster?.name}`);
  await page.getByRole("link", { name: "Create" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Create from YAML");
  await expect(page.getByRole("textbox", { name: "YAML of what is created" })).toContainText("kind: ConfigMap");
  await expect(page.getByLabel("Where")).toHaveValue(cluster?.name ?? "");
  const review = page.getByRole("button", { name: "Review changes" });
  for (const [text, said] of [
    ["", "There is no object in the text."],
    ["a: [", /line 1/],
    ["apiVersion: v1\nkind: ConfigMap\n", "Object 1: apiVersion, kind and metadata.name are needed."],
    ["apiVersion: v9\nkind: Nonsense\nmetadata: {name: x}\n", "there is no kind v9 Nonsense"],
  ] as const) {
    await write(page, "YAML of what is created", text || " ");
    await review.click();
    await expect(page.getByRole("alert").first()).toContainText(said);
  }
  await write(
    page,
    "YAML of what is created",
    `apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ${space}\n---\n${[1, 2, 3].map((n) => map(`${one}-${n}`)).join("---\n")}`,
  );
  await review.click();
  const dialog = page.getByRole("dialog", { name: "4 objects would be written" });
  await expect(dialog.locator("p", { hasText: `ConfigMap ${space}/${one}-1` })).toContainText(
    "before its namespace is there",
  );
  await accessible(page);
  const at = `/api/cluster/${cluster?.name}/resources/core/v1/namespaces/${space}/configmaps`;
  expect((await page.request.get(`${at}/${one}-1`)).status(), "a review writes nothing").toBe(404);
  await dialog.getByRole("button", { name: "Apply" }).click();
  await expect(page.getByText("4 objects were written")).toBeVisible();

  await page.goto(`/explore/core/v1/configmaps?scope=${cluster?.name}&q=${one}`);
  await expect(page.locator("tr[data-row]")).toHaveCount(3);
  for (const n of [1, 3]) await page.getByLabel(`Select ${cluster?.name}/${space}/${one}-${n}`).check();
  await page.getByRole("button", { name: "Delete 2" }).click();
  const sure = page.getByRole("dialog", { name: "Delete 2 of ConfigMap?" });
  await expect(sure.getByText(`${one}-1`)).toBeVisible();
  await expect(sure.getByText(`${one}-2`)).toHaveCount(0);
  await expect(sure.getByRole("button", { name: "Delete" })).toBeDisabled();
  await accessible(page);
  await sure.getByLabel("Type 2 to confirm").fill("2");
  await sure.getByRole("button", { name: "Delete" }).click();
  await expect(page.getByText("2 of ConfigMap deleted")).toBeVisible();
  await expect(page.locator("tr[data-row]")).toHaveCount(1);
  await expect(page.locator("tr[data-row]")).toContainText(`${one}-2`);

  // What is there already is named as such, and shown as a difference.
  await page.goto(`/explore/new?scope=${cluster?.name}`);
  await write(page, "YAML of what is created", map(`${one}-2`).replace('"1"', '"2"'));
  await review.click();
  await expect(page.getByRole("dialog").getByText("is there already and would change")).toBeVisible();
  await page.getByRole("dialog").getByRole("button", { name: "Apply" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toContainText(`${one}-2`);
  expect((await (await page.request.get(`${at}/${one}-2`)).json()).data).toEqual({ a: "2" });
});

test("an application is restarted, and its new pods appear by themselves", async ({ page }) => {
  const [web] = await rows(
    page,
    "/api/cluster/all/resources/apps/v1/deployments?pageSize=1&sort=-name&filter=phase+eq+Available+and+namespace+ne+kube-system+and+labels.app+exists",
  );
  if (!web) throw new Error("the demo has no deployment");
  const path = `/api/cluster/${web.cluster}/resources/apps/v1/namespaces/${web.namespace}/deployments/${web.name}`;
  const before = (await (await page.request.get(path)).json()) as { labels: { app: string } };
  const { app } = before.labels;
  await page.goto(`/apps/${app}?scope=${web.cluster}`);
  await settle(page);
  const names = () => page.locator("tr[data-row]").evaluateAll((all) => all.map((row) => row.getAttribute("data-row")));
  await expect(page.locator("tr[data-row]").first()).toBeVisible();
  const old = new Set(await names());
  await page.getByRole("button", { name: "Restart", exact: true }).click();
  const dialog = page.getByRole("dialog", { name: `Restart ${app}?` });
  await expect(dialog.getByLabel("Namespace")).toHaveValue(web.namespace);
  await accessible(page);
  await dialog.getByRole("button", { name: "Restart" }).click();
  await expect(page.getByText(/^\d+ restarted$/)).toBeVisible();
  await expect
    .poll(async () => (await names()).some((name) => !old.has(name)), { message: "no new pod came", timeout: 60_000 })
    .toBe(true);
});

test("a reconciler's objects are counted on the server, looked at again, and show where they have been", async ({
  page,
}) => {
  // KC-10
  const name = `move-${stamp()}`;
  const at = "/api/cluster/meta/resources/database.cloud.tencent.com/v1/namespaces/default/redismigrations";
  for (let n = 0; n < 55; n += 1)
    await apply(page.request, `${at}/${name}-${n}`, {
      apiVersion: "database.cloud.tencent.com/v1",
      kind: "RedisMigration",
      metadata: { name: `${name}-${n}`, namespace: "default" },
      spec: { source: "nowhere", dest: "nowhere-else" },
    });
  await page.goto(`/reconcilers/redismigration?q=${name}`);
  await settle(page);
  await expect(page.getByText("1–50 of 55")).toBeVisible();
  // Every one of them stands in the drawing, though a page shows fifty.
  const drawn = async () => {
    const numbers = await page.locator(".graph .count text").allTextContents();
    return numbers.reduce((sum, one) => sum + Number(one), 0);
  };
  await expect.poll(drawn).toBeGreaterThanOrEqual(55);
  await expect(page.getByText("Failing now")).toBeVisible();

  await page.getByRole("button", { name: `Actions for ${name}-0`, exact: true }).click();
  await page.getByRole("menuitem", { name: /Look again/ }).click();
  await expect(page.getByText(`default/${name}-0 is looked at again`)).toBeVisible();
  await page.getByRole("button", { name: "Look at all again" }).click();
  await expect(page.getByText(/\d+ objects are looked at again/)).toBeVisible();
  await accessible(page);

  await page.getByRole("link", { name: `${name}-0`, exact: true }).click();
  const history = page.getByRole("region", { name: "Phase history" });
  await expect(history.getByRole("row").nth(1)).toContainText(/Pending|Precheck|PreFailed/);
  await accessible(page);
});
