// The story of one operation, over the panes: its lines stage by stage, fetched when a reader asks why.
import { costs } from "./cost.js";
import { byId, h, message, need, query, queryAll } from "../dom.js";
import { openPass, openStage } from "../stages/panes.js";
import { chosenOperation, point } from "../stages/link.js";
import { say } from "../page.js";
import { isBroken, isCurrent, keep, on, state } from "../state.js";
/** @import { CpuResult, DaeResult, GpuResult, Target } from "../types.d.ts" */
/** @typedef {CpuResult | GpuResult | DaeResult} Ran */

/** @type {Map<string, { result: Ran, program: string | undefined, edit: number | undefined }>} by target the newest run that ended well */
const runs = new Map();
let withMachineCode = false;
/** @type {number | null} the operation of a link, whose text is still to compile */
let toTell = null;
/** @type {AbortController | null} */
let asked = null;
/** @type {Element | null} what had the focus before the story */
let before = null;

const sheet = () => byId("story");
// What lies under the story takes no focus.
/** @param {boolean} isUnder */
function setInert(isUnder) {
  for (const id of ["panes", "splits"]) byId(id).inert = isUnder;
}
export const isTelling = () => state.story !== null;

/** @param {number | null} id null for the operation that is pinned or in the panel */
export function openStory(id = chosenOperation()) {
  if (isBroken()) return say("The model does not compile yet.");
  if (id === null) return say("Point at an operation first.");
  if (!isTelling()) before = document.activeElement;
  state.story = id;
  keep();
  sheet().hidden = false;
  setInert(true);
  point([id]);
  sheet().focus({ preventScroll: true });
  return fetchStory();
}

export function closeStory() {
  if (!isTelling()) return false;
  state.story = null;
  asked?.abort();
  keep();
  sheet().hidden = true;
  setInert(false);
  if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
  else byId("panes").focus({ preventScroll: true });
  return true;
}

/** @param {number} by */
export function stepStory(by) {
  const ids = (state.goodFacts?.operations ?? []).map(({ id }) => id);
  const at = ids.indexOf(state.story ?? -1);
  if (ids.length) openStory(ids[(at + by + ids.length) % ids.length]);
}

/**
 * What a link says, as soon as its text has compiled.
 * @param {number | null} id
 */
export function tellLater(id) {
  closeStory();
  toTell = id;
}

function formOf() {
  const input = state.goodInput;
  if (!input) return null;
  const form = new FormData();
  const fields = {
    text: input.text,
    edit: state.good,
    sizes: JSON.stringify(input.sizes),
    default_sizes: JSON.stringify(input.defaultSizes),
    options: JSON.stringify(input.options),
    schedule: JSON.stringify(input.schedule),
    edited: JSON.stringify(input.edited),
    data: input.data,
    against: JSON.stringify(state.against),
    operation: state.story,
    machine_code: withMachineCode,
  };
  for (const [name, value] of Object.entries(fields)) form.append(name, String(value));
  return new URLSearchParams(/** @type {any} */ (form));
}

async function fetchStory() {
  asked?.abort();
  asked = new AbortController();
  const body = formOf();
  const told = byId("story-told");
  if (!body) return;
  sheet().setAttribute("aria-busy", "true");
  try {
    const answer = await fetch("/story", { method: "POST", body, signal: asked.signal });
    if (!answer.ok) throw new Error(String(answer.status));
    // The server's own template, escaped there; the page's policy lets no script in it run.
    const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
    const top = told.scrollTop;
    told.replaceChildren(...parsed.body.childNodes);
    told.scrollTop = top;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") return;
    told.replaceChildren(message("err", "The story did not arrive", "Press w to ask for it again."));
  }
  sheet().removeAttribute("aria-busy");
  paint();
}

export function tellMachineCode() {
  withMachineCode = true;
  say("Making PTX and SASS of it.");
  return fetchStory();
}

/** @param {HTMLElement} element */
export function leaveFor({ dataset: { stage = "", pass, touched } }) {
  closeStory();
  if (pass === undefined) return openStage(stage);
  openPass(stage, Number(pass), touched === "true");
}

function paint() {
  const { label = "", op = "" } = query(sheet(), ".told")?.dataset ?? {};
  byId("story-label").textContent = label;
  byId("story-op").textContent = op;
  need(sheet(), ".ab-both").hidden = !sheet().querySelector("[data-compared]");
  for (const place of queryAll(sheet(), "[data-cost]")) place.replaceChildren(...costOf(place));
}

/** @param {HTMLElement} place */
function costOf({ dataset: { cost = "", kernels = "" } }) {
  const target = /** @type {Target} */ (cost);
  const run = runs.get(target);
  if (!run) return ["not run yet"];
  const own = kernels.split(" ").filter(Boolean);
  const now = state.goodFacts;
  const program = now?.programs[target];
  const isOld = program && run.program ? program !== run.program : now?.edit !== run.edit;
  const words = costs(run.result, state.story ?? -1, own);
  return [...words, ...(isOld ? [h("span.dim", " It was of an older program.")] : [])];
}

export function startStory() {
  on("swapped", (path) => {
    const id = toTell ?? state.story;
    if (path !== "/compile" || id === null || !isCurrent() || isBroken()) return;
    toTell = null;
    if (state.goodFacts?.operations.some((operation) => operation.id === id)) openStory(id);
  });
  on("renumbered", (successors) => {
    const next = successors.get(state.story ?? -1);
    if (next === undefined) closeStory();
    else state.story = next;
  });
  on("ran", (result) => {
    runs.set(result.target, { result, program: state.goodFacts?.programs[result.target], edit: state.goodFacts?.edit });
    if (isTelling()) paint();
  });
  sheet().addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    closeStory();
  });
}
