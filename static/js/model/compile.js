// Recompile as the reader edits: debounced, numbered, and the newest answer wins.
import { byId } from "../dom.js";
import { shownTexts } from "../stages/patches.js";
import { emit, isBroken, isCurrent, keep, keepNow, on, state } from "../state.js";
/** @import { Facts, Input } from "../types.d.ts" */

// How long the page waits for the next key: not at all while answers come before it, and then as a part of what the last
// one took, so that it asks no more often than at pauses while a class keeps the server busy.
const PAUSE = { part: 1 / 16, from: 480, most: 300 };
const IDLE = 400;
const BUSY_AFTER = 300;
// An edit is kept with its answer, or after so long: a new address makes the browser work, also for the sign in its tab.
const KEPT_WITHIN = 1000;

const form = () => byId("edit", HTMLFormElement);
/** @typedef {ReturnType<typeof setTimeout> | undefined} Timer */
/** @type {Timer} */
let debounce;
/** @type {Timer} */
let idle;
/** @type {Timer} */
let busy;
let asked = 0; // when the newest edit was sent
let pause = PAUSE.most;
let sendAgain = () => {}; // the newest request, as it was
let isAgain = false; // whether the reader asked for it once more

// The text, a size or an option changed: the stages no longer show it.
export function edited() {
  state.edit += 1;
  clearTimeout(idle);
  clearTimeout(debounce);
  emit("edited", state.edit);
  keep(KEPT_WITHIN);
  // At once is before the frame that shows the key, which the server then works beside.
  if (pause) debounce = setTimeout(() => post("/compile", current()), pause);
  else sendOnce(state.edit);
}

// What changes in one go, as a text and its data, is one request.
/** @param {number} edit */
const sendOnce = (edit) => queueMicrotask(() => edit === state.edit && compileNow());

// What the reader wants now, without waiting for more of it.
export function compileNow() {
  clearTimeout(debounce);
  post("/compile", current());
}

// Other panes for the text that the stages show; for a newer one, if its answer is still to come.
export function repaint() {
  keep();
  if (!isCurrent()) {
    clearTimeout(debounce);
    post("/compile", current());
  } else if (state.goodInput) {
    clearTimeout(idle); // it brings the late stages too
    post("/panes", { ...state.goodInput, edit: state.edit });
  }
}

const current = () => {
  const { text, sizes, defaultSizes, options, schedule, edited: texts, data, edit } = state;
  return { text, sizes, defaultSizes, options, schedule, edited: texts, data, edit };
};

/**
 * The sizes that a text declares, as it writes them.
 * @param {string} text
 */
function declaredSizes(text) {
  /** @type {Record<string, string>} */
  const sizes = {};
  for (const [, list] of text.matchAll(/^[ \t]*dim\b([^#\n]*)/gm)) {
    for (const [, name, value] of list.matchAll(/([A-Za-z_]\w*)\s*=\s*(\d*)/g)) sizes[name] = value;
  }
  return sizes;
}

/**
 * A size set by hand holds until the text says something else about it.
 * @param {string} before
 * @param {string} after
 */
function dropOldSizes(before, after) {
  const [old, fresh] = [declaredSizes(before), declaredSizes(after)];
  /** @param {Input["sizes"]} sizes */
  const kept = (sizes) =>
    Object.fromEntries(Object.entries(sizes).filter(([name]) => name in fresh && fresh[name] === old[name]));
  state.sizes = kept(state.sizes);
  state.defaultSizes = kept(state.defaultSizes);
}

/**
 * @param {"/compile" | "/late" | "/panes" | "/best"} path
 * @param {Input & { edit: number }} input
 */
function post(path, input) {
  const target = byId("panes");
  sendAgain = () => post(path, input);
  const sent = {
    text: input.text,
    edit: input.edit,
    good: state.good,
    sizes: JSON.stringify(input.sizes),
    default_sizes: JSON.stringify(input.defaultSizes),
    options: JSON.stringify(input.options),
    schedule: JSON.stringify(input.schedule),
    edited: JSON.stringify(input.edited),
    good_schedule: JSON.stringify(path === "/compile" ? goodSchedule() : state.scheduleBefore),
    panes: JSON.stringify(state.panes),
    data: input.data,
    against: JSON.stringify(state.against),
    shown: JSON.stringify(shownTexts()),
  };
  for (const [name, value] of Object.entries(sent)) {
    const field = form().elements.namedItem(name);
    if (field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) field.value = String(value);
  }
  if (path === "/compile") {
    asked = performance.now();
    clearTimeout(busy);
    busy = setTimeout(() => showBusy(input.edit), BUSY_AFTER);
  }
  // hx-sync="replace" on the form aborts the request before this one.
  const values = { on: byId("dock").dataset.target }; // whose program a run takes, though no pane shows it
  window.htmx.ajax("post", path, { source: form(), target, values, swap: "innerHTML" }).catch(() => {});
}

/** @param {number} took ms from the last request to its panes */
function setPause(took) {
  pause = Math.min(PAUSE.most, Math.max(0, took - PAUSE.from) * PAUSE.part);
}

// The stages that take too long for every keystroke are fetched when the reader pauses, if a pane shows one.
function later() {
  clearTimeout(idle);
  if (!document.querySelector(".st[data-late][aria-pressed='true']")) return;
  idle = setTimeout(() => {
    if (!isBroken() && isCurrent() && state.goodInput)
      post("/late", { ...state.goodInput, edit: state.edit });
  }, IDLE);
}

// What a refused choice gives way to: the choices that the stages show.
const goodSchedule = () => state.goodInput?.schedule ?? {};

// A pane that shows the first form of its stage is to show the best one as soon as that is made.
function best() {
  if (state.goodInput) post("/best", { ...state.goodInput, edit: state.edit });
}

/** @param {number} edit */
function showBusy(edit) {
  const status = byId("status");
  const spin = document.createElement("i");
  spin.className = "spin";
  const shown = state.good ? `. The stages show edit ${state.good}` : "";
  status.replaceChildren(spin, `Compiling edit ${edit}${shown}`);
  emit("busy", undefined);
}

/**
 * A sentence in the place of the status, for what the server or the network did.
 * @param {string} sentence
 * @param {boolean} mayPass whether the same request may go well a moment later
 */
export function showTrouble(sentence, mayPass = false) {
  clearTimeout(busy);
  keepNow(); // as the sentence says
  const text = document.createElement("span");
  text.className = "bad";
  text.textContent = sentence;
  byId("status").replaceChildren(text);
  if (!mayPass) return;
  const button = document.createElement("button");
  Object.assign(button, { type: "button", className: "btn line s", textContent: "Try again" });
  button.dataset.act = "try-again";
  byId("status").append(button);
  if (isAgain) button.focus(); // where the reader was
}

// The request that failed once more, without an edit.
export function tryAgain() {
  isAgain = true;
  sendAgain();
}

function readFacts() {
  /** @type {Facts} */
  const facts = JSON.parse(byId("facts").dataset.facts ?? "");
  state.facts = facts;
  if (facts.ok) {
    state.good = facts.edit;
    state.goodFacts = facts;
    if (facts.data) state.data = facts.data; // what the server took, where the data was for another family
    state.scheduleBefore = goodSchedule();
    state.schedule = facts.schedule; // less what was refused
    const { text, sizes, defaultSizes, options, schedule, data } = state;
    const chosen = { options: { ...options }, schedule: { ...schedule }, edited: { ...state.edited } };
    state.goodInput = { text, sizes: { ...sizes }, defaultSizes: { ...defaultSizes }, ...chosen, data };
    keep();
  }
  emit("facts", facts);
}

/** @param {XMLHttpRequest} xhr */
function refused(xhr) {
  let parts = [xhr.status ? `The server answered ${xhr.status}` : "The server does not answer"];
  try {
    const { diagnostics, detail } = JSON.parse(xhr.responseText);
    parts = diagnostics?.[0] ? [diagnostics[0].message, diagnostics[0].detail] : [`${parts[0]}: ${detail}`];
  } catch {
    // No JSON: the status code has to do.
  }
  const mayPass = xhr.status >= 500 || xhr.status === 429;
  showTrouble([...parts, "Your text is kept."].filter(Boolean).map(sentence).join(" "), mayPass);
}

/** @param {string} text */
const sentence = (text) => (/[.!?]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`);

export function startCompiling() {
  readFacts();
  later();
  const body = document.body;
  body.addEventListener("htmx:beforeSwap", (event) => {
    const answered = event.detail.xhr.getResponseHeader("X-Edit");
    if (answered !== String(state.edit)) event.detail.shouldSwap = false;
    else emit("before-swap", undefined);
  });
  // A newer edit's request takes the place of an older one, which htmx would report as an error: end it as answered.
  body.addEventListener("htmx:beforeSend", ({ detail: { xhr } }) => (xhr.onabort = xhr.onload));
  body.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.detail.xhr.status === 0) event.preventDefault();
  });
  body.addEventListener("htmx:oobBeforeSwap", (event) => emit("before-piece", event));
  body.addEventListener("htmx:afterRequest", (event) => {
    const { xhr, successful, pathInfo } = event.detail;
    if (xhr.status === 0 || !successful) return;
    if (xhr.getResponseHeader("X-Edit") !== String(state.edit)) return;
    clearTimeout(busy);
    isAgain = false;
    const path = pathInfo.requestPath;
    if (path === "/compile") readFacts();
    emit("swapped", path);
    if (path === "/compile") setPause(performance.now() - asked);
    if (path === "/compile" && !isBroken()) later();
    if (path === "/panes" && document.querySelector("[data-waiting]")) later();
    else if (path !== "/compile" && document.querySelector("[data-first]")) best();
  });
  body.addEventListener("htmx:responseError", (event) => refused(event.detail.xhr));
  body.addEventListener("htmx:sendError", () =>
    showTrouble("The server does not answer. Your text is kept.", true),
  );
  on("text", (text) => {
    dropOldSizes(state.text, text);
    state.text = text;
    edited();
  });
}
