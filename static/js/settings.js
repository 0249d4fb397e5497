// Sizes and options: what they are, and an edit when they change.
import { edited, repaint } from "./compile.js";
import { byId } from "./dom.js";
import { on, state, SUMS, WORDS } from "./state.js";

const LARGEST = 4096; // at the right end of a slider; the field takes more

// Sliders are logarithmic: 1 at the left, LARGEST at the right, whole powers of two and halfway between them.
const toSlider = (size) => (Math.log2(Math.min(size, LARGEST)) / Math.log2(LARGEST)) * 1000;
function toSize(position) {
  const size = 2 ** ((position / 1000) * Math.log2(LARGEST));
  const step = 2 ** Math.max(0, Math.floor(Math.log2(size)) - 2);
  return Math.max(1, Math.round(size / step) * step);
}

function paintSlider(slider, size) {
  slider.value = toSlider(size);
  slider.style.setProperty("--v", `${slider.value / 10}%`);
  slider.setAttribute("aria-valuetext", String(size));
}

function paintSliders() {
  for (const slider of byId("sizes").querySelectorAll('input[type="range"]'))
    paintSlider(slider, Number(slider.dataset.value));
}

function setSize(name, size) {
  state.sizes = { ...state.sizes, [name]: size };
  edited();
}

function sizeEvent({ target, type }) {
  const row = target.closest("[data-size]");
  if (!row) return;
  const slider = row.querySelector('input[type="range"]');
  const field = row.querySelector(".field");
  if (target === slider) {
    const size = toSize(Number(slider.value));
    if (size === Number(field.value)) return;
    field.value = size;
    slider.style.setProperty("--v", `${slider.value / 10}%`);
    slider.setAttribute("aria-valuetext", String(size));
    setSize(row.dataset.size, size);
  } else if (target === field && field.checkValidity() && field.value !== "") {
    if (type === "change" && state.sizes[row.dataset.size] === Number(field.value)) return;
    paintSlider(slider, Number(field.value));
    setSize(row.dataset.size, Number(field.value));
  }
}

export function resetSize(button) {
  const name = button.closest("[data-size]").dataset.size;
  for (const kind of ["sizes", "defaultSizes"]) {
    const { [name]: _, ...others } = state[kind];
    state[kind] = others;
  }
  edited();
}

// The same sizes as before stay in place, with new values: a swap would take the slider from under the hand.
function keepSliders(event) {
  const { target, fragment } = event.detail;
  if (target.id !== "sizes") return;
  const fresh = fragment.querySelector?.("#sizes") ?? fragment;
  if (fresh.dataset?.names !== target.dataset.names) return;
  event.detail.shouldSwap = false;
  for (const row of target.querySelectorAll("[data-size]")) {
    const other = fresh.querySelector(`[data-size="${CSS.escape(row.dataset.size)}"]`);
    const size = Number(other.querySelector(".field").value);
    const field = row.querySelector(".field");
    const slider = row.querySelector('input[type="range"]');
    slider.dataset.value = size;
    row.querySelector(".undo").disabled = other.querySelector(".undo").disabled;
    row.querySelector(".of-data").textContent = other.querySelector(".of-data").textContent;
    if (document.activeElement !== field) field.value = size;
    if (document.activeElement !== slider) paintSlider(slider, size);
  }
}

function setOption(name, value) {
  state.options = { ...state.options, [name]: value };
  edited();
}

export function toggleSwitch(button) {
  const isOn = button.getAttribute("aria-checked") !== "true";
  button.setAttribute("aria-checked", String(isOn));
  setOption(button.dataset.option, isOn);
}

export function chooseLevel(button) {
  setOption("opt", Number(button.dataset.level));
  showLevel();
}

function showLevel() {
  const buttons = [...byId("options").querySelectorAll("[data-level]")];
  const level = state.options.opt ?? buttons.length - 1;
  for (const button of buttons) button.setAttribute("aria-pressed", String(Number(button.dataset.level) === Number(level)));
}

// An option that is a number stands in the list of options, and with a slider where a run is set up.
const numberFields = (name) => [...document.querySelectorAll(`[data-number="${name}"]`)];
const numberNames = () => new Set([...document.querySelectorAll("[data-number]")].map(({ dataset }) => dataset.number));

function showNumber(name, value) {
  for (const field of numberFields(name)) if (document.activeElement !== field) field.value = value;
  for (const slider of document.querySelectorAll(`[data-number-slider="${name}"]`)) {
    slider.value = Math.log2(value);
    slider.style.setProperty("--v", `${(100 * slider.value) / slider.max}%`);
    slider.setAttribute("aria-valuetext", String(value));
  }
}

function numberEvent({ target }) {
  const { number, numberSlider } = target.dataset;
  const name = number ?? numberSlider;
  if (!name || (number && (!target.checkValidity() || target.value === ""))) return;
  const value = numberSlider ? 2 ** Number(target.value) : Number(target.value);
  const usual = Number(numberFields(name)[0].dataset.usual);
  if (value === (state.options[name] ?? usual)) return;
  showNumber(name, value);
  setOption(name, value);
}

// Side A is what was chosen when the comparison began; side B what the reader makes of it.
export function toggleComparison() {
  state.against = state.against ? null : { sizes: { ...state.sizes }, options: { ...state.options } };
  showComparison();
  repaint();
}

const showComparison = () => byId("compare").setAttribute("aria-pressed", String(state.against !== null));

// What each option does to the model in hand, in place of what it bears on in general.
function showEffects({ ok, effects }) {
  if (!ok) return;
  for (const label of document.querySelectorAll("[data-effect]"))
    label.textContent = effects[label.dataset.effect] ?? label.title;
}

// The options of a GPU's sums are there where a program has some; each says where it does nothing to them.
function showHeeded({ ok, heeded }) {
  if (!ok) return;
  byId("sums").hidden = heeded.length === 0;
  for (const label of document.querySelectorAll("[data-heeded]"))
    label.textContent = heeded.includes(label.dataset.heeded) ? label.title : "nothing to do here";
}

// The sizes of chunks are there to choose where the inspector looks at chunks.
function showChunks() {
  for (const row of document.querySelectorAll("[data-of-chunks]")) row.hidden = byId("inspect").value !== "chunks";
}

function optionEvent({ target }) {
  const count = byId("options").querySelector('[data-act="negative-count"]');
  const end = byId("negatives").value;
  if (WORDS.includes(target.id)) setOption(target.id, target.value);
  if (target.id === "inspect") showChunks();
  if (target.id !== "negatives" && target !== count) return;
  count.disabled = end === "none";
  if (end === "none") setOption("negatives", "none");
  else if (count.checkValidity() && count.value !== "") setOption("negatives", `${end}:${count.value}`);
}

// The controls as the state has them: after a reload, or another example.
export function showOptions() {
  const { negatives = "none", ...others } = state.options;
  const options = byId("options");
  for (const button of options.querySelectorAll(".sw")) {
    const isOn = others[button.dataset.option] ?? button.dataset.usual === "true";
    button.setAttribute("aria-checked", String(isOn));
  }
  const [end, number] = String(negatives).split(":");
  byId("negatives").value = end;
  const count = options.querySelector('[data-act="negative-count"]');
  count.disabled = end === "none";
  if (number) count.value = number;
  for (const name of WORDS) if (name in others) byId(name).value = String(others[name]);
  if ([...SUMS, "balance", "popular"].some((name) => name in others)) byId("sums").open = true;
  showChunks();
  showLevel();
  showComparison();
  for (const name of numberNames()) {
    const usual = numberFields(name).find(({ dataset }) => dataset.usual).dataset.usual;
    showNumber(name, state.options[name] ?? Number(usual));
  }
}

export function startSettings() {
  const sizes = document.querySelector(".szs");
  sizes.addEventListener("input", sizeEvent);
  byId("options").addEventListener("change", optionEvent);
  document.addEventListener("input", numberEvent);
  on("facts", showEffects);
  on("facts", showHeeded);
  on("before-piece", keepSliders);
  on("swapped", paintSliders);
  paintSliders();
  showOptions();
}
