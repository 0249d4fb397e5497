// Sizes and options: what they are, and an edit when they change.
import { edited } from "./compile.js";
import { around, byId, h, need, query, queryAll } from "../dom.js";
import { on, state, WORDS } from "../state.js";
/** @import { Facts, HtmxSwap, Options } from "../types.d.ts" */

const LARGEST = 4096; // at the right end of a slider; the field takes more

// Sliders are logarithmic: 1 at the left, LARGEST at the right, whole powers of two and halfway between them.
/** @param {number} size */
const toSlider = (size) => (Math.log2(Math.min(size, LARGEST)) / Math.log2(LARGEST)) * 1000;
/** @param {number} position */
function toSize(position) {
  const size = 2 ** ((position / 1000) * Math.log2(LARGEST));
  const step = 2 ** Math.max(0, Math.floor(Math.log2(size)) - 2);
  return Math.max(1, Math.round(size / step) * step);
}

/**
 * @param {HTMLInputElement} slider
 * @param {number} size
 */
function paintSlider(slider, size) {
  slider.value = String(toSlider(size));
  tellSlider(slider, size);
}

/**
 * The bar behind a slider, and what it says of where it stands.
 * @param {HTMLInputElement} slider
 * @param {number} value
 */
function tellSlider(slider, value) {
  slider.style.setProperty("--v", `${(100 * Number(slider.value)) / Number(slider.max)}%`);
  slider.setAttribute("aria-valuetext", String(value));
}

function paintSliders() {
  for (const slider of queryAll(byId("sizes"), 'input[type="range"]', HTMLInputElement))
    paintSlider(slider, Number(slider.dataset.value));
}

/** @param {HTMLElement} row */
const controlsOf = (row) => ({
  name: row.dataset.size ?? "",
  slider: need(row, 'input[type="range"]', HTMLInputElement),
  field: need(row, ".field", HTMLInputElement),
  undo: need(row, ".undo", HTMLButtonElement),
});

/**
 * @param {string} name
 * @param {number} size
 */
function setSize(name, size) {
  state.sizes = { ...state.sizes, [name]: size };
  edited();
}

/** @param {Event} event */
function sizeEvent({ target, type }) {
  const row = around(target, "[data-size]");
  if (!row) return;
  const { name, slider, field } = controlsOf(row);
  if (target === slider) {
    const size = toSize(Number(slider.value));
    if (size === Number(field.value)) return;
    field.value = String(size);
    tellSlider(slider, size);
    setSize(name, size);
  } else if (target === field && field.checkValidity() && field.value !== "") {
    if (type === "change" && state.sizes[name] === Number(field.value)) return;
    paintSlider(slider, Number(field.value));
    setSize(name, Number(field.value));
  }
}

/** @param {HTMLElement} button */
export function resetSize(button) {
  const reset = around(button, "[data-size]")?.dataset.size;
  /** @param {Record<string, number>} sizes */
  const others = (sizes) => Object.fromEntries(Object.entries(sizes).filter(([name]) => name !== reset));
  state.sizes = others(state.sizes);
  state.defaultSizes = others(state.defaultSizes);
  edited();
}

/**
 * The same sizes as before stay in place, with new values: a swap would take the slider from under the hand.
 * @param {HtmxSwap} event
 */
function keepSliders(event) {
  const { target, fragment } = event.detail;
  if (target.id !== "sizes") return;
  const fresh = query(fragment, "#sizes") ?? fragment;
  if (!(fresh instanceof HTMLElement) || fresh.dataset.names !== target.dataset.names) return;
  event.detail.shouldSwap = false;
  for (const row of queryAll(target, "[data-size]")) {
    const { name, slider, field, undo } = controlsOf(row);
    const other = need(fresh, `[data-size="${CSS.escape(name)}"]`);
    const size = Number(controlsOf(other).field.value);
    slider.dataset.value = String(size);
    undo.disabled = controlsOf(other).undo.disabled;
    need(row, ".of-data").textContent = need(other, ".of-data").textContent;
    if (document.activeElement !== field) field.value = String(size);
    if (document.activeElement !== slider) paintSlider(slider, size);
  }
}

/**
 * @param {string} name
 * @param {Options[string]} value
 */
function setOption(name, value) {
  state.options = { ...state.options, [name]: value };
  edited();
}

/** @param {HTMLElement} button */
export function toggleSwitch(button) {
  const isOn = button.getAttribute("aria-checked") !== "true";
  button.setAttribute("aria-checked", String(isOn));
  setOption(button.dataset.option ?? "", isOn);
}

/** @param {HTMLElement} button */
export function chooseLevel(button) {
  setOption("opt", Number(button.dataset.level));
  showLevel();
}

function showLevel() {
  const buttons = queryAll(byId("options"), "[data-level]");
  const level = state.options.opt ?? buttons.length - 1;
  for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.level) === Number(level)));
}

/**
 * An option that is a number stands in the list of options, and with a slider where a run is set up.
 * @param {string} name
 */
const numberFields = (name) => queryAll(document, `[data-number="${name}"]`, HTMLInputElement);
const numberNames = () => new Set(queryAll(document, "[data-number]").map(({ dataset }) => dataset.number ?? ""));
/** @param {string} name */
const usualNumber = (name) => Number(numberFields(name).find(({ dataset }) => dataset.usual)?.dataset.usual);

/**
 * @param {string} name
 * @param {number} value
 */
function showNumber(name, value) {
  for (const field of numberFields(name)) if (document.activeElement !== field) field.value = String(value);
  for (const slider of queryAll(document, `[data-number-slider="${name}"]`, HTMLInputElement)) {
    slider.value = String(Math.log2(value));
    tellSlider(slider, value);
  }
}

/** @param {Event} event */
function numberEvent({ target }) {
  if (!(target instanceof HTMLInputElement)) return;
  const { number, numberSlider } = target.dataset;
  const name = number ?? numberSlider;
  if (!name || (number && (!target.checkValidity() || target.value === ""))) return;
  const value = numberSlider ? 2 ** Number(target.value) : Number(target.value);
  if (value === (state.options[name] ?? usualNumber(name))) return;
  showNumber(name, value);
  setOption(name, value);
}

/**
 * What each option does to the model in hand, in place of what it bears on in general.
 * @param {Facts} facts
 */
function showEffects(facts) {
  if (!facts.ok) return;
  for (const label of queryAll(document, "[data-effect]"))
    tellEffect(label, facts.effects[label.dataset.effect ?? ""] ?? label.title);
}

/**
 * What an option does; where it refused an operation, the way to the story of that.
 * @param {HTMLElement} label
 * @param {string} told
 */
export function tellEffect(label, told) {
  const operation = state.goodFacts?.refused[label.dataset.effect ?? ""];
  if (operation === undefined || !told.startsWith("refused")) return label.replaceChildren(told);
  const button = h("button.link", { type: "button", "data-act": "story", "data-operation": String(operation) }, told);
  label.replaceChildren(button);
}

/**
 * The options of a GPU's sums are there where a program has some.
 * @param {Facts} facts
 */
function showHeeded(facts) {
  if (facts.ok) byId("sums").hidden = facts.heeded.length === 0;
}

// The sizes of chunks are there to choose where the inspector looks at chunks.
function showChunks() {
  const isChunked = select("inspect").value === "chunks";
  for (const row of queryAll(document, "[data-of-chunks]")) row.hidden = !isChunked;
}

/** @param {string} id */
const select = (id) => byId(id, HTMLSelectElement);
/** @param {"count" | "sharing"} of */
const negativeField = (of) => need(byId("options"), `[data-act="negative-${of}"]`, HTMLInputElement);
const negativeFields = () => [negativeField("count"), negativeField("sharing")];

/** @param {Event} event */
function optionEvent({ target }) {
  const fields = negativeFields();
  const end = select("negatives").value;
  if (target instanceof HTMLSelectElement && WORDS.includes(target.id)) setOption(target.id, target.value);
  if (target === select("inspect")) showChunks();
  if (target !== select("negatives") && !fields.some((field) => field === target)) return;
  for (const field of fields) field.disabled = end === "none";
  if (end === "none") return setOption("negatives", "none");
  if (!fields.every((field) => field.checkValidity() && field.value !== "")) return;
  const [count, sharing] = fields.map(({ value }) => value);
  setOption("negatives", `${end}:${count}${Number(sharing) > 1 ? `/${sharing}` : ""}`);
}

// The controls as the state has them: after a reload, or another example.
export function showOptions() {
  const { negatives = "none", ...others } = state.options;
  const options = byId("options");
  for (const button of queryAll(options, ".sw")) {
    const isOn = others[button.dataset.option ?? ""] ?? button.dataset.usual === "true";
    button.setAttribute("aria-checked", String(isOn));
  }
  const [end, numbers = ""] = String(negatives).split(":");
  select("negatives").value = end;
  const [number, sharing = "1"] = numbers.split("/");
  for (const field of negativeFields()) field.disabled = end === "none";
  if (number) [negativeField("count").value, negativeField("sharing").value] = [number, sharing];
  for (const name of WORDS) if (name in others) select(name).value = String(others[name]);
  showChunks();
  showLevel();
  for (const name of numberNames()) {
    showNumber(name, Number(state.options[name] ?? usualNumber(name)));
  }
}

/**
 * Options that keep their usual values, whatever was chosen.
 * @param {string[]} names
 */
export function lockOptions(names) {
  const options = byId("options");
  for (const control of queryAll(options, "button, select, input")) {
    const { option, level } = control.dataset;
    const name = option ?? (level === undefined ? control.id : "opt");
    if (name) control.toggleAttribute("disabled", names.includes(name));
  }
  const kept = Object.entries(state.options).filter(([name]) => !names.includes(name));
  if (kept.length === Object.keys(state.options).length) return;
  for (const list of queryAll(options, "select", HTMLSelectElement))
    if (names.includes(list.id)) list.selectedIndex = Math.max(0, [...list.options].findIndex((each) => each.defaultSelected));
  state.options = Object.fromEntries(kept);
  showOptions();
  edited();
}

export function startSettings() {
  need(document, ".szs").addEventListener("input", sizeEvent);
  byId("options").addEventListener("change", optionEvent);
  document.addEventListener("input", numberEvent);
  on("facts", showEffects);
  on("facts", showHeeded);
  on("before-piece", keepSliders);
  on("swapped", paintSliders);
  paintSliders();
  showOptions();
}
