// The panes and the rail: which stage stands where, at which pass, and what can be taken away from it.
import { repaint } from "../model/compile.js";
import { around, byId, h, need, query, queryAll } from "../dom.js";
import { emit, freshPane, isBroken, on, state } from "../state.js";
import { say } from "../page.js";
import { allThere, startSwaps } from "./patches.js";
/** @import { Compiled, Input, Pane } from "../types.d.ts" */

const root = () => byId("panes");
export const paneElements = () => queryAll(root(), ":scope > .pane");
export const activePane = () => paneElements()[state.active] ?? null;

const mostShown = () =>
  matchMedia("(max-width: 699px)").matches || document.documentElement.hasAttribute("data-projector") ? 1 : matchMedia("(max-width: 1199px)").matches ? 2 : 6;

/** @param {number} index */
export function activate(index) {
  state.active = Math.max(0, Math.min(index, state.panes.length - 1));
  paneElements().forEach((pane, at) =>
    pane.classList.toggle("active", at === state.active && state.panes.length > 1),
  );
}

/**
 * @param {number} index
 * @param {Partial<Pane>} values
 */
export function changePane(index, values) {
  state.panes[index] = { ...state.panes[index], ...values };
  repaint();
}

/** Gives the keys to the active pane's text. */
function focusPane() {
  const pane = activePane();
  if (pane) query(pane, ".body")?.focus({ preventScroll: true });
}

/** @param {string} stage */
export function openStage(stage) {
  const shown = state.panes.findIndex((pane) => pane.stage === stage);
  if (shown >= 0) {
    activate(shown);
    if (activePane()?.checkVisibility()) return focusPane();
    fitPanes(); // the window is narrower than it was: there is no room for that pane
  }
  changePane(state.active, { stage, at: null, diff: false, versus: null });
}

/**
 * A pass of a stage, in the list of its passes: in the pane that shows the stage, or in the active one.
 * @param {string} stage
 * @param {number} at
 * @param {boolean} diff whether beside what the pass was given
 */
export function openPass(stage, at, diff = false) {
  const shown = state.panes.findIndex((pane) => pane.stage === stage);
  const index = shown < 0 ? state.active : shown;
  activate(index);
  changePane(index, { stage, at, passes: true, diff, drawn: false, versus: null });
}

export function addPane() {
  const shown = new Set(state.panes.map((pane) => pane.stage));
  const all = [...need(root(), 'select[data-act="stage"]', HTMLSelectElement).options].map((option) => option.value);
  if (state.panes.length >= mostShown())
    return say(`At most ${mostShown()} panes fit here; close one first.`);
  state.panes.push(freshPane(all.find((name) => !shown.has(name)) ?? all[0]));
  state.active = state.panes.length - 1;
  repaint();
}

export function closePane(index = state.active) {
  if (state.panes.length === 1) return say("The last pane stays open.");
  state.panes.splice(index, 1);
  state.active = Math.min(state.active, state.panes.length - 1);
  repaint();
}

/** @param {number} by */
export function movePane(by) {
  const count = state.panes.length;
  activate((state.active + by + count) % count);
  focusPane();
}

/** @param {number} by passes */
export function step(by, index = state.active) {
  const pane = paneElements()[index];
  const last = Number(pane?.dataset.last ?? -1);
  if (!pane || last < 0) return;
  const at = Math.max(0, Math.min(last, (state.panes[index].at ?? last) + by));
  changePane(index, { at: at === last ? null : at });
}

/** @param {number} index */
export const toggleDecisions = (index) =>
  changePane(index, { decisions: !state.panes[index].decisions, passes: false });

/** @param {"diff" | "passes"} what */
export const toggle = (what, index = state.active) => {
  if (Number(paneElements()[index]?.dataset.last) < 0) return;
  changePane(index, { [what]: !state.panes[index][what], ...(what === "diff" && { drawn: false, versus: null }) });
};

export function toggleChangedOnly() {
  root().classList.toggle("changed-only");
  showChangedOnly();
}
function showChangedOnly() {
  const checked = root().classList.contains("changed-only");
  for (const box of queryAll(root(), '[data-act="changed-only"]', HTMLInputElement)) box.checked = checked;
}

/** @param {HTMLElement} pane */
const textOf = (pane) => {
  const lines = (pane.querySelector(".side:last-child") ?? pane).querySelectorAll(".l:not(.fill) > .t");
  return [...lines].map((line) => `${line.textContent}\n`).join("");
};

/** @param {number} index */
export async function copy(index) {
  try {
    await navigator.clipboard.writeText(await shownText(index));
    say(`Copied ${state.panes[index].stage}.`);
  } catch {
    say("The browser refused to copy; download the text instead.");
  }
}

/**
 * The whole text, also where the page shows only its beginning.
 * @param {number} index
 */
export async function download(index) {
  const { stage, at } = state.panes[index];
  const text = at === null ? await wholeText(index) : await shownText(index);
  save(`${state.goodFacts?.name || "model"}.${stage}`, text.endsWith("\n") ? text : `${text}\n`, "text/plain");
}

/** @param {number} index */
const shownText = (index) =>
  paneElements()[index].querySelector(".drawing") ? wholeText(index) : textOf(paneElements()[index]);

/** @param {number} index */
export async function wholeText(index) {
  const { stage, at } = state.panes[index];
  if (!state.goodInput) return "";
  const { stages } = await fetchCompiled(state.goodInput, [stage]);
  if (at === null) return stages[0].text;
  return stages[0].passes[at].after.map(({ text }) => `${text}\n`).join("");
}

export async function exportJson() {
  if (!state.goodInput) return say("There is nothing to export yet.");
  const compiled = await fetchCompiled(state.goodInput, null);
  save(`${compiled.name || "model"}.json`, JSON.stringify(compiled, null, 1), "application/json");
}

/**
 * @param {Input} input
 * @param {string[] | null} stages null for all
 * @returns {Promise<Compiled>}
 */
async function fetchCompiled({ text, sizes, defaultSizes, options, schedule, edited }, stages) {
  const data = state.goodFacts?.data;
  const answer = await fetch("/api/compile", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text, sizes, default_sizes: defaultSizes, options, schedule, edited, stages, data }),
  });
  return answer.json();
}

/**
 * @param {string} name
 * @param {string} text
 * @param {string} type
 */
export function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** @param {HTMLElement} pane */
export const bodiesOf = (pane) => queryAll(pane, ".body");

// Where each pane was scrolled to, and what stood in it: a swap must not make anything jump or flash.
/** @type {{ stage?: string, isDifference: boolean, hasText: boolean, bodies: { body: HTMLElement, top: number, left: number }[] }[]} */
let before = [];
let focused = ""; // a selector for what had the focus
function remember() {
  const element = document.activeElement;
  const pane = around(element, ".pane");
  const { act, pass, open, decision } = element instanceof HTMLElement ? element.dataset : {};
  const data = Object.entries({ act, pass, open, decision }).map(([name, value]) =>
    value ? `[data-${name}="${CSS.escape(value)}"]` : "",
  );
  focused = pane ? `#${pane.id} ${act ? data.join("") : ".body"}` : open ? data.join("") : "";
  before = paneElements().map((each) => ({
    stage: each.dataset.stage,
    isDifference: each.querySelector(".diff") !== null,
    hasText: each.querySelector(".body :is(.l, .gv)") !== null,
    bodies: bodiesOf(each).map((body) => ({ body, top: body.scrollTop, left: body.scrollLeft })),
  }));
}

export const ROW = 20; // the height of a line
const ABOVE = 4; // the room above the first one
const NEARLY = 5; // lines too many that are no reason to scroll

/**
 * A text that does not nearly fit starts at the line before the first that computes something, not at its
 * declarations; one side of a difference at the line before the first that differs. Always at a whole line.
 * @param {HTMLElement} body
 */
function skipDeclarations(body) {
  const hidden = Math.floor((body.scrollHeight - body.clientHeight - ABOVE) / ROW);
  const isDifference = body.closest(".diff") !== null;
  const begins = isDifference ? ".add, .cut, .fill" : "[data-operations]";
  const lines = queryAll(body, ".l");
  const kernel = isDifference ? -1 : lines.findIndex((line) => line.textContent.includes("__global__"));
  // The comment above a kernel stands first; what is declared above that are the functions it calls.
  const first = kernel > 0 ? kernel : lines.findIndex((line) => line.matches(begins));
  if (first > 1 && hidden > (isDifference ? 0 : NEARLY)) body.scrollTop = ABOVE + ROW * Math.min(first - 1, hidden);
}

function restore() {
  paneElements().forEach((pane, index) => {
    const old = before.find((entry, at) => at === index && entry.stage === pane.dataset.stage);
    const body = query(pane, ".body");
    if (!body) return;
    const isSame = old?.isDifference === (pane.querySelector(".diff") !== null);
    if (!isSame || !old.hasText) return skipDeclarations(body);
    if ("waiting" in pane.dataset) {
      body.replaceWith(old.bodies[0].body);
      pane.classList.add("stale");
    }
    bodiesOf(pane).forEach((fresh, at) => {
      const { body: shown, left = 0, top = 0 } = old.bodies[at] ?? {};
      if (fresh !== shown) fresh.scrollTo(left, top);
    });
  });
  // What was swapped took the focus with it.
  if (focused && document.activeElement === document.body)
    query(document, focused)?.focus({ preventScroll: true });
}

/** @param {boolean} isStale */
function showStale(isStale) {
  root().classList.toggle("stale", isStale);
  for (const pill of root().querySelectorAll("[data-old]")) {
    pill.replaceChildren(...(isStale ? ["stale", h("span.w", `, from edit ${state.good}`)] : []));
  }
}

// A narrow screen has room for fewer panes than were open.
export function fitPanes() {
  const extra = state.panes.length - mostShown();
  if (extra > 0) {
    const kept = state.panes.slice(0, mostShown());
    if (state.active >= kept.length) state.active = 0;
    state.panes = kept;
    paneElements()
      .slice(kept.length)
      .forEach((pane) => pane.remove());
  }
  root().dataset.count = String(state.panes.length);
}

// The pass that a pane stood at was of another model: of a new one it shows the end. The edit's answer brings it.
function showEnds() {
  state.panes = state.panes.map((pane) => ({ ...pane, at: null, diff: false, versus: null }));
}

export function startPanes() {
  startSwaps();
  on("before-swap", remember);
  on("busy", () => showStale(true));
  on("own", showEnds);
  for (const pane of paneElements()) bodiesOf(pane).slice(0, 1).forEach(skipDeclarations);
  on("swapped", () => {
    if (!allThere()) return repaint();
    // All that changes the style of the lines, before what asks where they are: they are laid out once.
    showStale(isBroken());
    root().dataset.count = String(state.panes.length);
    activate(state.active);
    restore();
    showChangedOnly();
    emit("painted", undefined);
  });
  // On a phone the passes are a tab of their own, over the same pane.
  on("tab", (name) => {
    if (name === "passes" || name === "stages") changePane(state.active, { passes: name === "passes" });
  });
  root().addEventListener("focusin", ({ target }) =>
    activateAround(target),
  );
  // Both sides of a difference scroll together. Scroll events do not bubble, but they can be captured.
  root().addEventListener(
    "scroll",
    ({ target }) => {
      const difference = around(target, ".diff");
      if (!difference || !(target instanceof Element)) return;
      for (const other of bodiesOf(difference)) if (other !== target) other.scrollTo(target.scrollLeft, target.scrollTop);
    },
    { capture: true, passive: true },
  );
  root().addEventListener("pointerdown", ({ target }) => activateAround(target));
}

/** @param {EventTarget | null} target what was touched or has the focus */
function activateAround(target) {
  const pane = around(target, ".pane");
  if (pane) activate(paneElements().indexOf(pane));
}
