import { accessible, expect, login, test } from "./person";

test("a wrong password is refused in the same words as an unknown user, the right one lets in", async ({ page }) => {
  await page.goto("/");
  await expect(page.getByRole("heading", { name: "Log in to Muster" })).toBeVisible();
  await accessible(page);
  for (const user of ["admin", "nobody"]) {
    await page.getByLabel("User name").fill(user);
    await page.getByLabel("Password").fill("certainly not this one");
    await page.getByRole("button", { name: "Log in" }).click();
    await expect(page.getByText("The user name or the password is wrong.")).toBeVisible();
    await expect(page.getByLabel("Password")).toHaveValue("");
  }
  await login(page);
  await page.context().storageState({ path: new URL("../test-results/state.json", import.meta.url).pathname });
});
