// A cluster that works, from its import to its loss and return. // SYM-8, F-8
import { readFileSync } from "node:fs";
import type { Page } from "@playwright/test";
import { accessible, begin, expect, noRowTwice, settle, test, write } from "../person";
import { Server, Simulated } from "../server";

const DEPLOYMENT = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: shop
  namespace: default
  labels: {app: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      containers:
      - name: shop
        image: registry.example/shop:1
`;

test("a working cluster is imported, its pods are shown, lost with it, and found again", async ({ page }) => {
  test.setTimeout(400_000);
  const server = await Server.start();
  const simulated = await Simulated.start(1, 3);
  const [member] = simulated.members;
  if (!member) throw new Error("no simulated cluster");
  const name = "branch-office";
  await begin(page, server.setupLink, "a long enough sentence");

  await page.goto(`${server.url}/clusters/import`);
  await page.getByLabel("Name").fill(name);
  await page.getByLabel("Kubeconfig", { exact: true }).fill(readFileSync(member.kubeconfig, "utf8"));
  await page.getByLabel("Labels").fill("tier=branch");
  await page.getByRole("button", { name: "Check" }).click();
  await expect(page.getByText("Nothing in it is refused")).toBeVisible();
  await accessible(page);
  await page.getByRole("button", { name: "Import cluster" }).click();
  await expect(page).toHaveURL(new RegExp(`/clusters/${name}$`));
  await expect(page.getByRole("heading", { level: 1 })).toContainText("Running", { timeout: 60_000 });

  await kubeconfigs(page, `${server.url}/clusters/${name}`);
  await page.goto(`${server.url}/audit?verb=setup`);
  await expect(page.locator("tr[data-row]", { hasText: "setup" })).toContainText("200");

  // What runs on it comes from here, too.
  await page.goto(`${server.url}/explore/new?scope=${name}`);
  await write(page, "YAML of what is created", DEPLOYMENT);
  await page.getByRole("button", { name: "Review changes" }).click();
  const review = page.getByRole("dialog", { name: "This would be written" });
  await expect(review.locator("p", { hasText: "Deployment default/shop" })).toContainText("new");
  await accessible(page);
  await review.getByRole("button", { name: "Apply" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toContainText("shop");

  await page.goto(`${server.url}/pods?q=shop`);
  const rows = page.locator("tr[data-row]");
  await expect(rows).toHaveCount(3);
  for (const row of await rows.all()) await expect(row).toContainText("Running", { timeout: 60_000 });
  await expect(page.locator(".degraded")).toHaveCount(0);
  const [pod] = await rows.evaluateAll((all) => all.map((row) => row.getAttribute("data-row") ?? ""));

  simulated.freeze();
  // Nothing is clicked: the page says by itself that what it shows is old.
  await expect(page.locator(".degraded")).toContainText(name, { timeout: 120_000 });
  await expect(page.locator(".degraded")).toContainText("as they were");
  await expect(page.locator("tr.stale")).toHaveCount(3);
  await noRowTwice(page);
  await accessible(page);
  await page.goto(`${server.url}/clusters`);
  await expect(page.locator(`tr[data-row="${name}"]`)).toContainText("Unreachable");
  await page.goto(`${server.url}/explore/core/v1/pods/${pod}`);
  await expect(page.getByText(`${name} cannot be reached`)).toBeVisible();
  await expect(page.getByText("registry.example/shop:1")).toBeVisible();
  await accessible(page);
  await page.getByRole("link", { name: "YAML" }).click();
  await expect(page.getByRole("button", { name: "Edit" })).toBeDisabled();
  await page.goto(`${server.url}/pods?q=shop`);
  await settle(page);
  await expect(page.locator("tr.stale")).toHaveCount(3);

  simulated.thaw();
  await expect(page.locator(".degraded")).toHaveCount(0, { timeout: 120_000 });
  await expect(page.locator("tr.stale")).toHaveCount(0);
  await expect(rows).toHaveCount(3);
  await page.goto(`${server.url}/explore/core/v1/pods/${pod}`);
  await settle(page);
  await expect(page.getByText("cannot be reached")).toHaveCount(0);
  await simulated.stop();
  await server.stop();
});

/** Nothing is made on a cluster unasked; what is given out ends, unless the lasting one is asked for. // B-20 */
async function kubeconfigs(page: Page, at: string): Promise<void> {
  await page.goto(`${at}/access`);
  const given = async (act: () => Promise<void>) => {
    const [file] = await Promise.all([page.waitForEvent("download"), act()]);
    return readFileSync(await file.path(), "utf8");
  };
  const press = (name: string) => page.getByRole("button", { name, exact: true }).click();
  await page.getByLabel("Good for").selectOption("8 hours");
  await expect(page.getByText("--ttl 8h")).toBeVisible();
  await press("Download kubeconfig");
  await expect(page.getByRole("alert")).toContainText("The cluster has no account for it yet");
  await accessible(page);
  const first = await given(() => press("Make one that may read"));
  await expect(page.getByText("Good until")).toBeVisible();
  await expect(page.getByRole("alert")).toHaveCount(0);
  const again = await given(() => press("Download kubeconfig"));
  for (const lent of [first, again]) {
    expect(lent).toContain('"token"');
    expect(lent).not.toContain("client-key-data");
  }
  await press("Download the lasting one…");
  const sure = page.getByRole("dialog");
  await accessible(page);
  expect(await given(() => sure.getByRole("button", { name: "Download kubeconfig" }).click())).toContain(
    "client-key-data",
  );
}
