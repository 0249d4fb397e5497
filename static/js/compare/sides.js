// The two sides of a comparison as chips above the panes: what each is made of, changed in place; both are run by turns.
import { compileNow, edited } from "../model/compile.js";
import { around, byId, h, icon, query } from "../dom.js";
import { showOptions } from "../model/settings.js";
import { on, state } from "../state.js";
/** @import { Choices, GoodFacts, Options } from "../types.d.ts" */
/** @typedef {"A" | "B"} Side */
/** @typedef {Pick<GoodFacts, "sizes" | "options" | "schedule">} Made what a side was compiled with */

/** @param {Choices} side */
const choicesOf = ({ sizes, options, schedule }) => ({ sizes: { ...sizes }, options: { ...options }, schedule: { ...schedule } });

/** Side A is what was chosen when the comparison began; side B what the reader makes of it. */
export function toggleComparison() {
  state.against = state.against ? null : choicesOf(state);
  changed();
}

export function swapSides() {
  if (!state.against) return;
  const before = choicesOf(state);
  Object.assign(state, state.against);
  state.against = before;
  changed();
}

function changed() {
  showOptions();
  edited();
  compileNow();
  paint();
}

/**
 * @param {Side} side
 * @param {"sizes" | "options"} kind
 * @param {string} name
 * @param {string | number | boolean} value
 */
function set(side, kind, name, value) {
  const chosen = side === "A" ? state.against : state;
  if (!chosen) return;
  const choices = { ...choicesOf(chosen), [kind]: { ...chosen[kind], [name]: value } };
  if (side === "A") state.against = choices;
  else Object.assign(state, choices);
  changed();
}

// --- the chips

/**
 * What each side has; while side A has not been answered, what is chosen for it over what B has.
 * @param {GoodFacts} facts
 * @param {Choices} against
 * @returns {Record<Side, Made>}
 */
function madeOf(facts, against) {
  const a = facts.against ?? { sizes: { ...facts.sizes, ...against.sizes }, options: { ...facts.options, ...against.options }, schedule: against.schedule };
  return { A: a, B: facts };
}

/**
 * The options that a chip is shown of: those that differ, and those that somebody has chosen.
 * @param {Record<Side, Made>} made
 * @param {Choices} against
 */
const shownOptions = ({ A, B }, against) =>
  Object.keys(B.options).filter((name) => A.options[name] !== B.options[name] || name in state.options || name in against.options);

/**
 * @param {Side} side
 * @param {Record<Side, Made>} made
 * @param {string[]} names
 */
function sideOf(side, made, names) {
  const { sizes, options, schedule } = made[side];
  const other = made[side === "A" ? "B" : "A"];
  const decided = Object.keys(schedule).length;
  return h(
    "div.chips",
    { role: "group", "aria-label": `Side ${side}` },
    h("b.ab", side),
    ...Object.entries(sizes).map(([name, size]) => numberChip(side, "sizes", name, size, size !== other.sizes[name])),
    ...names.map((name) => optionChip(side, name, options[name], options[name] !== other.options[name])),
    decided ? h("span.chip", { title: Object.entries(schedule).map((pair) => pair.join(" = ")).join(", ") }, `${decided} decisions`) : null,
    adder(side, options, names),
  );
}

/**
 * @param {Side} side
 * @param {string} kind
 * @param {string} name
 */
const keyOf = (side, kind, name) => ({ "data-side": side, "data-kind": kind, "data-name": name });

/**
 * @param {Side} side
 * @param {"sizes" | "options"} kind
 * @param {string} name
 * @param {number} value
 * @param {boolean} differs
 */
const numberChip = (side, kind, name, value, differs) =>
  h(
    differs ? "label.chip.differs" : "label.chip",
    name,
    h("input.field", { type: "number", min: kind === "sizes" ? 1 : 0, step: 1, value, "aria-label": `${name} of side ${side}`, ...keyOf(side, kind, name) }),
  );

/**
 * @param {Side} side
 * @param {string} name
 * @param {Options[string]} value
 * @param {boolean} differs
 */
function optionChip(side, name, value, differs) {
  if (typeof value === "number") return numberChip(side, "options", name, value, differs);
  const words = query(byId("options"), `select#${CSS.escape(name)}`, HTMLSelectElement);
  if (typeof value !== "boolean" && words) return wordChip(side, name, value, differs, [...words.options].map((each) => each.value));
  if (typeof value !== "boolean") return h(differs ? "span.chip.differs" : "span.chip", `${name} ${value}`);
  const pressed = { "aria-pressed": String(value), "aria-label": `${name} of side ${side}`, ...keyOf(side, "options", name) };
  return h(differs ? "button.chip.differs" : "button.chip", { type: "button", ...pressed }, `${name} ${value ? "on" : "off"}`);
}

/**
 * @param {Side} side
 * @param {string} name
 * @param {string} value
 * @param {boolean} differs
 * @param {string[]} words
 */
function wordChip(side, name, value, differs, words) {
  const options = words.map((word) => h("option", { value: word, ...(word === String(value) ? { selected: "" } : {}) }, word));
  const list = h("select", { "aria-label": `${name} of side ${side}`, ...keyOf(side, "options", name) }, options);
  return h(differs ? "label.chip.differs" : "label.chip", name, list);
}

/**
 * A list of what else may be chosen for a side: a switch is turned, all else gets a chip.
 * @param {Side} side
 * @param {Options} options
 * @param {string[]} names
 */
function adder(side, options, names) {
  const rest = Object.keys(options).filter((name) => !names.includes(name) && typeof options[name] !== "string");
  const list = rest.map((name) => h("option", { value: name }, name));
  return h("select.chip", { "aria-label": `Change an option of side ${side}`, "data-side": side, "data-add": "" }, h("option", { value: "" }, "+ option"), list);
}

// --- the strip

/** The strip, made when it is first needed. */
function strip() {
  const found = document.getElementById("sides");
  if (found) return found;
  const made = h("section.sides", { id: "sides", "aria-label": "Both sides of the comparison" });
  byId("panes").before(made);
  made.addEventListener("change", change);
  made.addEventListener("click", turn);
  return made;
}

function paint() {
  const { against, facts } = state;
  byId("compare").setAttribute("aria-pressed", String(against !== null));
  if (!against) return document.getElementById("sides")?.remove();
  if (!facts?.ok) return;
  const made = madeOf(facts, against);
  const names = shownOptions(made, against);
  const place = strip();
  const typed = document.activeElement;
  if (typed instanceof HTMLInputElement && place.contains(typed) && typed.value !== typed.defaultValue) return; // half typed
  const { side, kind, name, act } = document.activeElement instanceof HTMLElement ? document.activeElement.dataset : {};
  const hadFocus = place.contains(document.activeElement);
  place.replaceChildren(
    sideOf("A", made, names),
    h("button.btn.line.s", { type: "button", "data-act": "swap-sides", title: "What was A becomes B, which the controls on the left change" }, "Swap"),
    sideOf("B", made, names),
    h("span.grow"),
    ...(facts.against ? [] : [h("span.bad", "Side A does not compile.")]),
    h("button.btn.line.s", { type: "button", "data-act": "run-both", title: "Both in one run, a repeat of each by turns" }, icon("play"), "Run A|B"),
  );
  if (!hadFocus) return;
  const again = name ? `[data-side="${side}"][data-kind="${kind}"][data-name="${CSS.escape(name)}"]` : `[data-act="${act}"]`;
  query(place, again)?.focus({ preventScroll: true });
}

/**
 * @param {EventTarget | null} target a control of a chip
 * @returns {{ side: Side, kind: "sizes" | "options", name: string } | null}
 */
function keyIn(target) {
  const { side, kind, name } = target instanceof HTMLElement ? target.dataset : {};
  return (side === "A" || side === "B") && (kind === "sizes" || kind === "options") && name ? { side, kind, name } : null;
}

/** @param {Event} event */
function change({ target }) {
  if (target instanceof HTMLSelectElement && target.dataset.add !== undefined) return add(target);
  const key = keyIn(target);
  if (!key) return;
  if (target instanceof HTMLSelectElement) set(key.side, key.kind, key.name, target.value);
  else if (target instanceof HTMLInputElement && target.checkValidity() && target.value !== "") {
    target.defaultValue = target.value;
    set(key.side, key.kind, key.name, Number(target.value));
  }
}

/** @param {HTMLSelectElement} list */
function add({ value: name, dataset: { side } }) {
  if (!name || !state.facts?.ok || !state.against || (side !== "A" && side !== "B")) return;
  const value = madeOf(state.facts, state.against)[side].options[name];
  set(side, "options", name, typeof value === "boolean" ? !value : value);
}

/** @param {Event} event */
function turn({ target }) {
  const button = around(target, "button.chip");
  const key = keyIn(button);
  if (button && key) set(key.side, key.kind, key.name, button.getAttribute("aria-pressed") !== "true");
}

export function startSides() {
  on("facts", paint);
  paint();
}
