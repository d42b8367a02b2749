// A person whose rights are taken away while they work: what is open ends, and says why.
import { pbkdf2Sync, randomBytes } from "node:crypto";
import type { APIRequestContext } from "@playwright/test";
import { accessible, apply, expect, login, proof, settle, somePods, test, theDock } from "./person";

const PASSWORD = "correct horse battery";
const RBAC = "/api/cluster/meta/resources/rbac.authorization.k8s.io/v1";
const base64 = (text: string) => Buffer.from(text).toString("base64");

/** Somebody who may look at pods, read their logs and open terminals in them, until the binding is gone. */
async function hire(request: APIRequestContext, name: string): Promise<void> {
  const salt = randomBytes(16);
  const plain = (bytes: Buffer) => bytes.toString("base64").replace(/=+$/, "");
  const hash = `pbkdf2-sha256$600000$${plain(salt)}$${plain(pbkdf2Sync(PASSWORD, salt, 600_000, 32, "sha256"))}`;
  await apply(request, `/api/cluster/meta/resources/core/v1/namespaces/muster-system/secrets/muster-user-${name}`, {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: `muster-user-${name}`, namespace: "muster-system" },
    type: "muster.dev/user",
    data: { name: base64(name), groups: base64("staff"), hash: base64(hash) },
  });
  const apiVersion = "rbac.authorization.k8s.io/v1";
  const members = (resources: string[], verbs: string[]) => ({ apiGroups: ["members.muster.dev"], resources, verbs });
  await apply(request, `${RBAC}/clusterroles/${name}`, {
    apiVersion,
    kind: "ClusterRole",
    metadata: { name },
    rules: [
      members(["clusters", "pods", "pods/log", "namespaces", "events"], ["get", "list"]),
      members(["pods/exec"], ["create"]),
    ],
  });
  await apply(request, `${RBAC}/clusterrolebindings/${name}`, {
    apiVersion,
    kind: "ClusterRoleBinding",
    metadata: { name },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name },
    subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name }],
  });
}

test("rights that are taken away end an open terminal and followed logs, and the tab says so", async ({
  page: admin,
  browser,
  baseURL,
}) => {
  // B-20
  const name = `ann-${Date.now().toString(36)}`;
  await hire(admin.request, name);
  const [pod] = await somePods(admin);
  if (!pod) throw new Error("the demo has no running pod");

  const context = await browser.newContext({
    locale: "en-GB",
    ...(baseURL && { baseURL }),
    storageState: { cookies: [], origins: [] },
  });
  const page = await context.newPage();
  await login(page, "/pods", name, PASSWORD);
  await settle(page);
  await expect(page.locator("tr[data-row]").first()).toBeVisible();
  await page.goto(`/pods?q=${pod.name}&scope=${pod.cluster}`);
  await page.getByRole("button", { name: `Logs of ${pod.name}` }).click();
  const dock = theDock(page);
  await expect(dock.locator(".logs-foot")).toContainText("following 1 of 1");
  await page.getByRole("button", { name: `Actions for ${pod.name}` }).click();
  await page.getByRole("menuitem", { name: /Terminal/ }).click();
  await expect(dock.getByText("Connected")).toBeVisible();

  const answer = await admin.request.delete(`${RBAC}/clusterrolebindings/${name}`, {
    headers: await proof(admin.request),
  });
  expect(answer.status()).toBe(200);
  const begun = Date.now();
  await expect(dock.locator(".terminal .logs-bar")).toContainText("you may not", { timeout: 60_000 });
  await expect(dock.getByRole("button", { name: "Connect again" })).toBeVisible();
  const terminal = Date.now() - begun;
  await dock.getByRole("button", { name: pod.name, exact: true }).first().click();
  const told = dock.getByRole("alert");
  await expect(told).toContainText("You may not do this", { timeout: 60_000 });
  console.log(`    rights taken away: the terminal said so after ${terminal} ms, the log by ${Date.now() - begun} ms`);
  await accessible(page);

  // What is asked for anew is refused in words as well.
  await page.goto("/pods");
  await expect(page.getByRole("alert").first()).toContainText("You may not do this");
  await context.close();
});
