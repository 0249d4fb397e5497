// What a run's time or cycles went to: by kernel, and by operation, each of which leads to its lines.
import { around, byId, h, many, ms, query, queryAll, whole } from "../dom.js";
import { emit, on, state } from "../state.js";
import { percent } from "./levels.js";
/** @import { Child, CpuResult, DaeResult, GpuResult, Spent, Target } from "../types.d.ts" */
/** @typedef {{ id: number | null, label: string, line: number | null, amounts: number[], isRest?: boolean }} Row */
/** @typedef {{ own?: Spent, sideA?: Spent }} Kept */

/** @type {Map<Target, Kept>} what the newest run on each target has spent, by the numbers that operations have now */
const kept = new Map();
/** @param {Target} target */
export const spentOn = (target) => kept.get(target) ?? {};

const SMALL = 0.01; // of every column: a row below the fold
const FILLS = { "access unit": "fill-a", "execute unit": "fill-x" };

/**
 * @param {Spent} spent
 * @param {number} amount
 */
export const amountOf = ({ unit }, amount) => (unit === "cycles" ? whole(amount) : `${ms(amount)} ms`);

/**
 * `simulated`, or `measured, apportioned`: whether an operation's part was found or shared out.
 * @param {Spent} spent
 */
export const sourceOf = ({ source }) => (source === "simulated" ? source : `${source} by kernel, apportioned`);

/** @param {CpuResult | GpuResult | DaeResult} result */
export function spentTables({ spent }) {
  if (!spent) return [];
  /** @type {Row[]} */
  const rows = [...spent.operations, ...spent.rest.map(({ what, amounts }) => ({ id: null, label: what, line: null, amounts, isRest: true }))];
  const isLarge = (/** @type {Row} */ { amounts }) => amounts.some((amount) => amount >= SMALL * spent.whole);
  const small = rows.filter((row) => !isLarge(row));
  return [
    h(
      "div.spent",
      h("div.ch", h("h3", `${spent.unit === "cycles" ? "Cycles" : "Time"} by operation`), h("span.label", spent.source === "simulated" ? spent.source : "apportioned")),
      operationsTable(spent, rows.filter(isLarge)),
      small.length ? h("details.note", h("summary.label", `${many(small.length, "row")} under 1 %`), operationsTable(spent, small)) : null,
      kernelsTable(spent),
      h("details.note", h("summary.label", "how this is counted"), h("p.label", spent.how), h("p.label", sumOf(spent))),
    ),
  ];
}

/** @param {Spent} spent */
const sumOf = (spent) =>
  spent.unit === "cycles"
    ? `The two units work at once: the rows of each are together the ${whole(spent.whole)} cycles of the run.`
    : `All rows are together the ${ms(spent.whole)} ms of that pass.`;

/**
 * @param {Spent} spent
 * @param {Row[]} rows
 */
const operationsTable = (spent, rows) =>
  h(
    "table.levels.by",
    h("caption.vh", `By operation, of ${amountOf(spent, spent.whole)}${spent.unit === "cycles" ? " cycles" : ""}`),
    h("thead", h("tr", h("th", { scope: "col" }, h("span.vh", "operation")), ...spent.columns.map((name) => h("th", { scope: "col", colspan: "2" }, name)))),
    h(
      "tbody",
      rows.map(({ id, label, line, amounts, isRest }) =>
        h(
          isRest ? "tr.rest" : "tr",
          h("th", { scope: "row" }, nameOf(id, label), line ? h("span.dim", ` line ${line}`) : null),
          ...amounts.flatMap((amount, at) => cells(spent, amount, isRest ? "fill-rest" : fillOf(spent.columns[at]))),
        ),
      ),
    ),
  );

/** @param {string} column */
const fillOf = (column) => FILLS[/** @type {keyof typeof FILLS} */ (column)] ?? "fill-time";

/**
 * A button where the page has the operation: of an older text it may have another, or none.
 * @param {number | null} id
 * @param {string} label
 * @returns {Child}
 */
function nameOf(id, label) {
  if (id === null) return label;
  const isKnown = state.goodFacts?.operations.some((operation) => operation.id === id && operation.label === label);
  if (!isKnown) return h("code", label);
  return h("button.of", { type: "button", "data-act": "lead", "data-operation": id, title: "Show its lines in all panes" }, label);
}

/**
 * @param {Spent} spent
 * @param {number} amount
 * @param {string} fill
 */
function cells(spent, amount, fill) {
  const share = spent.whole ? amount / spent.whole : 0;
  const piece = h(`i.${fill}`);
  piece.style.setProperty("--part", String(Math.max(0, Math.min(1, share))));
  const bar = h("span.bar", { "aria-hidden": "true" }, piece);
  return [h("td", bar), h("td.num", { title: amountOf(spent, amount) }, amount > 0 ? percent(share) : "")];
}

/** @param {Spent} spent */
function kernelsTable(spent) {
  if (spent.kernels.length < 2) return null;
  const rows = spent.kernels.map(({ name, amount }) =>
    h("tr", h("th", { scope: "row" }, h("code", name)), ...cells(spent, amount, "fill-time"), h("td.num", amountOf(spent, amount))),
  );
  const what = spent.unit === "cycles" ? "cycles, one after another" : spent.source;
  return [h("div.ch", h("h3", "By kernel"), h("span.label", what)), h("table.levels.by", h("caption.vh", "By kernel"), h("tbody", rows))];
}

/** @param {Spent | null | undefined} spent */
const copied = (spent) => (spent ? structuredClone(spent) : undefined);

/**
 * @param {Spent | undefined} spent
 * @param {Map<number, number>} successors
 */
function renumber(spent, successors) {
  for (const row of spent?.operations ?? []) row.id = successors.get(row.id ?? -1) ?? null;
}

export function startSpent() {
  on("ran", ({ target, spent, against }) => kept.set(target, { own: copied(spent), sideA: copied(against?.spent) }));
  on("renumbered", (successors) => {
    for (const { own, sideA } of kept.values()) [own, sideA].forEach((spent) => renumber(spent, successors));
    for (const button of queryAll(byId("dock"), ".spent [data-operation]", HTMLButtonElement)) {
      const next = successors.get(Number(button.dataset.operation));
      button.disabled = next === undefined;
      if (next !== undefined) button.dataset.operation = String(next);
    }
  });
  const detail = byId("run-detail");
  /** @type {(event: Event) => void} */
  const light = ({ target }) => {
    const row = around(target, ".spent tr");
    const button = row && query(row, "button[data-operation]:enabled");
    emit("point", button ? [Number(button.dataset.operation)] : []);
  };
  for (const name of ["mouseover", "focusin"]) detail.addEventListener(name, light);
  detail.addEventListener("mouseleave", () => emit("point", []));
}
