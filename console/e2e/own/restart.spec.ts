// A line that is cut again and again, and a server that is killed and started anew: the page finds back by itself. // F-20
import { expect, fillIn, heap, login, noRowTwice, proof, rows, settle, test } from "../person";
import { Server, Wire } from "../server";

const DEPLOYMENTS =
  "/api/cluster/all/resources/apps/v1/deployments?pageSize=1&sort=name&filter=namespace+ne+kube-system";

test("a page whose line is cut and whose server is killed recovers by itself", async ({ browser, playwright }) => {
  test.setTimeout(300_000);
  const server = await Server.start("--demo");
  const wire = await Wire.to(server);
  const context = await browser.newContext({ locale: "en-GB", baseURL: wire.url });
  const page = await context.newPage();
  const broken: string[] = [];
  page.on("pageerror", (error) => broken.push(String(error)));
  const badge = page.locator(".topbar .live");
  await login(page, "/explore/apps/v1/deployments");
  await settle(page);
  // Somebody else, whose wire is whole.
  const other = await playwright.request.newContext({
    baseURL: server.url,
    storageState: await context.storageState(),
  });
  const [deployment] = await rows(page, DEPLOYMENTS);
  if (!deployment) throw new Error("the demo has no deployment");
  const { cluster, namespace, name } = deployment;
  const row = page.locator(`tr[data-row="${cluster}/${namespace}/${name}"]`);
  const path = `/api/cluster/${cluster}/resources/apps/v1/namespaces/${namespace}/deployments/${name}`;
  const scale = async (replicas: number) => {
    const headers = await proof(other);
    expect((await other.post(`${path}/scale`, { data: { replicas }, headers })).status()).toBe(200);
  };
  await expect(row).toBeVisible();
  await expect(badge).toHaveText("Live");
  const cdp = await context.newCDPSession(page);
  const cutAndRecover = async (n: number) => {
    wire.cut();
    // What changes while nobody listens is seen as soon as somebody does.
    await scale(1 + (n % 4));
    await expect(row).toContainText(`/ ${1 + (n % 4)}`);
    await expect(badge).toHaveText("Live");
    await noRowTwice(page);
  };
  // The first ones fill what is filled once: compiled code, caches.
  for (let n = 1; n <= 4; n += 1) await cutAndRecover(n);
  const before = await heap(cdp);
  for (let n = 5; n <= 14; n += 1) await cutAndRecover(n);
  const after = await heap(cdp);
  console.log(`    ten cuts: the page holds ${before} bytes before, ${after} after`);
  expect(after, "the page grows with every cut").toBeLessThanOrEqual(before * 1.1 + 256 * 1024);

  await server.kill();
  await expect(badge).toHaveText(/Not live/);
  await expect(row, "what was read stays").toBeVisible();
  await server.again();
  // Sessions live in memory, so the person has to log in again; the page says so by itself and is the same afterwards.
  await expect(page.getByText("Your session has ended. Log in again.")).toBeVisible({ timeout: 60_000 });
  await fillIn(page);
  await expect(page).toHaveURL(/\/explore\/apps\/v1\/deployments/);
  await expect(row).toBeVisible();
  await expect(badge).toHaveText("Live");
  await noRowTwice(page);
  expect(broken).toEqual([]);
  await other.dispose();
  await context.close();
  await wire.stop();
  await server.stop();
});

test("a tab that slept for an hour is live again by itself, and shows what changed meanwhile", async ({ browser }) => {
  test.setTimeout(240_000);
  const server = await Server.start("--demo");
  const context = await browser.newContext({ locale: "en-GB", baseURL: server.url });
  const page = await context.newPage();
  const broken: string[] = [];
  page.on("pageerror", (error) => broken.push(String(error)));
  await page.clock.install();
  await login(page, "/explore/apps/v1/deployments");
  await settle(page);
  const badge = page.locator(".topbar .live");
  await expect(badge).toHaveText("Live");
  const [deployment] = await rows(page, DEPLOYMENTS);
  if (!deployment) throw new Error("the demo has no deployment");
  const { cluster, namespace, name } = deployment;
  const row = page.locator(`tr[data-row="${cluster}/${namespace}/${name}"]`);
  await expect(row).toBeVisible();
  const sockets: string[] = [];
  page.on("websocket", (socket) => sockets.push(socket.url()));

  // The lid is closed: nothing of the page runs, and what the server sends is heard by nobody.
  const cdp = await context.newCDPSession(page);
  await cdp.send("Page.setWebLifecycleState", { state: "frozen" });
  const path = `/api/cluster/${cluster}/resources/apps/v1/namespaces/${namespace}/deployments/${name}`;
  const headers = await proof(page.request);
  expect((await page.request.post(`${path}/scale`, { data: { replicas: 7 }, headers })).status()).toBe(200);
  let asked = 0;
  page.on("request", () => {
    asked += 1;
  });
  await cdp.send("Page.setWebLifecycleState", { state: "active" });
  await page.clock.fastForward(3_600_000);
  await expect(badge).toHaveText("Live");
  await expect(row).toContainText("/ 7");
  await expect.poll(() => sockets.length, { message: "the old line was believed" }).toBeGreaterThan(0);
  await noRowTwice(page);
  expect(asked, "an hour of sleep is not an hour of questions").toBeLessThan(100);
  expect(broken).toEqual([]);
  await context.close();
  await server.stop();
});
