// Editing when others write, too: owners of fields, changes meanwhile, both changing the same.
import type { APIRequestContext, Page } from "@playwright/test";
import { accessible, expect, rows, test } from "./person";

interface Deployment {
  cluster: string;
  namespace: string;
  name: string;
}

const pathOf = (it: Deployment) =>
  `/api/cluster/${it.cluster}/resources/apps/v1/namespaces/${it.namespace}/deployments/${it.name}`;

async function anyDeployment(page: Page): Promise<Deployment> {
  const [found] = await rows(
    page,
    "/api/cluster/all/resources/apps/v1/deployments?pageSize=1&sort=-name&filter=phase+eq+Available+and+namespace+ne+kube-system",
  );
  if (!found) throw new Error("the demo has no deployment");
  return found;
}

/** Somebody else writes a label, by the API. */
async function otherWrites(request: APIRequestContext, it: Deployment, labels: Record<string, string>): Promise<void> {
  const { csrf } = (await (await request.get("/wapi/v1/session")).json()) as { csrf: string };
  const { apiVersion, kind } = (await (await request.get(`${pathOf(it)}?raw=true`)).json()) as {
    apiVersion: string;
    kind: string;
  };
  const data = { apiVersion, kind, metadata: { name: it.name, namespace: it.namespace, labels } };
  const answer = await request.put(`${pathOf(it)}?force=true`, { data, headers: { "x-muster-csrf": csrf } });
  expect(answer.status(), await answer.text()).toBe(200);
}

async function edit(page: Page, it: Deployment) {
  await page.goto(`/explore/apps/v1/deployments/${it.cluster}/${it.namespace}/${it.name}/yaml`);
  await page.getByRole("button", { name: "Edit" }).click();
  return page.getByRole("textbox", { name: /editable/ });
}

test("fields of another owner are named before they are taken over", async ({ page }) => {
  const it = await anyDeployment(page);
  const before = await (await page.request.get(pathOf(it))).json();
  const editor = await edit(page, it);
  await editor
    .locator(".cm-line", { hasText: /^ {2}replicas:/ })
    .first()
    .click();
  await page.keyboard.press("End");
  await page.keyboard.type("1");
  await page.getByRole("button", { name: "Review changes" }).click();
  const told = page.getByRole("alert").filter({ hasText: "belong to somebody else" });
  await expect(told).toContainText("replicas");
  await accessible(page);
  await told.getByRole("button", { name: "Take over and review" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.locator(".cm-changedLine, .cm-deletedChunk").first()).toBeVisible();
  await dialog.getByRole("button", { name: "Back to editing" }).click();
  await page.getByRole("button", { name: "Discard" }).click();
  const after = await (await page.request.get(pathOf(it))).json();
  expect(after.spec.replicas, "a review changes nothing").toBe(before.spec.replicas);
});

test("what others changed meanwhile is merged", async ({ page }) => {
  const it = await anyDeployment(page);
  await otherWrites(page.request, it, { "console-theirs": "before", "console-mine": "before" });
  const editor = await edit(page, it);
  const stamp = `t${Date.now()}`;
  await otherWrites(page.request, it, { "console-theirs": stamp, "console-mine": "before" });
  await expect(page.getByText("has changed on the server")).toBeVisible();
  await editor
    .locator(".cm-line", { hasText: /console-mine:/ })
    .first()
    .click();
  await page.keyboard.press("End");
  await page.keyboard.type("-edited");
  await page.getByRole("button", { name: "Review changes" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByText("Changes that others made meanwhile were merged.")).toBeVisible();
  await dialog.getByRole("button", { name: "Apply" }).click();
  await expect(page.getByText(`${it.name} was applied`)).toBeVisible();
  const after = await (await page.request.get(pathOf(it))).json();
  expect(after.labels).toMatchObject({ "console-theirs": stamp, "console-mine": "before-edited" });
});

test("where both changed the same, one choice is made for each place", async ({ page }) => {
  const it = await anyDeployment(page);
  await otherWrites(page.request, it, { "console-both": "before" });
  const editor = await edit(page, it);
  await otherWrites(page.request, it, { "console-both": "theirs" });
  await expect(page.getByText("has changed on the server")).toBeVisible();
  await editor
    .locator(".cm-line", { hasText: /console-both:/ })
    .first()
    .click();
  await page.keyboard.press("End");
  await page.keyboard.type("-mine");
  await page.getByRole("button", { name: "Review changes" }).click();
  const clash = page.getByRole("dialog", { name: "Both changed the same" });
  await expect(clash.getByText("metadata.labels.console-both")).toBeVisible();
  await accessible(page);
  await clash.getByRole("radio", { name: /Theirs/ }).check();
  await clash.getByRole("button", { name: "Review changes" }).click();
  const review = page.getByRole("dialog", { name: new RegExp(`Changes to ${it.name}`) });
  await expect(review.getByText("Nothing would change.")).toBeVisible();
  await expect(review.getByRole("button", { name: "Apply" })).toBeDisabled();
});

test("text that is no YAML is refused where it is wrong", async ({ page }) => {
  const it = await anyDeployment(page);
  const editor = await edit(page, it);
  await editor.locator(".cm-line").first().click();
  await page.keyboard.press("End");
  await page.keyboard.type(": : [");
  await page.getByRole("button", { name: "Review changes" }).click();
  await expect(page.getByRole("alert").first()).toContainText(/line 1/);
});
