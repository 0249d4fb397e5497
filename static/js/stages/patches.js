// Texts that came as what differs from those that the panes show: the rows that stay are moved, not made again.
import { byId, need, queryAll } from "../dom.js";
import { on } from "../state.js";

const panes = () => queryAll(byId("panes"), ":scope > .pane");
/** @param {HTMLElement} pane */
const bodies = (pane) => queryAll(pane, ".body");

// By pane the versions of the texts that it shows, for the server to tell what differs from them.
export const shownTexts = () => panes().map((pane) => bodies(pane).map(({ dataset }) => dataset.text ?? ""));

let isWhole = true;
// Whether the last answer's texts could all be put together.
export const allThere = () => isWhole;

/**
 * Put an answer's texts together from those that are shown, before they take their places.
 * @param {ParentNode} fresh
 */
function applyPatches(fresh) {
  const patches = queryAll(fresh, ".body[data-from]");
  if (!patches.length) return;
  const shown = new Map(panes().flatMap((pane) => bodies(pane).map((body) => [body.dataset.text ?? "", body])));
  isWhole = patches.map((body) => apply(body, shown.get(body.dataset.from ?? ""))).every(Boolean);
}

// htmx tells events of every element that it takes out or puts in, thousands for a long text; nothing here listens.
export function startSwaps() {
  on("before-swap", () => (isWhole = true));
  on("before-piece", ({ detail }) => applyPatches(detail.fragment));
  window.htmx.defineExtension("in-one-go", {
    handleSwap(style, target, fragment) {
      if (style !== "innerHTML" || !(target instanceof Element)) return false;
      if (target === byId("panes")) applyPatches(/** @type {ParentNode} */ (fragment));
      target.replaceChildren(...fragment.childNodes);
      return [];
    },
  });
}

/**
 * @param {HTMLElement} body
 * @param {HTMLElement} [old] what it is a patch of
 */
function apply(body, old) {
  const code = old?.querySelector(":scope > .code");
  if (!code) {
    delete body.dataset.text;
    return false;
  }
  const hunks = queryAll(body, "template", HTMLTemplateElement);
  const rows = queryAll(code, ":scope > div > .l");
  // From the last to the first: a hunk's place counts the rows before it.
  for (const hunk of hunks.reverse()) {
    const at = Number(hunk.dataset.at);
    const cut = rows.slice(at, at + Number(hunk.dataset.cut));
    if (at < rows.length) rows[at].before(hunk.content);
    else rows[rows.length - 1].after(hunk.content);
    cut.forEach((row) => row.remove());
    hunk.remove();
  }
  body.prepend(code);
  if (hunks.length) renumber(code, Number(body.dataset.begins));
  return true;
}

/**
 * @param {Element} code
 * @param {number} begins
 */
function renumber(code, begins) {
  queryAll(code, ".l").forEach((row, at) => {
    const cell = need(row, ".g");
    const number = String(begins + at);
    if (cell.textContent !== number) cell.textContent = number;
  });
}
