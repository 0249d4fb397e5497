// What both drawings of a tuning have in common: axes, and one control that goes from trial to trial.
import { ms, whole } from "../dom.js";
import { logSteps, s } from "../svg.js";
/** @import { Space } from "../types.d.ts" */
/** @typedef {{ (value: number): number, steps: number[], isLog: boolean }} Scale from a value to its place in pixels */
/** @typedef {{ left: number, right: number, top: number, bottom: number }} Box in pixels, from the drawing's corner */

const WIDE = 6; // how many times the least the largest is, from where on an axis is logarithmic
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10, Home: -Infinity, End: Infinity };
const NEAR = 24; // pixels around a point that are taken for it

/**
 * @param {number[]} values of which one at least is there
 * @param {number} from where the least stands
 * @param {number} to where the largest stands
 * @returns {Scale}
 */
export function scaleOf(values, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const isLog = least > 0 && most / least > WIDE;
  const margin = isLog ? 0 : (most - least || most || 1) * 0.08;
  const [low, high] = isLog ? [least / 1.15, most * 1.15] : [least - margin, most + margin];
  const share = isLog ? (/** @type {number} */ value) => Math.log(value / low) / Math.log(high / low) : (/** @type {number} */ value) => (value - low) / (high - low);
  const place = (/** @type {number} */ value) => from + (to - from) * share(value);
  return Object.assign(place, { steps: isLog ? logSteps(low, high) : evenSteps(low, high), isLog });
}

/**
 * Round numbers within bounds, about five of them.
 * @param {number} low
 * @param {number} high
 */
function evenSteps(low, high) {
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5].map((factor) => factor * power).find((size) => size >= rough) ?? 10 * power;
  const first = Math.ceil(low / step - 1e-9);
  const last = Math.floor(high / step + 1e-9);
  return Array.from({ length: last - first + 1 }, (_, at) => Number(((first + at) * step).toPrecision(6)));
}

/** @param {Space} space */
export const unitOf = ({ metric }) => (metric === "cycles" ? "cycles" : "ms");

/**
 * @param {Space} space
 * @param {number | null} value
 */
export const figure = (space, value) => (value === null ? "–" : space.metric === "cycles" ? whole(value) : ms(value));

/** @param {number} step of an axis */
export const tick = (step) => (step >= 1e6 ? `${Number((step / 1e6).toPrecision(4))} M` : step >= 1000 ? whole(step) : String(step));

/**
 * @param {Scale} y
 * @param {Box} box
 */
export const levels = (y, { left, right }) =>
  y.steps.map((step) => [
    s("path.gr", { d: `M${left} ${y(step)}H${right}` }),
    s("text", { x: left - 5, y: y(step) + 4, "text-anchor": "end" }, tick(step)),
  ]);

/**
 * Makes an element a slider over trials, whose points are clicked too: what is chosen is told, and Enter goes on to it.
 * @param {HTMLElement} element
 * @param {() => { number: number, x: number, y: number }[]} points in pixels of the element
 * @param {() => number} chosen
 * @param {(number: number) => void} choose
 * @param {() => void} open
 */
export function makePicker(element, points, chosen, choose, open) {
  element.addEventListener("click", ({ clientX, clientY }) => {
    const box = element.getBoundingClientRect();
    const scale = box.width / element.offsetWidth || 1; // a projector's page is drawn larger
    const [x, y] = [(clientX - box.left) / scale, (clientY - box.top) / scale];
    const apart = points().map((point) => ({ number: point.number, apart: Math.hypot(point.x - x, point.y - y) }));
    const nearest = apart.sort((a, b) => a.apart - b.apart)[0];
    if (nearest && nearest.apart <= NEAR) choose(nearest.number);
  });
  element.addEventListener("keydown", (event) => {
    const { key, altKey, ctrlKey, metaKey } = event;
    if (altKey || ctrlKey || metaKey) return;
    const numbers = points().map(({ number }) => number).sort((a, b) => a - b);
    const step = STEPS[/** @type {keyof typeof STEPS} */ (key)];
    if (!numbers.length || (step === undefined && key !== "Enter")) return;
    event.preventDefault();
    if (key === "Enter") return open();
    const at = Math.max(0, numbers.indexOf(chosen())) + step;
    choose(numbers[Math.max(0, Math.min(numbers.length - 1, at))]);
  });
}

/**
 * What a slider over trials says of the one that is chosen.
 * @param {HTMLElement} element
 * @param {number} number
 * @param {number} last
 * @param {string} words
 */
export function tellPicker(element, number, last, words) {
  const told = { "aria-valuemin": 0, "aria-valuemax": Math.max(0, last), "aria-valuenow": number, "aria-valuetext": words };
  for (const [name, value] of Object.entries(told)) element.setAttribute(name, String(value));
}
