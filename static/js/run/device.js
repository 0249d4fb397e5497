// A run on a GPU: what it is timed beside, how near it comes to what the device can do, what its kernels take.
import { byId, h, ms as plain, short, whole } from "../dom.js";
import { logSteps, s } from "../svg.js";
import { times } from "./levels.js";
import { quantile } from "./charts.js";
/** @import { GpuResult, Kernel, Peer, TimedRun, Times } from "../types.d.ts" */
/** @typedef {(value: number) => number} Scale */
/** @typedef {[name: string, ms: number]} Limit */

const OURS = "this kernel";
const FARTHEST = 1e3; // times less than the least sample: a limit beyond is not drawn
/** @param {number} value */
const tick = (value) => (value < 0.001 ? value.toExponential(0) : String(value));
/** @param {number} value */
const ms = (value) => (value < 0.001 ? value.toExponential(1) : plain(value));
/** @param {number} share */
const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
/** @param {number[]} samples */
const medianOf = (samples) => quantile([...samples].sort((a, b) => a - b), 0.5);

/** @param {TimedRun} run */
export const ownTimes = (run) => run.samples.filter(({ of }) => !of).map((sample) => sample.ms);

/**
 * Everybody's samples by name, ours first.
 * @param {TimedRun} run
 */
function timesByName(run) {
  const found = new Map([[OURS, ownTimes(run)]]);
  for (const { of, ms: time } of run.samples) if (of) found.set(of, [...(found.get(of) ?? []), time]);
  return found;
}

// --- beside it

const ROW = 22;
const NAMES = 92;
/** @type {(() => void) | null} what is redrawn at its new width */
let drawn = null;
const resized = new ResizeObserver(() => drawn?.());

/**
 * Every sample as a dot and every median as a bar, on one logarithmic axis, with both limits once they are known.
 * @param {TimedRun} run
 * @param {GpuResult} [result] of a run that has ended
 */
export function showBeside(run, result) {
  const figure = h("div.plane");
  byId("run-detail").replaceChildren(
    h("div.ch", h("h3", "Beside it"), h("span.label", "same run, same data, by turns")),
    figure,
    ...(result ? [besideTable(result), ...whyNot(result.peers)] : []),
  );
  /** @type {Limit[]} */
  const limits = result ? [["bytes", result.bytes_limit_ms], ["fp32", result.flop_limit_ms]] : [];
  drawn = () => drawBeside(figure, timesByName(run), limits);
  drawn();
  resized.disconnect();
  resized.observe(figure);
  return drawn;
}

/**
 * @param {HTMLElement} figure
 * @param {Map<string, number[]>} samples
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
      rows.map(([name, own], at) => besideRow(name, own, 6 + ROW * at, x, low)),
      near.map(([name, limit], at) => limitLine(name, x(limit), bottom, at)),
      s("text", { x: 0, y: bottom + 14 }, "ms, log scale"),
    ),
  );
}

/**
 * @param {string} name
 * @param {number[]} all
 * @param {number} top
 * @param {Scale} x
 * @param {number} low
 */
const besideRow = (name, all, top, x, low) => [
  s(name === OURS ? "text.ma" : "text.s", { x: 0, y: top + 12 }, name),
  s(name === OURS ? "rect.me" : "rect.peer", { x: x(low), y: top + 3, width: x(medianOf(all)) - x(low), height: 10 }),
  ...all.map((time) => s("circle.dot", { cx: x(time), cy: top + 8, r: 1.5 })),
];

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

/** @param {GpuResult} result */
function besideTable(result) {
  /**
   * @param {string} css
   * @param {string} name
   * @param {Times} times_
   * @param {string} ratio
   */
  const row = (css, name, times_, ratio) =>
    h(
      css,
      h("td", name),
      h("td", ms(times_.median_ms)),
      h("td", `${ms(times_.p5_ms)}–${ms(times_.p95_ms)}`),
      h("td", times_.warm_ms === null ? "" : ms(times_.warm_ms)),
      h("td", ratio),
    );
  const limit = Math.max(result.bytes_limit_ms, result.flop_limit_ms);
  const which = result.bytes_limit_ms >= result.flop_limit_ms ? "bytes" : "fp32";
  return h(
    "table.tb",
    h("thead", h("tr", ["", "median ms", "p5–p95", "warm", "ratio"].map((word) => h("th", { scope: "col" }, word)))),
    h(
      "tbody",
      row("tr.me", OURS, result, "1"),
      result.peers.flatMap((peer) => (peer.ratio === null ? [] : row("tr", peer.name, peer, times(peer.ratio)))),
      h("tr", h("td", `limit, ${which}`), h("td", ms(limit)), h("td"), h("td"), h("td", times(limit / result.median_ms))),
    ),
  );
}

/** @param {Peer[]} peers */
const whyNot = (peers) =>
  peers.length
    ? peers.filter(({ reason }) => reason).map(({ name, reason }) => h("p.label", `${name} has no time: ${reason}.`))
    : [h("p.label", "Nothing was timed beside it: it takes PyTorch for CUDA on the server, and the box in the set-up.")];

// --- roofline

const HEIGHT = 214;
const MARGIN = { left: 40, right: 12, top: 18, bottom: 30 };

/** @param {GpuResult} result */
export function showRoofline(result) {
  const figure = h("div.plane");
  const column = byId("run-plane");
  column.hidden = false;
  column.setAttribute("aria-label", "Roofline");
  column.replaceChildren(h("div.ch", h("h3", "Roofline"), h("span.label", "ceilings measured here")), figure);
  if (!result.limits.flop) return column.append(h("p.label", "This computes nothing: it only moves rows."));
  const draw = () => drawRoofline(figure, result);
  draw();
  new ResizeObserver((_, observer) => (figure.isConnected ? draw() : observer.disconnect())).observe(figure);
}

/**
 * A point at the least bytes that the run must move: it lies under the roof, as far as its time is above the limit.
 * @param {HTMLElement} figure
 * @param {GpuResult} result
 */
function drawRoofline(figure, { limits, ceilings, median_ms: median }) {
  const { bytes_per_s: bandwidth, flop_per_s: peak } = ceilings;
  const reached = (limits.flop / median) * 1e3;
  const intensity = limits.flop / limits.compulsory_bytes;
  const width = Math.max(180, Math.min(420, figure.clientWidth));
  const ridge = peak / bandwidth;
  const [left, right] = [Math.min(intensity, ridge) / 8, Math.max(intensity, ridge) * 8];
  const [low, high] = [Math.min(reached, bandwidth * left) / 2, peak * 2];
  /** @type {Scale} */
  const x = (value) => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * Math.log(value / left)) / Math.log(right / left);
  /** @type {Scale} */
  const y = (value) =>
    HEIGHT - MARGIN.bottom - ((HEIGHT - MARGIN.top - MARGIN.bottom) * Math.log(value / low)) / Math.log(high / low);
  const label = `${short(reached)}FLOP/s at ${short(intensity)} operations a byte`;
  const bottom = HEIGHT - MARGIN.bottom;
  const under = y(reached) + 18 < bottom; // else the ticks would be written over
  const beside = { x: x(intensity), y: y(reached) + (under ? 18 : -10), "text-anchor": intensity > ridge ? "end" : "start" };
  figure.replaceChildren(
    s(
      "svg.cv",
      { width, height: HEIGHT, role: "img", "aria-label": `This kernel reaches ${label}` },
      logSteps(left, right).map((step) => [
        s("path.gr", { d: `M${x(step)} ${MARGIN.top}V${bottom}` }),
        s("text", { x: x(step), y: bottom + 14, "text-anchor": "middle" }, tick(step)),
      ]),
      logSteps(low / 1e12, high / 1e12).map((step) => [
        s("path.gr", { d: `M${MARGIN.left} ${y(step * 1e12)}H${width - MARGIN.right}` }),
        s("text", { x: MARGIN.left - 5, y: y(step * 1e12) + 4, "text-anchor": "end" }, tick(step)),
      ]),
      s("path.ref", { d: `M${x(left)} ${y(bandwidth * left)}L${x(ridge)} ${y(peak)}H${x(right)}` }),
      s("text", { x: x(right), y: y(peak) - 5, "text-anchor": "end" }, `${short(peak)}FLOP/s fp32`),
      s("text", { x: x(left) + 12, y: y(bandwidth * left) + 12 }, `${short(bandwidth)}B/s copy`),
      s("circle.meh", { cx: x(intensity), cy: y(reached), r: 4.5 }),
      s("text.ma", beside, `${short(reached)}FLOP/s`),
      s("text", { x: 0, y: 10 }, "TFLOP/s"),
      s("text", { x: width - MARGIN.right, y: HEIGHT - 2, "text-anchor": "end" }, "FLOP a byte, of the least bytes"),
    ),
  );
}

// --- kernels

/** @param {GpuResult} result */
export function showKernels(result) {
  const { kernels, limit_reached: reached, launch_ms: launch, launch_note: note } = result;
  const sentences = [note].filter(Boolean).map((text) => `${text[0].toUpperCase()}${text.slice(1)}.`);
  const good = reached <= 1;
  byId("run-traffic").replaceChildren(
    h("div.ch", h("h3", "Limits"), h("span.label", good ? "" : "below the least time: a fault in the explorer")),
    table(
      ["of what is possible", percent(reached)],
      ["bytes that must move", `${short(result.limits.compulsory_bytes)}B`],
      ["they take at least", `${ms(result.bytes_limit_ms)} ms`],
      ["bytes without reuse", `${short(result.limits.stream_bytes)}B`],
      ["arithmetic", `${short(result.limits.flop)}FLOP`],
      ["it takes at least", `${ms(result.flop_limit_ms)} ms`],
      ["an empty kernel", `${ms(launch)} ms`],
      ["arrays made in the run", `${short(result.peak_bytes)}B`],
      ["inputs", `${short(result.input_bytes)}B`],
      ["form that is timed", result.form || "CuPy's own"],
      ["to compile", `${ms(result.compile_ms)} ms`],
    ),
    ...sentences.map((text) => h("p.label", text)),
    ...kernels.flatMap((kernel) => kernelTable(kernel, kernels.length)),
  );
}

/**
 * @param {Kernel} kernel
 * @param {number} count how many there are
 * @returns {HTMLElement[]}
 */
function kernelTable(kernel, count) {
  /** @type {[string, string][]} */
  const rows = [["grid", `${whole(kernel.blocks)}${kernel.columns > 1 ? ` × ${whole(kernel.columns)}` : ""} of ${kernel.threads}`]];
  if (kernel.registers !== undefined) {
    const spilled = kernel.spill_store_bytes + kernel.spill_load_bytes;
    rows.push(
      ["registers, spills", `${kernel.registers}, ${spilled ? `${whole(spilled)} B` : "0"}`],
      ["shared memory", `${whole(kernel.shared_bytes)} B`],
      ["occupancy", percent(kernel.occupancy_warps / kernel.most_warps)],
    );
  }
  const body = table(...rows);
  const title = h("h3", count === 1 ? "Kernel" : kernel.name);
  if (count <= 2) return [h("div.ch", title), body];
  return [h("details.note", h("summary.label", kernel.name), body)];
}

/** @param {[string, string][]} rows */
const table = (...rows) => h("table.tb", h("tbody", rows.map(([name, value]) => h("tr", h("td", name), h("td", value)))));
