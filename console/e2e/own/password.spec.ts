// The demo's password, which everybody knows, is changed. // SYM-10
import { accessible, expect, fillIn, login, settle, test } from "../person";
import { Server } from "../server";

const NEXT = "nobody knows this one";

test("the console asks for another password than the demo's, takes it, and ends all other sessions", async ({
  browser,
}) => {
  const server = await Server.start("--demo");
  const open = async () => (await browser.newContext({ locale: "en-GB", baseURL: server.url })).newPage();
  const [page, other] = [await open(), await open()];
  await login(other, "/clusters");
  await login(page);
  const asked = page.getByText("You use the password that everybody knows.");
  await expect(asked).toBeVisible();
  await page.getByRole("link", { name: "Change it now" }).click();
  const old = page.getByLabel("Present password");
  await expect(old).toBeFocused();
  const fill = async (present: string, next: string, again: string) => {
    await old.fill(present);
    await page.getByLabel("New password").fill(next);
    await page.getByLabel("The same again").fill(again);
    await page.getByRole("button", { name: "Change password" }).click();
  };
  await fill("teleport", "short", "short");
  await expect(page.getByText("It needs at least 12 characters.")).toBeVisible();
  await fill("teleport", NEXT, `${NEXT}?`);
  await expect(page.getByText("The two are not the same.")).toBeVisible();
  await fill("not this", NEXT, NEXT);
  await expect(page.getByText("The present password is wrong.")).toBeVisible();
  await accessible(page);
  await fill("teleport", NEXT, NEXT);
  await expect(page.getByText("The password was changed")).toBeVisible();
  await expect(asked).toHaveCount(0);
  await expect(old).toHaveValue("");

  // The other browser is out as soon as it asks for anything; the known password opens nothing any more.
  await expect(other.getByText("Your session has ended. Log in again.")).toBeVisible({ timeout: 60_000 });
  await fillIn(other);
  await expect(other.getByText("The user name or the password is wrong.")).toBeVisible();
  await fillIn(other, "admin", NEXT);
  await settle(other);
  await expect(other.getByRole("heading", { level: 1 })).toHaveText("Clusters");
  await expect(other.getByText("You use the password that everybody knows.")).toHaveCount(0);
  await page.reload();
  await settle(page);
  await page.context().close();
  await other.context().close();
  await server.stop();
});
