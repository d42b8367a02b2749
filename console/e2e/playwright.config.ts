// Browser tests: npm run e2e. They start what they test, the debug binary; MUSTER_URL names a running `muster up --demo` instead.
import { defineConfig } from "@playwright/test";

const state = new URL("../test-results/state.json", import.meta.url).pathname;

export default defineConfig({
  testDir: ".",
  outputDir: "../test-results/failed",
  globalSetup: "./demo.ts",
  workers: 1,
  // A busy machine is slow, not wrong.
  timeout: 300_000,
  expect: { timeout: 60_000 },
  forbidOnly: true,
  reporter: [["list"]],
  use: {
    locale: "en-GB",
    viewport: { width: 1280, height: 860 },
    permissions: ["clipboard-read", "clipboard-write"],
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-dev-shm-usage"],
    },
  },
  projects: [
    { name: "login", testMatch: "login.setup.ts" },
    {
      name: "console",
      testMatch: "*.spec.ts",
      // Tests with a server of their own, and pictures, are elsewhere.
      testIgnore: ["own/**", "shots.spec.ts"],
      dependencies: ["login"],
      use: { storageState: state },
    },
    { name: "own", testMatch: "own/*.spec.ts", grepInvert: /@big|@soak/ },
    ...(process.env.MUSTER_BIG ? [{ name: "big", testMatch: "own/*.spec.ts", grep: /@big/ }] : []),
    ...(process.env.MUSTER_SOAK ? [{ name: "soak", testMatch: "own/*.spec.ts", grep: /@soak/ }] : []),
    ...(process.env.MUSTER_SHOTS
      ? [
          {
            name: "shots",
            testMatch: "shots.spec.ts",
            dependencies: ["login"],
            use: { storageState: state, viewport: { width: 1280, height: 800 } },
          },
        ]
      : []),
  ],
});
