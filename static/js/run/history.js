// All runs of this browser: what changed between them, a click that brings a run's state back, CSV and JSON of all.
import { shownData } from "./data.js";
import { byId, h, ms, short } from "../dom.js";
import { keptRuns, nameIn } from "./kept.js";
import { save } from "../stages/panes.js";
import { emit } from "../state.js";
import { isSingle, leastOf } from "../tuning/tuning.js";
/** @import { Entry, Failed, Result, Run, RunOrder } from "../types.d.ts" */

const KEPT = "explorer-runs";
const MOST = 50;
const MOST_CHARACTERS = 1_000_000; // of what is kept in the browser

/** @type {Entry[]} the newest first */
let entries = [];

/**
 * @param {Result | Failed} outcome
 * @param {Run["tuning"]} tuning
 */
function figureOf(outcome, tuning) {
  const least = leastOf(tuning);
  if (tuning?.space && least !== null) {
    if (tuning.space.metric === "cycles") return `${short(least)} cycles`;
    return isSingle(tuning) ? `${ms(least)} ms, a single trial` : `${ms(least)} ms`;
  }
  if (outcome.event !== "result") return outcome.kind;
  if (!outcome.matches_reference) return "wrong";
  if (outcome.target === "recording") return `${ms(outcome.tuned.best)} ms`;
  return outcome.target === "dae" ? `${short(outcome.cycles)} cycles` : `${ms(outcome.median_ms)} ms`;
}

/**
 * What is kept of a run: what was asked, and its figures without its samples.
 * @param {Pick<Run, "order" | "samples" | "target" | "at" | "tuning">} run
 * @param {Result | Failed} outcome
 * @returns {Entry}
 */
function entryOf({ order, samples, target, at, tuning }, outcome) {
  const right = outcome.event === "result" && outcome.matches_reference ? outcome : null;
  const timed = right && right.target !== "dae" && right.target !== "recording" ? right : null;
  return {
    id: nameIn(at),
    at: new Date().toISOString(),
    order,
    figure: figureOf(outcome, tuning),
    source: outcome.source ?? "",
    sizes: outcome.event === "result" ? outcome.sizes : order.sizes,
    median_ms: timed?.median_ms ?? null,
    p5_ms: timed?.p5_ms ?? null,
    p95_ms: timed?.p95_ms ?? null,
    cycles: right?.target === "dae" ? right.cycles : null,
    partial: right || target === "dae" ? 0 : samples.filter((sample) => !("of" in sample)).length,
  };
}

/**
 * @param {Run} run
 * @param {Result | Failed} outcome
 */
export function remember(run, outcome) {
  entries = [entryOf(run, outcome), ...entries].slice(0, MOST);
  keep();
  paint();
}

/** Those of the store that this browser does not have, among its own, the newest first. */
async function readBack() {
  const known = new Set(entries.map(({ id }) => id));
  const isHere = (/** @type {Entry} */ one) => known.has(one.id) || entries.some((own) => !own.id && alike(own, one));
  const found = (await keptRuns())
    .map(({ id, at, order, outcome }) => ({ ...entryOf({ order, samples: [], target: order.on }, outcome), id, at }))
    .filter((entry) => isEntry(entry) && !isHere(entry));
  if (!found.length) return;
  entries = [...entries, ...found].sort((one, other) => other.at.localeCompare(one.at)).slice(0, MOST);
  keep();
  paint();
}

/**
 * Whether they are one run, of which this browser has no name.
 * @param {Entry} own
 * @param {Entry} kept
 */
const alike = (own, kept) => own.figure === kept.figure && own.order.text === kept.order.text && own.order.on === kept.order.on;

// When the list is first looked at: a page that runs nothing does not ask.
function readBackOnceSeen() {
  if (byId("screen").dataset.links === undefined) return; // nothing is kept
  const seen = new IntersectionObserver((found) => {
    if (!found.some(({ isIntersecting }) => isIntersecting)) return;
    seen.disconnect();
    readBack();
  });
  seen.observe(byId("dock-body"));
}

function keep() {
  while (entries.length && JSON.stringify(entries).length > MOST_CHARACTERS) entries.pop();
  try {
    localStorage.setItem(KEPT, JSON.stringify(entries));
  } catch {
    // Storage may be full or forbidden: the list lasts as long as the page.
  }
}

// --- what changed

/** @param {RunOrder} order */
const settingsOf = ({ on: target, data, batch, repeat, machine = {}, options, peers, torch_compile: compiled, against, tune }) => ({
  target,
  ...(tune ? { trials: tune.trials, search: tune.search } : {}),
  data,
  batch,
  ...(target === "dae" ? machine : { repeats: repeat }),
  ...options,
  ...(peers ? { "beside PyTorch": true } : {}),
  ...(compiled ? { "beside torch.compile": true } : {}),
  ...(against ? { "against A": JSON.stringify(against.options) + JSON.stringify(against.sizes) } : {}),
});

/**
 * @param {Entry} entry
 * @param {Entry | undefined} before the run before it
 */
export function changes({ order, sizes }, before) {
  if (!before) return "the first";
  const [now, old] = [{ ...sizes, ...settingsOf(order) }, { ...before.sizes, ...settingsOf(before.order) }];
  /** @type {(value: unknown) => string} */
  const word = (value) => (value === undefined ? "usual" : String(value));
  const names = [...new Set([...Object.keys(now), ...Object.keys(old)])];
  /** @type {(side: object, name: string) => unknown} */
  const of = (side, name) => Object.entries(side).find(([key]) => key === name)?.[1];
  const found = names
    .filter((name) => of(now, name) !== of(old, name))
    .map((name) => (name === "against A" ? "side A" : `${name} ${word(of(old, name))} → ${word(of(now, name))}`));
  if (order.text !== before.order.text) found.unshift("text");
  if (JSON.stringify(order.schedule) !== JSON.stringify(before.order.schedule)) found.push("decisions");
  return found.join(", ") || "nothing";
}

function paint() {
  const rows = entries.map((entry, at) => {
    const { order, figure, partial } = entry;
    const words = [...(order.tune ? ["tune"] : []), order.on, shownData(order.data), changes(entry, entries[at + 1])].join(" · ");
    const title = `${entry.at.slice(0, 19).replace("T", " ")}: bring this text and its settings back`;
    const button = h("button.again", { type: "button", "data-again": at, title }, words);
    const shown = partial ? `${figure}, ${partial} of ${order.repeat} repeats` : figure;
    return h(at === 0 ? "tr.me" : "tr", h("td.wrap", button), h("td", shown));
  });
  byId("run-history", HTMLTableElement).tBodies[0].replaceChildren(...rows);
  byId("run-history-tools").hidden = !entries.length;
}

// --- to take away

export const exportRuns = () => save("runs.json", JSON.stringify(entries, null, 1), "application/json");

const COLUMNS = /** @type {const} */ (["at", "source", "figure", "median_ms", "p5_ms", "p95_ms", "cycles", "partial"]);

export function exportTable() {
  // A cell that a spreadsheet would take for a formula is made text.
  /** @type {(value: unknown) => string} */
  const cell = (value) => `"${String(value ?? "").replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`;
  const head = ["target", "data", "batch", "repeat", "sizes", "options", "changed", ...COLUMNS];
  const rows = entries.map((entry, at) => {
    const { order } = entry;
    const asked = [order.on, order.data, order.batch, order.repeat, JSON.stringify(entry.sizes), JSON.stringify(order.options)];
    return [...asked, changes(entry, entries[at + 1]), ...COLUMNS.map((name) => entry[name])].map(cell).join(",");
  });
  save("runs.csv", `${[head.map(cell).join(","), ...rows].join("\n")}\n`, "text/csv");
}

/**
 * Whether something kept is a run, as far as is read of it.
 * @param {unknown} found
 * @returns {found is Entry}
 */
function isEntry(found) {
  if (!found || typeof found !== "object" || !("order" in found) || !("at" in found) || !("figure" in found)) return false;
  const { order, at, figure } = found;
  if (typeof at !== "string" || typeof figure !== "string" || !order || typeof order !== "object") return false;
  return "text" in order && typeof order.text === "string" && "options" in order && "sizes" in order && "on" in order;
}

export function startHistory() {
  try {
    const kept = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    entries = Array.isArray(kept) ? kept.filter(isEntry).slice(0, MOST) : [];
  } catch {
    entries = [];
  }
  byId("run-history").addEventListener("click", ({ target }) => {
    const at = target instanceof HTMLElement ? target.dataset.again : undefined;
    if (at !== undefined) emit("restore", entries[Number(at)].order);
  });
  paint();
  readBackOnceSeen();
}
