// What the cost model had said of each trial against what came out: on the line both are the same.
import { ring } from "./curve.js";
import { levels, scaleOf, tick, unitOf } from "./plot.js";
import { s } from "../svg.js";
/** @import { Space, Trial } from "../types.d.ts" */

const HEIGHT = 226;
const MARGIN = { left: 58, right: 10, top: 20, bottom: 32 };

/**
 * @param {Trial[]} trials
 * @returns {{ number: number, value: number, predicted: number }[]} those of which both are known
 */
export const predictedOf = (trials) =>
  trials.flatMap(({ number, value, predicted }) => (value === null || predicted === null ? [] : [{ number, value, predicted }]));

/**
 * Pearson's r of the logarithms; null of too few trials, or where either is always the same.
 * @param {Trial[]} trials
 */
export function correlation(trials) {
  const found = predictedOf(trials).filter(({ value, predicted }) => value > 0 && predicted > 0);
  if (found.length < 3) return null;
  const [x, y] = [found.map(({ predicted }) => Math.log(predicted)), found.map(({ value }) => Math.log(value))];
  const mean = (/** @type {number[]} */ all) => all.reduce((sum, each) => sum + each, 0) / all.length;
  const [mx, my] = [mean(x), mean(y)];
  const sum = (/** @type {(at: number) => number} */ of) => x.reduce((total, _, at) => total + of(at), 0);
  const spread = Math.sqrt(sum((at) => (x[at] - mx) ** 2) * sum((at) => (y[at] - my) ** 2));
  return spread > 1e-12 ? sum((at) => (x[at] - mx) * (y[at] - my)) / spread : null;
}

/**
 * @param {HTMLElement} element
 * @param {Space} space
 * @param {Trial[]} trials
 * @param {number} chosen
 * @returns {{ number: number, x: number, y: number }[]} where the points stand
 */
export function drawScatter(element, space, trials, chosen) {
  const found = predictedOf(trials);
  if (!found.length) return [];
  const width = Math.max(200, Math.min(420, element.clientWidth));
  const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom };
  const all = found.flatMap(({ value, predicted }) => [value, predicted]);
  const [x, y] = [scaleOf(all, box.left, box.right), scaleOf(all, box.bottom, box.top)];
  const places = found.map(({ number, value, predicted }) => ({ number, x: x(predicted), y: y(value) }));
  const every = Math.ceil((x.steps.length * 52) / (box.right - box.left)); // so that numbers do not touch
  const newest = found.at(-1)?.number;
  element.replaceChildren(
    s(
      "svg.cv",
      { width, height: HEIGHT, "aria-hidden": "true" },
      levels(y, box),
      x.steps.map((step, at) => [
        s("path.gr", { d: `M${x(step)} ${box.top}V${box.bottom}` }),
        at % every ? null : s("text", { x: x(step), y: box.bottom + 14, "text-anchor": "middle" }, tick(step)),
      ]),
      s("path.ref", { d: `M${box.left} ${box.bottom}L${box.right} ${box.top}` }),
      places.map(({ number, x: cx, y: cy }) => s(number === newest ? "circle.me" : "circle.dot", { cx, cy, r: number === newest ? 4 : 2.5 })),
      ring(places.find(({ number }) => number === chosen)),
      s("text", { x: 0, y: 10 }, `${space.source}, ${unitOf(space)}${y.isLog ? ", log scale" : ""}`),
      s("text", { x: box.right, y: HEIGHT - 3, "text-anchor": "end" }, `predicted, ${unitOf(space)}`),
    ),
  );
  return places;
}
