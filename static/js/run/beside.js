// What a run is timed beside, by turns: side A of a comparison, PyTorch; and the least that the device allows.
import { byId, h, ms as plain } from "../dom.js";
import { logSteps, s } from "../svg.js";
import { quantile } from "./charts.js";
import { times } from "./levels.js";
/** @import { Against, CpuResult, GpuResult, Peer, Ratio, Result, Run, TimedRun, Times } from "../types.d.ts" */
/** @typedef {(value: number) => number} Scale */
/** @typedef {[name: string, ms: number]} Limit */

const FARTHEST = 1e3; // times less than the least sample: a limit beyond is not drawn
/** @param {number} value */
export const tick = (value) => (value < 0.001 ? value.toExponential(0) : String(value));
/** @param {number} value */
export const ms = (value) => (value < 0.001 ? value.toExponential(1) : plain(value));
/** @param {number[]} samples */
const medianOf = (samples) => quantile([...samples].sort((a, b) => a - b), 0.5);
/** @param {number} ratio */
const exact = (ratio) => `${Number(ratio.toPrecision(3))}×`;

/** @param {TimedRun} run */
export const ownTimes = (run) => run.samples.filter(({ of }) => !of).map((sample) => sample.ms);

/** @param {Run} run */
const nameOfOurs = ({ order, target }) => (order.against ? "B" : target === "gpu" ? "this kernel" : "this program");

/**
 * Everybody's samples by name, ours first.
 * @param {TimedRun} run
 */
function timesByName(run) {
  const found = new Map([[nameOfOurs(run), ownTimes(run)]]);
  for (const { of, ms: time } of run.samples) if (of) found.set(of, [...(found.get(of) ?? []), time]);
  return found;
}

// --- the ratio in words

/**
 * How many times as long B takes as A, and how sure that is.
 * @param {Ratio} ratio
 * @param {string} unit what is counted
 */
export function ratioInWords({ ratio, low, high, level, pairs }, unit) {
  if (low === undefined || high === undefined) return `B takes ${exact(ratio)} the ${unit} of A`;
  const interval = `${Math.round(100 * (level ?? 0))} % interval ${exact(low)} to ${exact(high)}`;
  const how = `bootstrap over ${pairs} pairs, taken by turns`;
  if (low <= 1 && high >= 1) return `No difference that these repeats can tell; ${exact(ratio)}, ${interval}, ${how}`;
  return `B takes ${exact(ratio)} the ${unit} of A; ${interval}, ${how}`;
}

/** @param {Result} result */
export const unitOf = ({ target }) => (target === "dae" ? "cycles" : "time");

/**
 * The verdict of a comparison, and where side A has no figures, why.
 * @param {Result} result
 */
export function verdict(result) {
  const { against, source } = result;
  if (!against) return [];
  if (!against.of_a) return [h("p.bad", `Side A has no figures: ${against.reason}`)];
  const rest = result.target === "dae" ? `${source}: the same on every run, so it has no spread` : source;
  const [first, ...more] = ratioInWords(against.of_a, unitOf(result)).split("; ");
  return [h("p.verdict", h("b", first), `; ${[...more, rest].join("; ")}.`)];
}

// --- the drawing

const ROW = 22;
const NAMES = 92;
/** @type {(() => void) | null} what is redrawn at its new width */
let drawn = null;
const resized = new ResizeObserver(() => drawn?.());

/**
 * Every sample as a dot and every median as a bar, on one logarithmic axis, with both limits once they are known.
 * @param {TimedRun} run
 * @param {GpuResult | CpuResult} [result] of a run that has ended
 */
export function showBeside(run, result) {
  const figure = h("div.plane");
  byId("run-detail").replaceChildren(
    h("div.ch", h("h3", run.order.against ? "A against B" : "Beside it"), h("span.label", "same run, same data, by turns")),
    ...(result ? verdict(result) : []),
    figure,
    ...(result ? [besideTable(run, result), ...notes(result)] : []),
  );
  /** @type {Limit[]} */
  const limits = result?.target === "gpu" ? [["bytes", result.bytes_limit_ms], ["fp32", result.flop_limit_ms]] : [];
  drawn = () => drawBeside(figure, timesByName(run), limits);
  drawn();
  resized.disconnect();
  resized.observe(figure);
  return drawn;
}

/**
 * @param {HTMLElement} figure
 * @param {Map<string, number[]>} samples ours first
 * @param {Limit[]} limits
 */
function drawBeside(figure, samples, limits) {
  const rows = [...samples].filter(([, all]) => all.length);
  if (!rows.length) return;
  const all = rows.flatMap(([, times_]) => times_);
  const near = limits.filter(([, limit]) => limit > Math.min(...all) / FARTHEST).sort(([, a], [, b]) => a - b);
  const shown = [...all, ...near.map(([, limit]) => limit)];
  const width = Math.max(180, Math.min(460, figure.clientWidth));
  const [low, high] = [Math.min(...shown) / 1.3, Math.max(...shown) * 1.3];
  /** @type {Scale} */
  const x = (time) => NAMES + ((width - NAMES - 12) * Math.log(time / low)) / Math.log(high / low);
  const bottom = 6 + ROW * rows.length;
  const label = rows.map(([name, own]) => `${name} ${ms(medianOf(own))} ms`).join(", ");
  figure.replaceChildren(
    s(
      "svg.cv",
      { width, height: bottom + 32, role: "img", "aria-label": `Median times: ${label}` },
      logSteps(low, high).map((step) => [
        s("path.gr", { d: `M${x(step)} 0V${bottom}` }),
        s("text", { x: x(step), y: bottom + 14, "text-anchor": "middle" }, tick(step)),
      ]),
      rows.map(([name, own], at) => besideRow(name, own, at, x, low)),
      near.map(([name, limit], at) => limitLine(name, x(limit), bottom, at)),
      s("text", { x: 0, y: bottom + 14 }, "ms, log scale"),
    ),
  );
}

/**
 * @param {string} name
 * @param {number[]} all
 * @param {number} at the number of the row; ours is the first
 * @param {Scale} x
 * @param {number} low
 */
function besideRow(name, all, at, x, low) {
  const top = 6 + ROW * at;
  return [
    s(at ? "text.s" : "text.ma", { x: 0, y: top + 12 }, name),
    s(at ? "rect.peer" : "rect.me", { x: x(low), y: top + 3, width: x(medianOf(all)) - x(low), height: 10 }),
    ...all.map((time) => s("circle.dot", { cx: x(time), cy: top + 8, r: 1.5 })),
  ];
}

/**
 * @param {string} name
 * @param {number} at
 * @param {number} bottom
 * @param {number} place
 */
const limitLine = (name, at, bottom, place) => [
  s("path.ref.dash", { d: `M${at} 0V${bottom + 18}` }),
  s("text", { x: at + (place ? 3 : -3), y: bottom + 28, "text-anchor": place ? "start" : "end" }, name),
];

// --- the table

/**
 * @param {string} css
 * @param {string} name
 * @param {Partial<Times>} times_
 * @param {string} ratio of ours
 */
const row = (css, name, { median_ms: median, p5_ms: p5, p95_ms: p95, warm_ms: warm }, ratio) =>
  h(
    css,
    h("td", name),
    h("td", median === undefined ? "" : ms(median)),
    h("td", p5 === undefined || p95 === undefined ? "" : `${ms(p5)}–${ms(p95)}`),
    h("td", warm ? ms(warm) : ""),
    h("td", ratio),
  );

/**
 * @param {TimedRun} run
 * @param {GpuResult | CpuResult} result
 */
function besideTable(run, result) {
  const { against, peers = [] } = result;
  const words = ["", "median ms", "p5–p95", result.target === "gpu" ? "warm" : "", "ratio"];
  return h(
    "table.tb",
    h("thead", h("tr", words.map((word) => h("th", { scope: "col" }, word)))),
    h(
      "tbody",
      row("tr.me", nameOfOurs(run), result, "1"),
      against?.of_a ? row("tr", "A", against, times(1 / against.of_a.ratio)) : null,
      peers.flatMap((peer) => (peer.ratio === null ? [] : row("tr", peer.name, peer, times(peer.ratio)))),
      result.target === "gpu" ? limitRow(result) : null,
    ),
  );
}

/** @param {GpuResult} result */
function limitRow(result) {
  const limit = Math.max(result.bytes_limit_ms, result.flop_limit_ms);
  const which = result.bytes_limit_ms >= result.flop_limit_ms ? "bytes" : "fp32";
  return h("tr", h("td", `limit, ${which}`), h("td", ms(limit)), h("td"), h("td"), h("td", times(limit / result.median_ms)));
}

/** @param {GpuResult | CpuResult} result */
function notes({ target, peers = [], against }) {
  /** @type {(peer: Peer) => HTMLElement[]} */
  const compiled = ({ name, compile_ms: compile }) =>
    compile === null ? [] : [h("p.label", `${name} took ${(compile / 1e3).toFixed(1)} s to compile, which is not in its times.`)];
  /** @type {(peer: Peer) => HTMLElement} */
  const reason = (peer) => h("p.label", `${peer.name} has no time: ${peer.reason}.`);
  if (peers.length || against || target === "cpu") return peers.flatMap((peer) => (peer.reason ? [reason(peer)] : compiled(peer)));
  return [h("p.label", "Nothing was timed beside it: it takes PyTorch for CUDA on the server, and the box in the set-up.")];
}

/**
 * Of a comparison on the simulated machine: the cycles of both sides, and what they say.
 * @param {Result} result
 */
export function simulatedSides(result) {
  if (!result.against || result.target !== "dae" || !result.matches_reference) return [];
  const { against, cycles } = result;
  /** @type {(name: string, value: number, most: number, css: string) => HTMLElement} */
  const bar = (name, value, most, css) => {
    const piece = h(`i.${css}`);
    piece.style.setProperty("--part", String(value / most));
    return h("tr", h("td", name), h("td", h("span.bar", piece)), h("td.num", Math.round(value).toLocaleString("en")));
  };
  const most = Math.max(cycles, against.cycles ?? 0);
  const rows = [against.cycles ? bar("A", against.cycles, most, "fill-memory") : null, bar("B", cycles, most, "fill-a")];
  return [
    h("div.ch", h("h3", "A against B"), h("span.label", "cycles, same data")),
    ...verdict(result),
    h("table.levels.sides-bars", h("tbody", rows)),
  ];
}
