// The best value so far over the trials, each a point: what was found when, and where random search would be.
import { expectedOfRandom } from "./expected.js";
import { levels, scaleOf, unitOf } from "./plot.js";
import { roundSteps, s } from "../svg.js";
/** @import { Space, Trial } from "../types.d.ts" */

const FAR = 3; // times the usual value: what is beyond stands at the upper edge, or nothing else could be told apart
const HEIGHT = 196;
const MARGIN = { left: 58, right: 12, top: 22, bottom: 30 };

/**
 * @param {HTMLElement} element
 * @param {Space} space
 * @param {Trial[]} trials
 * @param {number} chosen
 * @param {boolean} isRandom whether the trials were drawn at random
 * @returns {{ number: number, x: number, y: number }[]} where the points stand
 */
export function drawCurve(element, space, trials, chosen, isRandom) {
  const width = Math.max(220, element.clientWidth);
  const box = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: HEIGHT - MARGIN.bottom };
  const usual = trials[0]?.value ?? null;
  const drawn = trials.filter(({ searched }) => searched);
  const predicted = usual === null ? [] : (space.expected ?? []).map((share) => share * usual);
  const expected = isRandom ? expectedOfRandom(drawn) : predicted;
  const values = [...trials.flatMap(({ value }) => (value === null || isFar(value, trials) ? [] : value)), ...expected];
  if (!values.length) return [];
  const y = scaleOf(values, box.bottom, box.top);
  const last = Math.max(space.budget - 1, trials.length - 1, 1);
  const x = (/** @type {number} */ number) => box.left + 6 + ((box.right - box.left - 12) * number) / last;
  const places = trials.map(({ number, value }) => ({ number, x: x(number), y: value === null || isFar(value, trials) ? box.top - 8 : y(value) }));
  element.replaceChildren(
    s(
      "svg.cv",
      { width, height: HEIGHT, "aria-hidden": "true" },
      levels(y, box),
      numbers(last, x, box.bottom + 14),
      s("path.ax", { d: `M${box.left} ${box.bottom}H${box.right}` }),
      usualLine(trials[0], y, box.left, box.right),
      path("path.ref.dash", expected.map((value, at) => [x(at), y(value)])),
      steps(trials, x, y),
      trials.map((trial, at) => point(trial, places[at], trials)),
      ring(places.find(({ number }) => number === chosen)),
      s("text", { x: 0, y: 10 }, `${unitOf(space)}${y.isLog ? ", log scale" : ""}`),
      s("text", { x: box.right, y: HEIGHT - 3, "text-anchor": "end" }, "trial"),
    ),
  );
  return places;
}

/**
 * @param {number} last
 * @param {(number: number) => number} x
 * @param {number} y
 */
const numbers = (last, x, y) =>
  roundSteps(last, 6)
    .filter((step) => step <= last && Number.isInteger(step))
    .map((step) => s("text", { x: x(step), y, "text-anchor": "middle" }, String(step)));

/**
 * @param {Trial} usual
 * @param {(value: number) => number} y
 * @param {number} left
 * @param {number} right
 */
function usualLine(usual, y, left, right) {
  if (!usual || usual.value === null) return [];
  const at = y(usual.value);
  return [s("path.ax.dash", { d: `M${left} ${at}H${right}` }), s("text", { x: right, y: at - 4, "text-anchor": "end" }, "usual")];
}

/**
 * @param {string} kind
 * @param {[x: number, y: number][]} points
 */
const path = (kind, points) => (points.length ? s(kind, { d: points.map(([x, y], at) => `${at ? "L" : "M"}${x} ${y}`).join("") }) : null);

/**
 * @param {Trial[]} trials
 * @param {(number: number) => number} x
 * @param {(value: number) => number} y
 */
function steps(trials, x, y) {
  const known = trials.filter(({ best }) => best !== null);
  const moves = known.map(({ number, best }, at) => (at ? `H${x(number)}V${y(best ?? 0)}` : `M${x(number)} ${y(best ?? 0)}`));
  return moves.length ? s("path.mel.best", { d: moves.join("") }) : null;
}

/**
 * @param {number} value
 * @param {Trial[]} trials
 */
const isFar = (value, [usual]) => usual.value !== null && value > FAR * usual.value;

/**
 * What is drawn of a trial: better than all before it, tried, far slower, of no weight for the search, or without a
 * value.
 * @param {Trial} trial
 * @param {Trial[]} trials
 */
export function signOf({ number, value, status, searched }, trials) {
  if (value === null) return "failed";
  const before = trials[number - 1]?.best;
  if (before !== null && before !== undefined && value < before) return "better";
  if (isFar(value, trials)) return "far";
  return status === "timed" && searched ? "timed" : "apart";
}

/**
 * What has no value is a cross, what is far slower an arrow above all others.
 * @param {Trial} trial
 * @param {{ x: number, y: number }} place
 * @param {Trial[]} trials
 */
function point(trial, { x, y }, trials) {
  const sign = signOf(trial, trials);
  if (sign === "failed") return s("path.failed", { d: `M${x - 3} ${y - 3}l6 6m0 -6l-6 6` });
  if (sign === "far") return s("path.dot", { d: `M${x} ${y - 4}l4 7h-8z` });
  if (sign === "better") return s("circle.me", { cx: x, cy: y, r: 4 });
  return s(sign === "timed" ? "circle.dot" : "circle.hollow", { cx: x, cy: y, r: 2.5 });
}

/** @param {{ x: number, y: number } | undefined} place */
export const ring = (place) => (place ? s("circle.ring", { cx: place.x, cy: place.y, r: 7 }) : null);
