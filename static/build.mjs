// Bundle the page's modules with the browser packages they import, into static/dist/.
// What comes out runs under a strict Content-Security-Policy: one module, no eval, nothing fetched elsewhere.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

const entry = path("js/main.js");

// Third-party files that the page loads as they are.
const copies = {
  "htmx.min.js": "htmx.org/dist/htmx.min.js",
  "uPlot.min.css": "uplot/dist/uPlot.min.css",
};

await mkdir(path("dist"), { recursive: true });
for (const [name, source] of Object.entries(copies)) {
  await copyFile(path(`../node_modules/${source}`), path(`dist/${name}`));
}

if (existsSync(entry)) {
  await build({
    entryPoints: [entry],
    outfile: path("dist/main.js"),
    bundle: true,
    format: "esm",
    target: "es2022",
    minify: true,
    sourcemap: true,
    logLevel: "warning",
  }).catch(() => process.exit(1)); // esbuild has printed the file, the line and a caret
} else {
  console.warn("static/js/main.js is not there: copied the third-party files only");
}
