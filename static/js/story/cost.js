// What an operation cost in the last run on a target, at the end of its story.
import { h, many, ms as milliseconds, whole } from "../dom.js";
import { percent } from "../run/levels.js";
import { amountOf, sourceOf, spentOn } from "../run/spent.js";
/** @import { CpuResult, DaeResult, GpuResult, Spent } from "../types.d.ts" */
/** @typedef {CpuResult | GpuResult | DaeResult} Ran */

/**
 * @param {Ran} result the newest that ended well on its target
 * @param {number} id of the operation
 * @param {string[]} kernels that have lines of it
 */
export function costs(result, id, kernels) {
  const { own, sideA } = spentOn(result.target);
  if (!own) return [all(result, kernels), h("span.pill.src", "measured")];
  const pill = h("span.pill.src", sourceOf(own));
  if (!sideA) return [inWords(own, id), pill];
  return [h("span.ab", "A"), inWords(sideA, id), h("br"), h("span.ab", "B"), inWords(own, id), pill];
}

/**
 * `access unit 1,058 of 1,602 cycles, 66 %; execute unit 6, 0.4 %`.
 * @param {Spent} spent
 * @param {number} id
 */
function inWords(spent, id) {
  const amounts = spent.operations.find((row) => row.id === id)?.amounts;
  const noun = spent.unit === "cycles" ? " cycles" : "";
  if (!amounts) return `Nothing of ${amountOf(spent, spent.whole)}${noun} is its own: it is part of other operations. `;
  const parts = amounts.map((amount, at) => {
    const of = at ? "" : ` of ${amountOf(spent, spent.whole)}${noun}`;
    const unit = spent.columns.length > 1 ? `${spent.columns[at]} ` : "";
    return `${unit}${amountOf(spent, amount)}${of}, ${percent(amount / spent.whole)}`;
  });
  return `${parts.join("; ")} `;
}

/**
 * @param {Ran} result
 * @param {string[]} kernels
 */
function all(result, kernels) {
  if (result.target === "dae") return `${whole(result.cycles)} cycles for all operations together `;
  const words = `${milliseconds(result.median_ms)} ms for all operations together`;
  if (result.target === "cpu" || !kernels.length) return `${words} `;
  return `${words}; its lines are in ${kernels.join(", ")}, ${many(kernels.length, "kernel")} of ${result.kernels.length} `;
}
