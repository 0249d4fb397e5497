// Keys. Single letters act outside the editor and fields only; the others act everywhere.
import { around, query } from "./dom.js";
import { showWords } from "./guide/explain.js";
import { goTo } from "./model/editor.js";
import { toggleEditing } from "./stages/editing.js";
import { openFind } from "./stages/find.js";
import { toggleHeat } from "./stages/heat.js";
import { pinned, stepLine, stepOperation, togglePin, unpin } from "./stages/link.js";
import { shiftPane } from "./stages/arrange.js";
import { activePane, addPane, closePane, movePane, openStage, step, toggle, toggleChangedOnly } from "./stages/panes.js";
import { stepChange } from "./stages/passes.js";
import { toggleProjector } from "./guide/projector.js";
import { showHelp, toggleDock, toggleTheme } from "./page.js";
import { closeStory, isTelling, openStory, stepStory } from "./story/story.js";
import { isRunning, run, stop } from "./run/run.js";
import { state } from "./state.js";
import { stepCursor } from "./timeline/timeline.js";

/** @typedef {Record<string, ((event: KeyboardEvent) => unknown) | undefined>} Actions what a key does; false where nothing */

let problem = -1;
/** @param {number} index */
export function showProblem(index) {
  const list = state.facts?.diagnostics ?? [];
  if (!list.length) return;
  problem = ((index % list.length) + list.length) % list.length;
  // Not every problem is of the text: an option has no place in it.
  const { line, column } = list[problem];
  if (line !== null) goTo({ line, column });
}

const REGIONS = [".cm-content", ".pane.active .body, .pane .body", "#run"];
/** @param {number} by */
function nextRegion(by) {
  const at = REGIONS.findIndex((selector) => {
    const region = document.querySelector(selector)?.closest("aside, main, .dock");
    return region?.contains(document.activeElement);
  });
  query(document, REGIONS[(at + by + REGIONS.length) % REGIONS.length])?.focus();
}

function escape() {
  if (document.querySelector(":popover-open")) return false; // the menu closes itself
  if (closeStory()) return true;
  if (isRunning()) stop();
  else if (!unpin()) return false;
  return true;
}

/** @type {Actions} */
const everywhere = {
  F6: ({ shiftKey }) => nextRegion(shiftKey ? -1 : 1),
  F8: ({ shiftKey }) => showProblem(problem + (shiftKey ? -1 : 1)),
  Escape: escape,
  "Alt+ArrowUp": () => (isTelling() ? stepStory(-1) : stepOperation(-1)),
  "Alt+ArrowDown": () => (isTelling() ? stepStory(1) : stepOperation(1)),
  "Alt+ArrowLeft": () => step(-1),
  "Alt+ArrowRight": () => step(1),
  "Mod+Enter": () => run(),
};

/** @type {Actions} */
const outside = {
  n: () => stepLine(1),
  N: () => stepLine(-1),
  p: () => togglePin(pinned() ?? undefined),
  w: () => (isTelling() ? closeStory() : openStory()),
  o: addPane,
  x: () => closePane(),
  "[": () => movePane(-1),
  "]": () => movePane(1),
  "{": () => shiftPane(-1),
  "}": () => shiftPane(1),
  j: () => stepChange(1),
  k: () => stepChange(-1),
  l: () => toggle("passes"),
  d: () => toggle("diff"),
  e: () => activePane()?.querySelector('[data-act="edit-stage"]') && toggleEditing(state.active),
  u: toggleChangedOnly,
  ",": () => stepCursor(-1),
  ".": () => stepCursor(1),
  "/": openFind,
  h: toggleHeat,
  i: showWords,
  r: () => toggleDock(),
  t: toggleTheme,
  v: toggleProjector,
  "?": showHelp,
};

let isOpening = false;
/** @param {string} key the letter of a stage */
function openByLetter(key) {
  isOpening = false;
  const stage = query(document, `.st[data-key="${CSS.escape(key)}"]`)?.dataset.open;
  if (stage) openStage(stage);
  return !!stage;
}

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    const { key, altKey, ctrlKey, metaKey, target } = event;
    const isMod = ctrlKey || metaKey;
    const name = `${isMod ? "Mod+" : ""}${altKey ? "Alt+" : ""}${key}`;
    const isTyping = around(target, "input, select, textarea, [contenteditable=true]");
    const action = everywhere[name] ?? (isTyping || isMod || altKey ? undefined : outside[key]);
    if (document.querySelector("dialog[open]")) return;
    if (!isTyping && isOpening && openByLetter(key)) return event.preventDefault();
    isOpening = !isTyping && !isMod && !altKey && key === "g";
    if (action && action(event) !== false) event.preventDefault();
  });
}
