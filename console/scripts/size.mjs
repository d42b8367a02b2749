// The size gate: what the first page loads, and everything together, compressed as the binary serves it.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants } from "node:zlib";

const dist = new URL("../dist/", import.meta.url).pathname;
const compressed = (file) => {
  const bytes = readFileSync(join(dist, file));
  return brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 11 } }).length;
};
const index = readFileSync(join(dist, "index.html"), "utf8");
const files = readdirSync(join(dist, "assets")).filter((file) => !file.endsWith(".map"));
const sizes = new Map(files.map((file) => [file, compressed(`assets/${file}`)]));

const sum = (pick) => [...sizes].filter(([file]) => pick(file)).reduce((total, [, size]) => total + size, 0);
// What index.html names (the entry and what it preloads) is loaded before anything can be seen.
const first = (file) => index.includes(file);
const budgets = [
  ["entry scripts", sum((file) => first(file) && file.endsWith(".js")), 180],
  ["entry styles", sum((file) => first(file) && file.endsWith(".css")), 25],
  ["editor", sum((file) => file.startsWith("editor-")), 160],
  ["terminal", sum((file) => file.startsWith("terminal-")), 85],
  ["graph", sum((file) => file.startsWith("graph-")), 75],
  ["everything", sum(() => true), 900],
];
let over = false;
for (const [name, bytes, limit] of budgets) {
  const kilobytes = bytes / 1000;
  if (kilobytes > limit) over = true;
  console.log(
    `${name.padEnd(14)} ${kilobytes.toFixed(1).padStart(7)} kB brotli, at most ${limit}${kilobytes > limit ? "  TOO LARGE" : ""}`,
  );
}
process.exit(over ? 1 : 0);
