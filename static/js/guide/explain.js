// What a pass, an option or a word of a stage means: beside the pointer, and beside what has the focus. The table is
// fetched when the first is asked for, and kept by the browser.
import { around, byId, h, queryAll } from "../dom.js";
import { activePane } from "../stages/panes.js";
import { say } from "../page.js";
/** @import { Meanings } from "../types.d.ts" */

const WAIT = 350;
/** @type {Promise<Meanings | null> | null} */
let asked = null;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {Element | null} what the shown hint describes */
let described = null;
/** @type {MouseEvent | null} the last press: what comes to lie under the pointer because of it was not pointed at */
let press = null;

const hint = () => byId("hint");

async function fetchMeanings() {
  const answer = await fetch(hint().dataset.words ?? "").catch(() => null);
  if (answer?.ok) return /** @type {Promise<Meanings>} */ (answer.json());
  asked = null;
  return null;
}
const meanings = () => (asked ??= fetchMeanings());

/**
 * The word of a line's text at a place of the window, and where it stands.
 * @param {number} x
 * @param {number} y
 */
function wordAt(x, y) {
  const caret = document.caretPositionFromPoint?.(x, y);
  const node = caret?.offsetNode;
  if (!caret || !(node instanceof Text) || !node.parentElement?.closest(".l > .t")) return null;
  const text = node.data;
  let [from, to] = [caret.offset, caret.offset];
  while (from > 0 && /\w/.test(text[from - 1])) from -= 1;
  while (to < text.length && /\w/.test(text[to])) to += 1;
  const range = document.createRange();
  range.setStart(node, from);
  range.setEnd(node, to);
  const box = range.getBoundingClientRect();
  return x >= box.left && x <= box.right ? { word: text.slice(from, to), box } : null;
}

/**
 * The names that a control or a row of a list stands for.
 * @param {Element} element
 * @returns {{ kind: "passes" | "options" | "controls", name: string } | null}
 */
function namedBy(element) {
  const control = element.closest("[data-means]");
  if (control instanceof HTMLElement) return { kind: "controls", name: control.dataset.means ?? "" };
  const pass = element.closest(".pass, .at");
  if (pass) return { kind: "passes", name: (pass.querySelector(".nm, b")?.textContent ?? "").trim() };
  const row = element.closest(".op");
  if (!(row instanceof HTMLElement)) return null;
  const set = row.querySelector("[data-option], select, input");
  const name = row.dataset.flips ?? (set instanceof HTMLElement ? set.dataset.option || set.id : "");
  return { kind: "options", name };
}

/**
 * @param {string} name
 * @param {string} meaning
 * @param {DOMRect} box what it is shown beside
 * @param {Element | null} element what is described by it
 */
function show(name, meaning, box, element) {
  const shown = hint();
  shown.replaceChildren(h("b", name), " ", meaning);
  if (!shown.matches(":popover-open")) shown.showPopover();
  const { width, height } = shown.getBoundingClientRect();
  const scale = width / shown.offsetWidth || 1; // a projector's page is drawn larger
  const below = box.bottom + 6;
  const top = below + height > innerHeight ? Math.max(4, box.top - height - 6) : below;
  shown.style.left = `${Math.max(4, Math.min(box.left, innerWidth - width - 4)) / scale}px`;
  shown.style.top = `${top / scale}px`;
  described = element;
  if (element && !element.hasAttribute("aria-describedby")) element.setAttribute("aria-describedby", "hint");
}

function hide() {
  clearTimeout(timer);
  if (described?.getAttribute("aria-describedby") === "hint") described.removeAttribute("aria-describedby");
  described = null;
  if (hint().matches(":popover-open")) hint().hidePopover();
}

/** @param {MouseEvent} event */
function pointed({ target, clientX, clientY }) {
  clearTimeout(timer);
  if (press?.clientX === clientX && press.clientY === clientY) return;
  press = null;
  const element = target instanceof Element ? target : null;
  if (!element || element.closest("#hint")) return;
  timer = setTimeout(async () => {
    if (!element.isConnected) return;
    const named = namedBy(element);
    if (named) return explain(named, element);
    const found = element.closest(".l > .t") ? wordAt(clientX, clientY) : null;
    const meaning = found && (await meanings())?.words[found.word];
    if (found && meaning) show(found.word, meaning, found.box, null);
    else hide();
  }, WAIT);
}

/**
 * @param {{ kind: "passes" | "options" | "controls", name: string }} named
 * @param {Element} element
 */
async function explain({ kind, name }, element) {
  const meaning = (await meanings())?.[kind][name];
  if (!meaning || !element.isConnected) return hide();
  const place = element.closest(".pass, .at, .op, [data-means]") ?? element;
  show(kind === "passes" ? name : "", meaning, place.getBoundingClientRect(), element.closest("button, select, input"));
}

/** @param {string} title */
function openSheet(title) {
  byId("sheet-title").textContent = title;
  byId("sheet-body").replaceChildren();
  byId("sheet", HTMLDialogElement).showModal();
}

/**
 * @param {string} address
 * @param {string} title
 */
async function showFetched(address, title) {
  const answer = await fetch(address).catch(() => null);
  if (!answer?.ok) return say("The sheet did not arrive. Try again.");
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  openSheet(title);
  byId("sheet-body").replaceChildren(...found.body.children);
}

export const showLanguage = () => showFetched("/guide/language", "The language");

/** Each figure is a link that changes the hash alone, which the page then adopts. */
export const showPapers = () => showFetched("/guide/papers", "The papers' figures");

export const showImported = () => showFetched("/guide/imported", "Imported from PyTorch");

// For those who point at nothing: the words that the active pane has, by key.
export async function showWords() {
  const pane = activePane();
  const known = (await meanings())?.words;
  if (!pane || !known) return;
  const text = queryAll(pane, ".l > .t").map((line) => line.textContent ?? "").join("\n");
  const words = [...new Set(text.match(/[A-Za-z]\w*/g))].filter((word) => Object.hasOwn(known, word)).sort();
  openSheet(`Words of ${pane.dataset.stage}`);
  const rows = words.map((word) => h("div", h("dt", h("code", word)), h("dd", known[word])));
  byId("sheet-body").replaceChildren(h("section.tables", { tabindex: 0 }, h("dl", rows)));
}

/** @param {HTMLElement} button */
export async function copySnippet(button) {
  const text = button.closest("article")?.querySelector("pre")?.textContent ?? "";
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const lines = around(button, "article")?.querySelector("pre");
    if (lines) getSelection()?.selectAllChildren(lines);
    button.textContent = "Selected";
  }
}

export function startExplaining() {
  byId("sheet-body").addEventListener("click", ({ target }) => {
    if (around(target, "a[href]")) byId("sheet", HTMLDialogElement).close();
  });
  document.addEventListener("mouseover", pointed);
  document.addEventListener("mousemove", (event) => {
    if (around(event.target, ".l > .t")) pointed(event);
  }, { passive: true });
  document.addEventListener("focusin", ({ target }) => {
    const element = target instanceof Element && target.matches(":focus-visible") ? target : null;
    const named = element && namedBy(element);
    if (element && named) explain(named, element);
    else hide();
  });
  document.addEventListener("pointerdown", hide);
  document.addEventListener("mousedown", (event) => (press = event)); // in whole pixels, as mouseover is
  document.addEventListener("scroll", hide, { capture: true, passive: true });
  document.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  document.addEventListener("mouseleave", hide);
  addEventListener("resize", hide); // it stands where the word was
}
