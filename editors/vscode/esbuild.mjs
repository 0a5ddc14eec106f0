// Bundles the extension, and with --tests the tests, which replace the module `vscode`.
import { readdirSync } from "node:fs";
import { build } from "esbuild";

const production = process.argv.includes("--production");
const options = {
  bundle: true,
  format: "cjs",
  platform: "node",
  target: "node20",
  logLevel: "warning",
};

await build({
  ...options,
  entryPoints: ["src/extension.ts"],
  external: ["vscode"],
  minify: production,
  outfile: "dist/extension.js",
  sourcemap: !production,
});

if (process.argv.includes("--tests")) {
  const tests = readdirSync("test").filter((name) => name.endsWith(".test.ts"));
  const unit = { alias: { vscode: "./test/vscode.ts" }, outdir: "dist/test", outbase: "test" };
  const inEditor = { external: ["vscode"], outfile: "dist/test/editor/suite.js" };
  await build({
    ...options,
    ...unit,
    entryPoints: tests.map((name) => `test/${name}`),
    sourcemap: "inline",
  });
  await build({ ...options, ...inEditor, entryPoints: ["test/editor/suite.ts"] });
}
