// What a point of the space is made of, beside the usual one, and how the page comes to have it.
import { h } from "../dom.js";
import { emit } from "../state.js";
/** @import { Chosen, Choices, Gene, RunOrder, Trial } from "../types.d.ts" */

const MACHINE = "machine."; // what the keys of the machine's parameters begin with

/** @typedef {{ options: Choices["options"], schedule: Choices["schedule"], machine: Record<string, number> }} Point */

/** @param {Chosen | null | undefined} value */
const word = (value) => (value === true ? "on" : value === false ? "off" : String(value ?? "none"));

/**
 * The genes that a point has, those that differ from the usual first.
 * @param {Gene[]} genes
 * @param {Trial["choices"]} choices
 */
export function genesOf(genes, choices) {
  const own = genes.filter(({ key }) => key in choices).map(({ key, usual }) => ({ key, usual, value: choices[key], differs: choices[key] !== usual }));
  return own.sort((a, b) => Number(b.differs) - Number(a.differs));
}

/**
 * `vlen 16 → 8`.
 * @param {ReturnType<typeof genesOf>[number]} gene
 */
export const inWords = ({ key, usual, value, differs }) => (differs ? `${key} ${word(usual)} → ${word(value)}` : `${key} ${word(value)}`);

/** @param {ReturnType<typeof genesOf>} own */
export function chipsOf(own) {
  const chips = (/** @type {typeof own} */ shown) => shown.map((gene) => h(gene.differs ? "li.chip.differs" : "li.chip", inWords(gene)));
  const [changed, rest] = [own.filter(({ differs }) => differs), own.filter(({ differs }) => !differs)];
  return [
    h("ul.chips", { "aria-label": "What it changes" }, chips(changed)),
    ...(rest.length ? [h("details.note", h("summary.label", `${rest.length} as usual`), h("ul.chips", chips(rest)))] : []),
  ];
}

/**
 * What the page must choose so that a trial's program is compiled and run. A decision is named where it has its usual
 * value too: beside other choices, the heuristics might choose otherwise.
 * @param {RunOrder} order of the tuning
 * @param {Gene[]} genes
 * @param {Trial["choices"]} choices
 * @returns {Point}
 */
export function pointOf({ options, schedule, machine = {} }, genes, choices) {
  const own = genesOf(genes, choices);
  const changed = own.filter(({ differs }) => differs);
  if (!changed.length) return { options, schedule, machine };
  const taken = (/** @type {typeof own} */ some) => Object.fromEntries(some.map(({ key, value }) => [key, value]));
  const sizes = changed.filter(({ key }) => key.startsWith(MACHINE)).map(({ key, value }) => [key.slice(MACHINE.length), Number(value)]);
  return {
    options: { ...options, ...taken(changed.filter(({ key }) => !key.includes("."))) },
    schedule: { ...schedule, ...taken(own.filter(({ key }) => key.includes(".") && !key.startsWith(MACHINE))) },
    machine: { ...machine, ...Object.fromEntries(sizes) },
  };
}

/**
 * The text of a tuning with a point's choices, as if they had been made here; the usual ones are side A, if asked for.
 * @param {RunOrder} order
 * @param {Point} point
 */
export function adoptPoint(order, point, isCompared = false) {
  const { sizes, options, schedule } = order;
  emit("restore", { ...order, ...point, against: isCompared ? { sizes, options, schedule, compiled: null } : undefined });
}
