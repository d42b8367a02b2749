// The very first start: the link that the server printed makes the administrator, once.
import { accessible, expect, settle, test } from "../person";
import { Server } from "../server";

const PASSWORD = "a long enough sentence";

test("the setup link makes the first administrator, once, and an empty fleet teaches", async ({ page, browser }) => {
  const server = await Server.start();
  await page.goto(server.url);
  await expect(page.getByText("Use the setup link")).toBeVisible();
  await accessible(page);

  await page.goto(server.setupLink);
  await page.reload();
  await expect(page.getByRole("heading", { name: "Set up Muster" })).toBeVisible();
  await accessible(page);
  await page.getByLabel("New password").fill("short");
  await page.getByLabel("The same again").fill("short");
  await page.getByRole("button", { name: "Create administrator" }).click();
  await expect(page.getByText("It needs at least 12 characters.")).toBeVisible();
  await page.getByLabel("New password").fill(PASSWORD);
  await page.getByLabel("The same again").fill(PASSWORD);
  await page.getByRole("button", { name: "Create administrator" }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Fleet overview");
  expect(page.url()).not.toContain("#t=");
  await settle(page);
  await expect(page.getByText("No cluster yet")).toBeVisible();
  await expect(page.getByText("password that everybody knows")).toHaveCount(0);
  await accessible(page);

  const other = await (await browser.newContext({ locale: "en-GB" })).newPage();
  await other.goto(server.setupLink);
  await other.getByLabel("New password").fill(PASSWORD);
  await other.getByLabel("The same again").fill(PASSWORD);
  await other.getByRole("button", { name: "Create administrator" }).click();
  await expect(other.getByRole("alert")).toBeVisible();
  await other.goto(new URL("/", page.url()).href);
  await expect(other.getByRole("heading", { name: "Log in to Muster" })).toBeVisible();
  await other.context().close();
  await server.stop();
});
