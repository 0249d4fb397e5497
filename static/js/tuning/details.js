// The trial that is chosen: what came of it, what it is made of, and the ways to have it.
import { around, h, query } from "../dom.js";
import { adoptPoint, chipsOf, genesOf, inWords, pointOf } from "./choices.js";
import { figure, unitOf } from "./plot.js";
import { say } from "../page.js";
import { times } from "../run/levels.js";
/** @import { RunOrder, Space, Trial, TrialStatus, Tuned, Tuning } from "../types.d.ts" */

/** @type {Record<TrialStatus, string>} */
const STATUS = {
  timed: "",
  same: "the same program as one before, not run again",
  stopped: "stopped early: far slower than the best",
  invalid: "no valid point",
  wrong: "its result did not match the reference",
  faulted: "it failed",
};

/**
 * `12,345 cycles, 1.42 times as fast as the usual`.
 * @param {Space} space
 * @param {Trial} trial
 * @param {Trial} usual
 */
export function came(space, { number, value, predicted, status, note }, usual) {
  const measured = value === null ? "" : `${figure(space, value)} ${unitOf(space)}`;
  const isOther = number > 0 && value !== null && usual.value;
  const beside = number === 0 ? "the usual point" : isOther ? `${times(/** @type {number} */ (usual.value) / value)} the speed of the usual` : "";
  const expected = predicted === null ? "" : `predicted ${figure(space, predicted)}`;
  return [measured, beside, expected, note || STATUS[status]].filter(Boolean).join("; ");
}

/**
 * @param {HTMLElement} parent
 * @param {RunOrder} order
 * @param {Tuning} tuning
 * @param {number} number
 */
export function showDetails(parent, order, { space, trials, best, tuned }, number) {
  const trial = trials[number];
  if (!space || !trial) return parent.replaceChildren();
  const own = genesOf(space.genes, trial.choices);
  const isBest = number === best;
  const rank = isBest ? (tuned ? "chosen" : "the best so far") : "";
  const why = isBest && tuned ? tuned.why : [];
  const held = parent.contains(document.activeElement) && around(document.activeElement, "[data-way]")?.dataset.way;
  parent.replaceChildren(
    h("div.ch", h("h3", `Trial ${number}`), h("span.label", rank)),
    h("p.small", came(space, trial, trials[0])),
    isBest && tuned && tuned.best !== trial.value ? h("p.small", timedAgain(space, tuned)) : "",
    space.source === "replayed" ? "" : h("p.acts", ...ways(trial)),
    ...chipsOf(own),
    why.length ? h("ul.small", why.map((sentence) => h("li", sentence))) : "",
  );
  if (held) query(parent, `[data-way="${held}"]`)?.focus({ preventScroll: true });
  parent.onclick = ({ target }) => {
    const way = around(target, "[data-way]")?.dataset.way;
    if (way) take(order, pointOf(order, space.genes, trial.choices), way, number);
  };
}

/**
 * @param {Space} space
 * @param {Tuned} tuned
 */
const timedAgain = (space, { usual, best, gain }) =>
  gain === 1
    ? `Timed again at the end: ${figure(space, best)} ${unitOf(space)}`
    : `Timed again at the end, by turns with the usual: ${figure(space, best)} of ${figure(space, usual)} ${unitOf(space)}, ${times(gain)} its speed`;

/** @param {Trial} trial */
function ways({ number, value }) {
  const button = (/** @type {string} */ way, /** @type {string} */ words, /** @type {string} */ title) =>
    h("button.btn.s.line", { type: "button", "data-way": way, title }, words);
  const use = button("use", number ? "Use these" : "Use the usual", "Choose them on the page, and compile");
  if (value === null) return [];
  return number ? [use, button("compare", "Compare with the usual", "Side A is the usual point, side B this one")] : [use];
}

/**
 * @param {RunOrder} order
 * @param {ReturnType<typeof pointOf>} point
 * @param {string} way
 * @param {number} number
 */
function take(order, point, way, number) {
  adoptPoint(order, point, way === "compare");
  const isOtherMachine = JSON.stringify(point.machine) !== JSON.stringify(order.machine ?? {});
  const shared = way === "compare" && isOtherMachine ? " Both sides run on this trial's machine." : "";
  say(way === "compare" ? `A is the usual point, B trial ${number}.${shared}` : `The page has what trial ${number} chose.`);
}

/** @param {HTMLElement} parent */
export const focusDetails = (parent) => (query(parent, "button") ?? parent).focus();

/**
 * A table of all trials, for those who read no drawing; its buttons choose one.
 * @param {Space} space
 */
export function tableOf(space) {
  const words = ["trial", unitOf(space), ...(space.predicted ? ["predicted"] : []), "best so far", "what it changed"];
  const head = h("tr", words.map((text) => h("th", { scope: "col" }, text)));
  return h("table.tb.trials", h("caption.vh", `All trials, ${space.source}`), h("thead", head), h("tbody"));
}

/**
 * @param {Space} space
 * @param {Trial} trial
 */
export function rowOf(space, { number, choices, value, predicted, best, status }) {
  const changed = genesOf(space.genes, choices).filter(({ differs }) => differs).map(inWords).join(", ");
  return h(
    "tr",
    h("td", h("button.of", { type: "button", "data-trial": number, "aria-label": `Trial ${number}` }, String(number))),
    h("td", value === null ? status : figure(space, value)),
    ...(space.predicted ? [h("td", figure(space, predicted))] : []),
    h("td", figure(space, best)),
    h("td.wrap", changed || "nothing: the usual point"),
  );
}
