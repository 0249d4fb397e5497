// Beside a run's charts: the limits of its batch, what a simulated one moved, and on which machine.
import { byId, h, ms, short, whole } from "./dom.js";
import { levelOf } from "./levels.js";

const fill = (...parts) => byId("run-detail").replaceChildren(...parts.filter(Boolean));

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

function limitRows({ limits, median_ms: median }) {
  const amount = (value, unit) => (value === undefined ? null : `${short(value)}${unit}`);
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

const limitsOf = ({ encodings, data }) =>
  encodings ? "on this graph" : "lists" in data ? "of these lists" : "of this batch";

export function showLimits(result) {
  fill(
    h("div.ch", h("h3", "Limits"), h("span.label", limitsOf(result))),
    table(
      ...limitRows(result),
      ["to compile the loops", `${ms(result.compile_ms)} ms`],
      ["negatives", result.negatives],
      ["held at once, besides inputs", result.peak_bytes === undefined ? null : `${short(result.peak_bytes)}B`],
    ),
    note(result.limits.note),
    ...graphTables(result),
    ...preparedTable(result),
    ...gradientTable(result),
  );
}

// Of a run on a GPU, what stands below its limits and kernels.
export const showPrepared = (result) =>
  byId("run-traffic").append(...graphTables(result), ...preparedTable(result), ...gradientTable(result));

const note = (text) =>
  text ? h("details.note", h("summary.label", "what these count"), h("p.label", text)) : null;

const stepRows = ({ preprocessing }) =>
  preprocessing.map((step) => h("tr", { title: step.found }, h("td", step.name), h("td", `${ms(step.ms)} ms`)));

// What was computed before the run: of a batch for its backward pass, of an op's lists.
function preparedTable({ inverses, preprocessing }) {
  const [what, how] = inverses ? ["Batch", "sorted"] : ["Lists", "encoded"];
  const steps = stepRows(inverses ?? { preprocessing: preprocessing ?? [] });
  if (!steps.length) return [];
  return [
    h("div.ch", h("h3", what), h("span.label", `${how} once, before the run`)),
    h("table.tb", h("tbody", steps)),
  ];
}

// How far gradients are from the reference's, beside what rounding may make.
function gradientTable({ gradients = {} }) {
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

// What was computed of a layer's graph before the run.
function graphTables({ encodings }) {
  if (!encodings) return [];
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

// A simulated figure means nothing without the machine that it is of.
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

const percentOf = (part, of) => (of ? `${((100 * part) / of).toFixed(1)} %` : null);
const gbs = (value) => (value ? `${Number(value.toPrecision(3))} GB/s` : null);
const even = ({ pushes, pops }) => (pushes === pops ? whole(pushes) : `${whole(pushes)} ≠ ${whole(pops)}`);

// What moved between the units and through the memory. Only what the result tells of is shown.
export function showTraffic(result) {
  const { queues, machine } = result;
  byId("run-traffic").replaceChildren(
    h("div.ch", h("h3", "Traffic"), h("span.label", levelOf(result) === "dlc" ? "" : levelOf(result))),
    table(
      ...memoryRows(result),
      ...Object.entries(result.tokens ?? {}).map(([name, count]) => [`${name} tokens`, whole(count)]),
      ["tokens pushed = popped", even(queues.control)],
      ["values pushed = popped", even(queues.data)],
      ["data pushed", `${short(queues.data.bytes_pushed)}B`],
      ["data queue peak", `${whole(queues.data.peak_bytes)} of ${whole(queues.data.capacity_bytes)} B`],
      ...limitRows({ limits: result.limits ?? {} }),
    ),
    ...[
      note(result.limits?.note),
      ...graphTables(result),
      ...preparedTable(result),
      ...gradientTable(result),
      kernelTable(result),
      costTable(result),
      machineTable(machine),
    ].filter(Boolean),
  );
}

function memoryRows({ memory = {}, hit_rates: hits = {}, rates = {}, microseconds, machine }) {
  const { requests } = memory;
  const share = (name, count) => percentOf(hits[name] === undefined ? count / requests : hits[name], 1);
  const rate = rates.hbm_gbs ?? (microseconds && memory.hbm_bytes ? memory.hbm_bytes / microseconds / 1e3 : null);
  const bandwidth = machine.hbm_gbs?.value * (machine.cores?.value ?? 1);
  const other = Object.entries(rates).filter(([name]) => !(name in RATES));
  return [
    ...(requests ? [["L2 hits", share("l2", memory.l2_hits)], ["LLC hits", share("llc", memory.llc_hits)], ["from memory", share("memory", memory.misses)]] : []),
    ["memory rate", gbs(rate)],
    ["of its bandwidth", rate && bandwidth ? percentOf(rate, bandwidth) : null],
    ["payload", gbs(rates.payload_gbs)],
    ["lines requested", requests === undefined ? null : whole(requests)],
    ["requests a second", rates.requests_per_second ? short(rates.requests_per_second) : null],
    ["LLC accesses a kilo-element", rates.l3_accesses_per_kiloelement?.toFixed(1)],
    ...other.map(([name, value]) => [words(name), short(value)]),
  ];
}

const RATES = { hbm_gbs: 1, payload_gbs: 1, requests_per_second: 1, l3_accesses_per_kiloelement: 1 };

// Of a module each kernel's cycles, where there are several.
function kernelTable({ kernels = [] }) {
  if (kernels.length < 2) return null;
  const rows = kernels.map(({ name, cycles }) => h("tr", h("td", name), h("td", `${short(cycles)} cycles`)));
  return h("details.note", h("summary.label", "its kernels, one after another"), h("table.tb", h("tbody", rows)));
}

// What the execute unit spent its time on, by the machine's table of costs.
function costTable({ execute }) {
  const costs = Object.entries(execute.costs ?? {}).filter(([, { count }]) => count > 0);
  if (!costs.length) return null;
  const rows = costs.map(([name, { count, total_cycles: cycles }]) =>
    h("tr", h("td", words(name)), h("td", whole(count)), h("td", `${short(cycles)} cycles`)),
  );
  return h("details.note", h("summary.label", "the execute unit's work"), h("table.tb", h("tbody", rows)));
}

const words = (name) => name.replaceAll("_", " ");
