// The table of decisions beside the kernels: a change is compiled at once, and what it costs is fetched behind it.
import { around, byId, query, queryAll } from "../dom.js";
import { compileNow, edited } from "../model/compile.js";
import { on, state } from "../state.js";
/** @import { Schedule } from "../types.d.ts" */

const SHOWN_AFTER = 1000; // ms, from when on a wait says how long it has been

/** @param {Schedule} schedule */
function choose(schedule) {
  state.schedule = schedule;
  edited();
  compileNow();
}

/** @param {string} key */
const without = (key) => Object.fromEntries(Object.entries(state.schedule).filter(([name]) => name !== key));

/** @param {HTMLElement} button */
export const resetDecision = ({ dataset }) => choose(without(dataset.decision ?? ""));
export const resetDecisions = () => choose({});

/** @param {Event} event */
function decide({ target }) {
  if (!(target instanceof HTMLSelectElement || target instanceof HTMLInputElement)) return;
  const { decision, usual } = target.dataset;
  if (!decision || target.value === "") return;
  /** @type {string | number | boolean} */
  const value = JSON.parse(target.value);
  choose(target.value === usual ? without(decision) : { ...without(decision), [decision]: value });
}

/** @param {string} name */
const field = (name) => {
  const found = byId("edit", HTMLFormElement).elements.namedItem(name);
  return found instanceof HTMLInputElement ? found.value : "";
};
const FIELDS = ["text", "edit", "good", "sizes", "options", "panes", "data", "default_sizes"];

// Apart from the form's own requests, one of which takes the place of another.
function fetchCosts() {
  const table = query(document, "[data-costs]");
  if (!table) return;
  const chosen = { schedule: JSON.stringify(state.schedule), good_schedule: JSON.stringify(state.scheduleBefore) };
  const values = { ...Object.fromEntries(FIELDS.map((name) => [name, field(name)])), ...chosen };
  window.htmx.ajax("post", "/costs", { source: table, target: table, values, swap: "none" }).catch(() => {});
  const begin = performance.now();
  const timer = setInterval(() => {
    const waiting = queryAll(document, "[data-waits-for-cost]").filter((each) => table.contains(each));
    if (!waiting.length) clearInterval(timer);
    const seconds = (performance.now() - begin) / 1000;
    if (seconds * 1000 >= SHOWN_AFTER)
      for (const each of waiting) each.dataset.seconds = `${seconds.toFixed(0)} s`;
  }, 250);
}

let top = 0; // where the table was scrolled to: a swap must not make it jump

export function startDecisions() {
  document.addEventListener("change", (event) => {
    if (around(event.target, ".decisions")) decide(event);
  });
  on("before-swap", () => (top = query(document, ".nests")?.scrollTop ?? top));
  on("swapped", (path) => {
    const nests = query(document, ".nests");
    if (path === "/costs" || !nests) return;
    nests.scrollTop = top;
    if (path === "/compile" || path === "/panes") fetchCosts();
  });
}
