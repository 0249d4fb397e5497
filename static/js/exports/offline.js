// The page as one file that needs no server: the model, the panes and the last run as they are shown, linked by
// operation. Dropped onto the page, it opens there again.
import { byId, queryAll } from "../dom.js";
import { state } from "../state.js";
import { linking } from "./linking.js";
/** @import { Kept } from "../types.d.ts" */

const STATE = "explorer-state";

/**
 * @param {Kept} kept what the page opens again
 * @returns {string} the file
 */
export function offlinePage(kept) {
  const style = byId("style").textContent;
  const { theme } = document.documentElement.dataset;
  return `<!doctype html>
<html lang="en"${theme === "dark" || theme === "light" ? ` data-theme="${theme}"` : ""}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<title>${escaped(title())} · Embedding Compiler Explorer</title>
<style>${style}${STYLE}</style>
</head>
<body class="plain offline">
<header class="top"><h1 class="logo">${escaped(title())}</h1><p class="dim small">${about()}</p></header>
<section class="source"><h2>Model</h2><div class="code">${model()}</div></section>
<div class="stages${state.heat ? " heated" : ""}">${panes()}</div>
${lastRun()}
<script type="application/json" id="${STATE}">${JSON.stringify(kept).replaceAll("<", "\\u003c")}</script>
<script>(${linking})();</script>
</body>
</html>
`;
}

const POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

const title = () => `${state.goodFacts?.name || "model"}.emb`;

const about = () =>
  `Saved ${new Date().toISOString().slice(0, 10)} by the Embedding Compiler Explorer. Point at an operation; click to` +
  ` keep it lit. Drop this file onto the explorer's page to go on.`;

/** @type {Record<string, string>} */
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"]/g, (sign) => ENTITIES[sign]);

const model = () =>
  (state.goodInput?.text ?? "")
    .split("\n")
    .map((text, at) => `<div class="l"><span class="g">${at + 1}</span><span class="t">${line(text, at + 1)}</span></div>`)
    .join("\n");

/**
 * A line with each operation in a span of its own; of those that overlap, the first.
 * @param {string} text
 * @param {number} number
 */
function line(text, number) {
  const found = (state.goodFacts?.operations ?? [])
    .filter((entry) => entry.line === number && entry.end_line === number)
    .sort((one, other) => one.column - other.column);
  let [marked, at] = ["", 0];
  for (const { id, column, end_column } of found) {
    if (column - 1 < at) continue;
    const name = escaped(text.slice(column - 1, end_column - 1));
    marked += `${escaped(text.slice(at, column - 1))}<span class="o" data-operations="${id}">${name}</span>`;
    at = end_column - 1;
  }
  return marked + escaped(text.slice(at));
}

// What works with a server alone, or only shows that something is going on.
const LIVE = "select, input, template, .tools, .zoom, .spin, button:not([data-act='made-by'])";

/**
 * The markup of what is shown. Elements are not cloned: the page's policy would complain of every style.
 * @param {Node} node
 * @returns {string}
 */
function markup(node) {
  if (node instanceof Text) return escaped(node.data);
  if (!(node instanceof Element) || node.matches(LIVE)) return "";
  if (node instanceof HTMLCanvasElement) return `<img alt="" width="${node.clientWidth}" src="${node.toDataURL()}">`;
  const tag = node instanceof HTMLButtonElement ? "span" : node.localName;
  const kept = [...node.attributes].filter(({ name }) => name !== "id" && !name.startsWith("on"));
  const attributes = kept.map(({ name, value }) => ` ${name}="${escaped(value)}"`).join("");
  if (tag === "br" || tag === "img") return `<${tag}${attributes}>`;
  return `<${tag}${attributes}>${[...node.childNodes].map(markup).join("")}</${tag}>`;
}

const panes = () =>
  queryAll(byId("panes"), ":scope > .pane")
    .map((pane, at) => `<div class="saved"><h2>${escaped(state.panes[at]?.stage ?? "")}</h2>${markup(pane)}</div>`)
    .join("\n");

const RUN = ["run-summary", "run-check", "run-main", "run-detail"];

function lastRun() {
  if (!byId("run-number").textContent) return "";
  return `<section class="run"><h2>Last run</h2>${RUN.map((id) => markup(byId(id))).join("\n")}</section>`;
}

const STYLE = `
body.offline { overflow: auto; height: auto; padding: 0 1rem 2rem; }
.offline > .top { flex-wrap: wrap; height: auto; min-height: 44px; padding-block: .25rem; white-space: normal; }
.offline :is(.source, .run) { min-width: 0; overflow: auto; }
.offline .source, .offline .run, .offline .saved { margin-top: 1.5rem; }
.offline .stages { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 36rem), 1fr)); }
.offline .saved { min-width: 0; overflow: auto; border: 1px solid var(--line, #ccc); padding: 0 .5rem; }
.offline .body, .offline .source .code { max-height: 40rem; overflow: auto; }
`;

/**
 * What a saved page holds; null for any other file.
 * @param {string} text
 */
export function savedIn(text) {
  // Not parsed as a page: this one's policy would complain of that one's styles. The JSON has no "<".
  const found = text.match(new RegExp(`<script type="application/json" id="${STATE}">([^<]*)</script>`));
  try {
    return found && /** @type {unknown} */ (JSON.parse(found[1]));
  } catch {
    return null;
  }
}
