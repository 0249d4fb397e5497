// Drawings that are made of elements: they take their colours from classes, so both themes share one drawing.

/** @import { Drawn } from "./types.d.ts" */

const SVG = "http://www.w3.org/2000/svg";

/**
 * s("circle.me", { cx: 4, cy: 4, r: 4 }) or s("text", { x: 0, y: 10 }, "words").
 * @param {string} kind
 * @param {Record<string, string | number>} attributes
 * @param {Drawn[]} children
 */
export function s(kind, attributes = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElementNS(SVG, tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Round numbers from 0 to at least `most`, about `count` of them.
 * @param {number} most
 */
export function roundSteps(most, count = 5) {
  const rough = Math.max(most, 1e-9) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5].map((factor) => factor * power).find((size) => size >= rough) ?? 10 * power;
  const last = Math.ceil(most / step - 1e-9);
  return Array.from({ length: last + 1 }, (_, at) => Number((at * step).toPrecision(6)));
}

/**
 * The powers of 10 within bounds, with multiples of each where there are few, every second one where there are many.
 * @param {number} low
 * @param {number} high
 */
export function logSteps(low, high, most = 6) {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const apart = Math.ceil((last - first) / most);
  const decades = Math.log10(high / low);
  const factors = decades > 1.5 ? [1] : decades > 0.5 ? [1, 2, 5] : [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9];
  const powers = Array.from({ length: last - first + 1 }, (_, at) => first + at).filter((power) => power % apart === 0);
  const steps = powers.flatMap((power) => factors.map((factor) => Number((factor * 10 ** power).toPrecision(3))));
  return steps.filter((step) => step >= low && step <= high);
}
