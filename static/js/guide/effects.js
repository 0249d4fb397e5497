// What each option would change of the model in hand, and the rest folded away. It takes a compilation an option, which
// is seconds of a core: so it is asked of a model that is new here when the reader pauses, and of an edit of it when they
// rest, or turn to the options.
import { byId, need, queryAll } from "../dom.js";
import { showPlace } from "../model/editor.js";
import { tellEffect } from "../model/settings.js";
import { isBroken, isCurrent, on, state } from "../state.js";
/** @import { Flips } from "../types.d.ts" */

const PAUSE = 800;
const REST = 6_000;
const MOST_TRIES = 4; // of one edit, each after twice the rest of the one before: a busy server may have stopped it
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {AbortController | null} */
let asked = null;
/** @type {Flips | null} by option the stages that its other value would change; null while it is not known */
let flips = null;
let flipsOf = ""; // the name of the model that they are of
let isNewest = false; // whether they are of the newest text
let tries = 0;
/** @type {Map<HTMLElement, string>} what each option bears on in general, by its label */
const general = new Map();

const isShown = () => byId("options").closest("details")?.open === true;

// What is asked of an older text would hold a connection, of which a browser has six to a server.
function later() {
  clearTimeout(timer);
  asked?.abort();
  isNewest = false;
  tries = 0;
  const isAway = !byId("options").matches(":hover, :focus-within");
  if (isShown() && !isBroken()) timer = setTimeout(ask, flips && isAway ? REST : PAUSE);
}

function turnedTo() {
  if (isNewest || !isShown() || isBroken()) return;
  clearTimeout(timer);
  ask();
}

async function ask() {
  const input = state.goodInput;
  if (!input || !isCurrent()) return;
  isNewest = true;
  const edit = state.edit;
  const body = new FormData();
  const { text, sizes, defaultSizes, options, schedule, data } = input;
  const fields = { sizes, default_sizes: defaultSizes, options, schedule };
  for (const [name, value] of Object.entries(fields)) body.set(name, JSON.stringify(value));
  for (const [name, value] of Object.entries({ text, data, edit: String(edit) })) body.set(name, value);
  asked = new AbortController();
  /** @type {{ flips: Flips | null } | null} */
  const answer = await fetch("/effects", { method: "POST", body, signal: asked.signal })
    .then((response) => (response.ok ? response.json() : null))
    .catch(() => null);
  const found = answer?.flips;
  if (edit !== state.edit) return;
  isNewest = found !== undefined && found !== null;
  tries += 1;
  if (!found && tries < MOST_TRIES) timer = setTimeout(turnedTo, REST * 2 ** (tries - 1));
  if (!found) return;
  flipsOf = state.goodFacts?.name ?? "";
  paint((flips = found));
}

/** @param {string[]} stages nine stages are too many words: the levels of SLC are one, and three tell the rest */
function inShort(stages) {
  const names = [...new Set(stages.map((name) => name.split(".")[0]))];
  return names.length > 3 ? `${names.slice(0, 3).join(", ")} …` : names.join(", ");
}

/** @param {HTMLElement} row */
function isUsual(row) {
  const name = row.dataset.flips ?? "";
  const control = row.querySelector("[data-usual]");
  const usual = control instanceof HTMLElement ? control.dataset.usual : undefined;
  return state.options[name] === undefined || String(state.options[name]) === usual;
}

/** @param {Flips} found */
function paint(found) {
  for (const row of queryAll(byId("options"), "[data-flips]")) {
    const stages = found[row.dataset.flips ?? ""] ?? [];
    const label = need(row, "[data-effect], [data-would]");
    const isOn = row.querySelector('[aria-checked="true"]') !== null;
    const verb = isOn ? "changes" : "would change";
    const told = label.dataset.effect ? state.goodFacts?.effects[label.dataset.effect] : "";
    tellEffect(label, stages.length ? `${verb} ${inShort(stages)}` : told || "changes nothing here");
    // A refusal stays in sight: it leads to the story that says why.
    if (!isPointedAt()) row.toggleAttribute("data-idle", !stages.length && isUsual(row) && !label.querySelector("button"));
    label.title = stages.length ? `${verb} ${stages.join(", ")}` : (label.textContent ?? "");
  }
  fold();
}

// What options would change of another model says nothing of this one.
function forget() {
  flips = null;
  for (const row of queryAll(byId("options"), "[data-flips]")) row.removeAttribute("data-idle");
  for (const [label, words] of general) {
    label.title = words;
    tellEffect(label, state.goodFacts?.effects[label.dataset.effect ?? ""] ?? words);
  }
  fold();
}

// Rows that come or go would move the others under a pointer that is about to press one.
const isPointedAt = () => byId("options").matches(":hover");

function fold() {
  const button = byId("more-options");
  const count = queryAll(byId("options"), "[data-idle]:not(#sums[hidden] [data-idle])").length;
  button.hidden = count === 0;
  button.textContent = `${count} more that change${count === 1 ? "s" : ""} nothing here`;
}

/** @param {HTMLElement} button */
export function showMore(button) {
  const isOpen = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(isOpen));
  button.parentElement?.classList.toggle("all", isOpen);
}

// Errors want the room that sizes and options take; what was open comes back with a text that compiles.
/** @type {HTMLDetailsElement[]} */
let folded = [];
let wasBad = false;
/** @param {boolean} isBad */
function makeRoom(isBad) {
  if (isBad && !wasBad) requestAnimationFrame(showFirst);
  wasBad = isBad;
  if (!isBad) {
    for (const part of folded) part.open = true;
    folded = [];
  } else if (!folded.length) {
    folded = queryAll(document, ".model > details[open]", HTMLDetailsElement);
    for (const part of folded) part.open = false;
  }
}

// Not every problem is of the text: an option has no place in it.
function showFirst() {
  const first = state.facts?.diagnostics.find(({ line }) => line !== null);
  if (first && first.line !== null) showPlace(first);
}

export function startEffects() {
  for (const label of queryAll(byId("options"), "[data-effect], [data-would]")) general.set(label, label.title || (label.textContent ?? ""));
  on("facts", (facts) => {
    makeRoom(!facts.ok);
    if (facts.ok && facts.name !== flipsOf) forget();
    if (flips) paint(flips); // of the text before: most are the same, and the newest come soon
    if (facts.ok) later();
  });
  byId("options").closest("details")?.addEventListener("toggle", later);
  for (const turn of ["pointerenter", "focusin"]) byId("options").addEventListener(turn, turnedTo);
  byId("options").addEventListener("mouseleave", () => flips && paint(flips));
  later();
}
