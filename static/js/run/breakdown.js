// Beside a run's charts: the limits of its batch, what a simulated one moved, and on which machine.
import { byId, h, ms, short, whole } from "../dom.js";
import { levelOf } from "./levels.js";
/** @import { Checked, Child, CpuResult, DaeResult, GpuResult, Limits, Queue, Step } from "../types.d.ts" */
/** @typedef {[name: string, value: string | null | undefined]} Row */

/** @param {Child[]} parts */
const fill = (...parts) => byId("run-detail").append(...parts.flatMap((part) => part ?? []));

/** @param {Row[]} rows those without a value are left out */
const table = (...rows) =>
  h(
    "table.tb",
    h(
      "tbody",
      rows
        .filter(([, value]) => value !== null && value !== undefined)
        .map(([name, value]) => h("tr", h("td", name), h("td", value))),
    ),
  );

/**
 * @param {Limits} limits
 * @param {number} [median] ms
 * @returns {Row[]}
 */
function limitRows(limits, median) {
  /**
   * @param {number} value
   * @param {string} unit
   */
  const amount = (value, unit) => `${short(value)}${unit}`;
  /** @type {Row[]} */
  const rows = [
    ["bytes that must move", amount(limits.compulsory_bytes, "B")],
    ["bytes without reuse", amount(limits.stream_bytes, "B")],
    ["arithmetic", amount(limits.flop, "FLOP")],
  ];
  if (median) {
    rows.push(["reached, without reuse", `${short((limits.stream_bytes / median) * 1e3)}B/s`]);
    rows.push(["reached", `${short((limits.flop / median) * 1e3)}FLOP/s`]);
  }
  return rows;
}

/** @param {Checked} result */
const limitsOf = ({ encodings, data }) =>
  encodings ? "on this graph" : "lists" in data ? "of these lists" : "of this batch";

/** @param {CpuResult} result */
export function showLimits(result) {
  fill(
    h("div.ch", h("h3", "Limits"), h("span.label", limitsOf(result))),
    table(
      ...limitRows(result.limits, result.median_ms),
      ["to compile the loops", `${ms(result.compile_ms)} ms`],
      ["negatives", result.negatives],
      ["held at once, besides inputs", `${short(result.peak_bytes)}B`],
    ),
    note(result.limits.note),
    ...graphTables(result),
    ...preparedTable(result),
    ...gradientTable(result),
    ...inspectedTable(result),
  );
}

/**
 * Of a run on a GPU, what stands below its limits and kernels.
 * @param {GpuResult} result
 */
export const showPrepared = (result) =>
  byId("run-traffic").append(
    ...graphTables(result),
    ...preparedTable(result),
    ...gradientTable(result),
    ...inspectedTable(result),
  );

/** @param {string | undefined} text */
const note = (text) =>
  text ? h("details.note", h("summary.label", "what these count"), h("p.label", text)) : null;

/** @param {{ preprocessing: Step[] }} prepared */
const stepRows = ({ preprocessing }) =>
  preprocessing.map((step) => h("tr", { title: step.found }, h("td", step.name), h("td", `${ms(step.ms)} ms`)));

/**
 * What was computed before the run: of a batch for its backward pass, of an op's lists.
 * @param {Checked} result
 */
function preparedTable({ inverses, preprocessing }) {
  const [what, how] = inverses ? ["Batch", "sorted"] : ["Lists", "encoded"];
  const steps = stepRows(inverses ?? { preprocessing: preprocessing ?? [] });
  if (!steps.length) return [];
  return [
    h("div.ch", h("h3", what), h("span.label", `${how} once, before the run`)),
    h("table.tb", h("tbody", steps)),
  ];
}

/**
 * How far gradients are from the reference's, beside what rounding may make.
 * @param {Checked} result
 */
function gradientTable({ gradients }) {
  /** @type {Row[]} */
  const slopes = Object.entries(gradients).map(([name, check]) => [
    name,
    check.error_over_bound === null ? "not a number" : check.error_over_bound.toPrecision(2),
  ]);
  if (!slopes.length) return [];
  return [
    h("div.ch", h("h3", "Gradients"), h("span.label", "error over what rounding may make")),
    table(...slopes),
  ];
}

/**
 * What a score's kernels ask memory for on a GPU by setting of the inspector, and what chunks of edges share.
 * @param {Checked} result
 */
function inspectedTable({ inspected, chunks }) {
  /** @type {Row[]} */
  const rows = Object.entries(inspected?.bytes ?? {}).map(([setting, bytes]) => [
    `inspect = ${setting}`,
    `${short(bytes)}B`,
  ]);
  if (chunks) {
    rows.push([`entities, once a chunk of ${chunks.edges}`, whole(chunks.entities)]);
    rows.push(["relations, once a chunk", whole(chunks.relations)]);
    rows.push([`relations, ${chunks.group} chunks sorted together`, whole(chunks.relations_sorted)]);
  }
  if (!rows.length) return [];
  const counted = inspected ? `asked of a GPU's memory by ${whole(inspected.triples)} triples` : "counted";
  return [h("div.ch", h("h3", "Inspector"), h("span.label", counted)), table(...rows)];
}

/**
 * What was computed of a layer's graph before the run.
 * @param {Checked} result
 */
function graphTables({ encodings }) {
  if (!encodings) return [];
  /** @param {number} share */
  const percent = (share) => `${(100 * share).toFixed(1)} %`;
  return [
    h("div.ch", h("h3", "Graph"), h("span.label", "encoded once, before the run")),
    table(
      ["pairs of source and type", `${whole(encodings.src_pairs)}, ${percent(encodings.compaction_ratio)} of edges`],
      ["pairs of destination and type", `${whole(encodings.dst_pairs)}, ${percent(encodings.dst_compaction_ratio)}`],
      ["in-edges a node", `${encodings.in_degree.mean.toFixed(1)}, at most ${whole(encodings.in_degree.max)}`],
    ),
    h("details.note", h("summary.label", "pre-processing"), h("table.tb", h("tbody", stepRows(encodings)))),
  ];
}

/**
 * A simulated figure means nothing without the machine that it is of.
 * @param {DaeResult["machine"]} machine
 */
function machineTable(machine) {
  const rows = Object.entries(machine).map(([name, { value, unit, source, meaning }]) =>
    h(
      "tr",
      { title: meaning },
      h("td", name.replaceAll("_", " ")),
      h("td", `${Number(value).toLocaleString("en")} ${unit}`),
      h("td", source),
    ),
  );
  return h("details.note", h("summary.label", "the machine's parameters"), h("table.tb", h("tbody", rows)));
}

/** @param {number} share */
const percentOf = (share) => `${(100 * share).toFixed(1)} %`;
/** @param {number} value */
const gbs = (value) => (value ? `${Number(value.toPrecision(3))} GB/s` : null);
/** @param {Queue} queue */
const even = ({ pushes, pops }) => (pushes === pops ? whole(pushes) : `${whole(pushes)} ≠ ${whole(pops)}`);

/**
 * What moved between the units and through the memory.
 * @param {DaeResult} result
 */
export function showTraffic(result) {
  const { queues, machine } = result;
  byId("run-traffic").replaceChildren(
    h("div.ch", h("h3", "Traffic"), h("span.label", levelOf(result) === "dlc" ? "" : levelOf(result))),
    table(
      ...memoryRows(result),
      ...tokenRows(result),
      ["tokens pushed = popped", even(queues.control)],
      ["values pushed = popped", even(queues.data)],
      ["data pushed", `${short(queues.data.bytes_pushed)}B`],
      ["data queue peak", `${whole(queues.data.peak_bytes)} of ${whole(queues.data.capacity_bytes)} B`],
      ...limitRows(result.limits),
    ),
    ...[
      note(result.limits.note),
      ...graphTables(result),
      ...preparedTable(result),
      ...gradientTable(result),
      ...inspectedTable(result),
      costTable(result),
      machineTable(machine),
    ].flatMap((part) => part ?? []),
  );
}

/**
 * @param {DaeResult} result
 * @returns {Row[]}
 */
const tokenRows = ({ tokens }) => Object.entries(tokens).map(([name, count]) => [`${name} tokens`, whole(count)]);

/**
 * @param {DaeResult} result
 * @returns {Row[]}
 */
function memoryRows({ memory: { requests }, hit_rates: hits, rates, machine }) {
  const bandwidth = machine.hbm_gbs.value * machine.cores.value;
  return [
    ["L2 hits", requests ? percentOf(hits.l2) : null],
    ["LLC hits", requests ? percentOf(hits.llc) : null],
    ["from memory", requests ? percentOf(hits.memory) : null],
    ["memory rate", gbs(rates.hbm_gbs)],
    ["of its bandwidth", rates.hbm_gbs && bandwidth ? percentOf(rates.hbm_gbs / bandwidth) : null],
    ["payload", gbs(rates.payload_gbs)],
    ["lines requested", whole(requests)],
    ["requests a second", rates.requests_per_second ? short(rates.requests_per_second) : null],
    ["LLC accesses a kilo-element", rates.l3_accesses_per_kiloelement.toFixed(1)],
  ];
}

/**
 * What the execute unit spent its time on, by the machine's table of costs.
 * @param {DaeResult} result
 */
function costTable({ execute }) {
  const costs = Object.entries(execute.costs).filter(([, { count }]) => count > 0);
  if (!costs.length) return null;
  const rows = costs.map(([name, { count, total_cycles: cycles }]) =>
    h("tr", h("td", words(name)), h("td", whole(count)), h("td", `${short(cycles)} cycles`)),
  );
  return h("details.note", h("summary.label", "the execute unit's work"), h("table.tb", h("tbody", rows)));
}

/** @param {string} name */
const words = (name) => name.replaceAll("_", " ");
