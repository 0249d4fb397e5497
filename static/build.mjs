// Bundle the page's modules with the browser packages they import, and its style sheets, into static/dist/, each file
// also as it goes over the wire. What comes out runs under a strict Content-Security-Policy: no eval, nothing fetched
// elsewhere.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { brotliCompress, gzip } from "node:zlib";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

const entries = ["js/first.js", "js/main.js", "css/page.css"].map(path);

// Third-party files that pages load as they are.
const copies = {
  "htmx.min.js": "htmx.org/dist/htmx.min.js",
};

await mkdir(path("dist"), { recursive: true });
await rm(path("dist/parts"), { recursive: true, force: true });
for (const [name, source] of Object.entries(copies)) {
  await copyFile(path(`../node_modules/${source}`), path(`dist/${name}`));
}

if (entries.every(existsSync)) {
  await build({
    entryPoints: entries,
    outdir: path("dist"),
    entryNames: "[name]",
    bundle: true,
    splitting: true, // what only some readers ask for is fetched then
    chunkNames: "parts/[name]-[hash]",
    format: "esm",
    target: "es2022",
    minify: true,
    sourcemap: true,
    logLevel: "warning",
  }).catch(() => process.exit(1)); // esbuild has printed the file, the line and a caret
} else {
  console.warn("static/js/main.js or static/css/page.css is not there: copied the third-party files only");
}

// Compressed once here, as well as can be, and not at each request.
const packings = { ".br": promisify(brotliCompress), ".gz": promisify(gzip) };
for (const name of (await readdir(path("dist"), { recursive: true })).filter((each) => /\.(js|css)$/.test(each))) {
  const content = await readFile(path(`dist/${name}`));
  for (const [suffix, pack] of Object.entries(packings))
    await writeFile(path(`dist/${name}${suffix}`), await pack(content));
}
