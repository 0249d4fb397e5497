// The simulated machine's parameters as the reader sets them: sliders for some, a field for every one.
import { around, byId, query, queryAll } from "../dom.js";

const fields = () => queryAll(byId("dock"), "[data-parameter]", HTMLInputElement);

/** @param {HTMLInputElement} field */
function sliderOf(field) {
  const knob = field.closest(".knob");
  return knob && query(knob, 'input[type="range"]', HTMLInputElement);
}

/**
 * Logarithmic, from a 64th of the usual value to sixteen times as much, as far as the parameter goes.
 * @param {HTMLInputElement} field
 */
function ends({ dataset, min, max }) {
  const usual = Number(dataset.usual);
  return [Math.max(Number(min), usual / 64) || usual / 64, Math.min(Number(max), usual * 16)];
}

/**
 * @param {HTMLInputElement} field
 * @param {number} position
 */
function toValue(field, position) {
  const [low, high] = ends(field);
  const exact = low * (high / low) ** (position / 1000);
  const isWhole = field.step === "1";
  if (isWhole && exact >= 16) return 2 ** Math.round(Math.log2(exact));
  return isWhole ? Math.round(exact) : Number(exact.toPrecision(2));
}

/** @param {HTMLInputElement} field */
function paint(field) {
  field.closest("[data-row]")?.classList.toggle("set", field.value !== field.dataset.usual);
  const slider = sliderOf(field);
  if (!slider || !field.checkValidity() || field.value === "") return;
  const [low, high] = ends(field);
  const value = Math.max(low, Math.min(high, Number(field.value)));
  slider.value = String((Math.log(value / low) / Math.log(high / low)) * 1000);
  slider.style.setProperty("--v", `${Number(slider.value) / 10}%`);
  slider.setAttribute("aria-valuetext", `${field.value} ${field.dataset.unit}`);
}

// What differs from the usual machine.
/** @returns {Record<string, number>} */
export const machineValues = () =>
  Object.fromEntries(
    fields()
      .filter((field) => field.value !== "" && Number(field.value) !== Number(field.dataset.usual))
      .map((field) => [field.dataset.parameter ?? "", Number(field.value)]),
  );

/** @param {Record<string, number>} values those that are not usual */
export function setMachine(values) {
  for (const field of fields()) {
    field.value = String(values[field.dataset.parameter ?? ""] ?? field.dataset.usual ?? "");
    paint(field);
  }
  showReset();
}

export const badParameter = () => fields().find((field) => !field.checkValidity() || field.value === "");

/** @param {string} name */
export const parameter = (name) =>
  Number(query(byId("dock"), `[data-parameter="${name}"]`, HTMLInputElement)?.value ?? NaN);

export const resetMachine = () => setMachine({});

const showReset = () => (byId("machine-reset", HTMLButtonElement).disabled = Object.keys(machineValues()).length === 0);

export function startMachine() {
  byId("dock-body").addEventListener("input", ({ target }) => {
    if (!(target instanceof HTMLInputElement)) return;
    const isField = target.matches("[data-parameter]");
    const knob = around(target, ".knob");
    const field = isField ? target : knob && query(knob, "[data-parameter]", HTMLInputElement);
    if (!field) return;
    if (!isField) field.value = String(toValue(field, Number(target.value)));
    paint(field);
    if (!isField) target.style.setProperty("--v", `${Number(target.value) / 10}%`);
    showReset();
  });
  for (const field of fields()) paint(field);
  showReset();
}
