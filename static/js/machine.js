// The simulated machine's parameters as the reader sets them: sliders for some, a field for every one.
import { byId } from "./dom.js";

const fields = () => [...byId("dock").querySelectorAll("[data-parameter]")];
const sliderOf = (field) => field.closest(".knob")?.querySelector('input[type="range"]');

// Logarithmic, from a 64th of the usual value to sixteen times as much, as far as the parameter goes.
function ends({ dataset, min, max }) {
  const usual = Number(dataset.usual);
  return [Math.max(Number(min), usual / 64) || usual / 64, Math.min(Number(max), usual * 16)];
}

function toValue(field, position) {
  const [low, high] = ends(field);
  const exact = low * (high / low) ** (position / 1000);
  const isWhole = field.step === "1";
  if (isWhole && exact >= 16) return 2 ** Math.round(Math.log2(exact));
  return isWhole ? Math.round(exact) : Number(exact.toPrecision(2));
}

function paint(field) {
  field.closest("[data-row]")?.classList.toggle("set", field.value !== field.dataset.usual);
  const slider = sliderOf(field);
  if (!slider || !field.checkValidity() || field.value === "") return;
  const [low, high] = ends(field);
  const value = Math.max(low, Math.min(high, Number(field.value)));
  slider.value = (Math.log(value / low) / Math.log(high / low)) * 1000;
  slider.style.setProperty("--v", `${slider.value / 10}%`);
  slider.setAttribute("aria-valuetext", `${field.value} ${field.dataset.unit}`);
}

// What differs from the usual machine.
export const machineValues = () =>
  Object.fromEntries(
    fields()
      .filter((field) => field.value !== "" && Number(field.value) !== Number(field.dataset.usual))
      .map((field) => [field.dataset.parameter, Number(field.value)]),
  );

export const badParameter = () => fields().find((field) => !field.checkValidity() || field.value === "");

export const parameter = (name) => Number(byId("dock").querySelector(`[data-parameter="${name}"]`)?.value ?? NaN);

export function resetMachine() {
  for (const field of fields()) {
    field.value = field.dataset.usual;
    paint(field);
  }
  showReset();
}

const showReset = () => (byId("machine-reset").disabled = Object.keys(machineValues()).length === 0);

export function startMachine() {
  byId("dock-body").addEventListener("input", ({ target }) => {
    const field = target.matches("[data-parameter]") ? target : target.closest(".knob")?.querySelector("[data-parameter]");
    if (!field) return;
    if (target !== field) field.value = toValue(field, Number(target.value));
    paint(field);
    if (target !== field) target.style.setProperty("--v", `${target.value / 10}%`);
    showReset();
  });
  for (const field of fields()) paint(field);
  showReset();
}
