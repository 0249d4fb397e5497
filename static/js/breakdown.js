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

// How far gradients are from differences.
function gradientTable({ gradients = {} }) {
  const slopes = Object.entries(gradients).map(([name, check]) => [
    name,
    check.max_relative_error === null ? "not a number" : check.max_relative_error.toExponential(1),
  ]);
  if (!slopes.length) return [];
  return [
    h("div.ch", h("h3", "Gradients"), h("span.label", "relative error, against differences in float64")),
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

// What moved between the units and through the memory. Only what the result tells of is shown.
export function showTraffic(result) {
  const { queues, memory = {}, microseconds, machine, tokens = {}, rates = {}, throughput = {} } = result;
  const even = ({ pushes, pops }) => (pushes === pops ? whole(pushes) : `${whole(pushes)} ≠ ${whole(pops)}`);
  const rate = microseconds && memory.hbm_bytes ? memory.hbm_bytes / microseconds / 1e3 : null;
  const share = machine.hbm_gbs?.value * (machine.cores?.value ?? 1);
  byId("run-traffic").replaceChildren(
    h("div.ch", h("h3", "Traffic"), h("span.label", levelOf(result) === "dlc" ? "" : levelOf(result))),
    table(
      ["L2 hits", percentOf(memory.l2_hits, memory.requests)],
      ["LLC hits", percentOf(memory.llc_hits, memory.requests)],
      ["memory", percentOf(memory.misses, memory.requests)],
      ["line requests", memory.requests === undefined ? null : whole(memory.requests)],
      ["memory rate", rate === null ? null : `${Number(rate.toPrecision(3))} GB/s`],
      ["of its bandwidth", rate === null || !share ? null : percentOf(rate, share)],
      ["achieved", throughput.achieved ? `${Number(throughput.achieved.toPrecision(3))} GB/s` : null],
      ...Object.entries(rates).map(([name, value]) => [words(name), short(value)]),
      ...Object.entries(tokens).map(([name, count]) => [`${name} tokens`, whole(count)]),
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
      machineTable(machine),
    ].filter(Boolean),
  );
}

const words = (name) => name.replaceAll("_", " ");
