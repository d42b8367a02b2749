// A member that does not answer: imported, shown as it is, in nobody's way, and taken out again.
import { accessible, expect, test } from "./person";

test("a cluster that cannot be reached is imported, stays in the lists without delaying them, and is removed by name", async ({
  page,
}) => {
  const name = `nowhere-${Date.now().toString(36)}`;
  await page.goto("/clusters/import");
  await page.getByLabel("Name").fill(name);
  await page.getByRole("button", { name: "Token", exact: true }).click();
  await page.getByLabel("Server", { exact: true }).fill("https://127.0.0.1:1");
  await page.getByLabel("Service account token").fill("not-a-token");
  await page.getByLabel("Labels").fill("tier=test");
  await page.getByText("Allow what is refused otherwise").click();
  await page.getByLabel(/this machine's own authorities/).check();
  await page.getByRole("button", { name: "Check" }).click();
  await expect(page.getByText("Nothing in it is refused")).toBeVisible();
  await accessible(page);
  await page.getByRole("button", { name: "Import cluster" }).click();
  await expect(page).toHaveURL(new RegExp(`/clusters/${name}$`));
  await expect(page.getByRole("heading", { level: 1 })).toContainText(name);

  await page.goto("/clusters");
  const row = page.locator(`tr[data-row="${name}"]`);
  await expect(row).toContainText(/Connecting|Unreachable/);

  // A dead member does not hold up the others.
  await page.goto("/pods");
  await expect(page.locator("tr[data-row]").first()).toBeVisible();
  await expect(page.locator(".degraded")).toContainText(name);
  await accessible(page);

  await page.goto(`/clusters/${name}`);
  await page.getByRole("button", { name: "Remove" }).click();
  const dialog = page.getByRole("dialog");
  await expect(dialog.getByRole("button", { name: "Remove" })).toBeDisabled();
  await dialog.getByLabel(/Type/).fill(name);
  await dialog.getByRole("button", { name: "Remove" }).click();
  await expect(page.getByText(`${name} was removed`)).toBeVisible();
  await expect(page.locator(`tr[data-row="${name}"]`)).toHaveCount(0);
});
