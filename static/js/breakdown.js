// Where a run's time went, beside its charts: limits of the batch, units and queues of the simulated machine.
import { byId, h, ms, short, whole } from "./dom.js";

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
  const rows = [
    ["bytes that must move", `${short(limits.compulsory_bytes)}B`],
    ["bytes without reuse", `${short(limits.stream_bytes)}B`],
    ["arithmetic", `${short(limits.flop)}FLOP`],
  ];
  if (median) {
    rows.push(["reached, without reuse", `${short((limits.stream_bytes / median) * 1e3)}B/s`]);
    rows.push(["reached", `${short((limits.flop / median) * 1e3)}FLOP/s`]);
  }
  return rows;
}

export function showLimits(result) {
  fill(
    h("div.ch", h("h3", "Limits"), h("span.label", result.encodings ? "on this graph" : "of this batch")),
    table(
      ...limitRows(result),
      ["to compile the loops", `${ms(result.compile_ms)} ms`],
      ["negatives", result.negatives],
      ["held at once, besides inputs", result.peak_bytes === undefined ? null : `${short(result.peak_bytes)}B`],
    ),
    note(result.limits.note),
    ...graphTables(result),
    ...inverseTable(result),
    ...gradientTable(result),
  );
}

const note = (text) =>
  text ? h("details.note", h("summary.label", "what these count"), h("p.label", text)) : null;

const stepRows = ({ preprocessing }) =>
  preprocessing.map((step) => h("tr", { title: step.found }, h("td", step.name), h("td", `${ms(step.ms)} ms`)));

// What was computed of a batch before the run, for its backward pass.
function inverseTable({ inverses }) {
  if (!inverses?.preprocessing.length) return [];
  return [
    h("div.ch", h("h3", "Batch"), h("span.label", "sorted once, before the run")),
    h("table.tb", h("tbody", stepRows(inverses))),
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

const CAUSES = { queue: "fill-queue", memory: "fill-memory", hbm: "fill-memory" };
const causeClass = (cause) =>
  Object.entries(CAUSES).find(([word]) => cause.toLowerCase().includes(word))?.[1] ?? "fill-rest";

export function showMachine(result, headline) {
  const { queues, access, execute } = result;
  headline.replaceChildren(
    h("div", h("span.big", whole(result.cycles), h("small", " cycles"))),
    h(
      "div",
      h("span.label", "that is"),
      h("span.v", `${result.microseconds >= 100 ? whole(result.microseconds) : ms(result.microseconds)} µs`),
    ),
    h(
      "div",
      h("span.label", result.encodings ? "a row" : "a triple"),
      h("span.v", `${whole(result.cycles / (result.rows ?? result.batch))} cycles`),
    ),
  );
  const even = (queue) => `${whole(queue.pushes)} = ${whole(queue.pops)}`;
  fill(
    h("div.ch", h("h3", "Where cycles go"), h("span.label", "share of all cycles")),
    h(
      "div.share",
      ...unitBar("A", access, "fill-a", result.cycles),
      ...unitBar("X", execute, "fill-x", result.cycles),
    ),
    legend([access, execute]),
    h("div.ch", h("h3", "Traffic")),
    table(
      ["control pushes = pops", even(queues.control)],
      ["data pushes = pops", even(queues.data)],
      ["data pushed", `${short(queues.data.bytes_pushed)}B`],
      ["data queue peak", `${whole(queues.data.peak_bytes)} of ${whole(queues.data.capacity_bytes)} B`],
      ...limitRows({ limits: result.limits }),
    ),
    note(result.limits.note),
    ...graphTables(result),
    ...inverseTable(result),
    ...gradientTable(result),
    machineTable(result.machine),
  );
}

const stallsOf = (unit) => Object.entries(unit.stalls ?? {}).filter(([, cycles]) => cycles > 0);
const busyOf = (unit, cycles) => (unit.busy <= 1 && cycles > 1 ? unit.busy : unit.busy / cycles);

function unitBar(letter, unit, fill, cycles) {
  const part = (name, share) => {
    const piece = h(`i.${name}`);
    piece.style.setProperty("--part", share);
    return piece;
  };
  const pieces = stallsOf(unit).map(([cause, stalled]) => {
    const piece = part(causeClass(cause), stalled / cycles);
    piece.title = `${cause}: ${whole(stalled)} cycles`;
    return piece;
  });
  const busy = busyOf(unit, cycles);
  return [
    h("span", letter === "A" ? "A access" : "X execute"),
    h("span.bar", part(fill, busy), ...pieces),
    h("span.num", `${Math.round(busy * 100)} %`),
  ];
}

function legend(units) {
  const causes = new Set(units.flatMap((unit) => stallsOf(unit).map(([cause]) => cause)));
  const entry = (name, fill) => h("span", h(`i.${fill}`), name);
  return h(
    "div.lg",
    entry("access busy", "fill-a"),
    entry("execute busy", "fill-x"),
    ...[...causes].map((cause) => entry(cause.replaceAll("_", " "), causeClass(cause))),
  );
}
