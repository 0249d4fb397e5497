// What a run shows while it goes and when it has ended.
import { shownData } from "./data.js";
import { showLimits, showPrepared, showTraffic } from "./breakdown.js";
import { quantile, timesChart } from "./charts.js";
import { ownTimes, showBeside, simulatedSides } from "./beside.js";
import { showKernels, showRoofline } from "./device.js";
import { byId, h, icon, many, message, ms, whole } from "../dom.js";
import { busyShare, forgetPlane, hasPlane, rememberLevel, showCycles, showPlane } from "./levels.js";
import { spentTables } from "./spent.js";
import { emit, on } from "../state.js";
import { forgetTimeline, redrawTimeline, showTimeline } from "../timeline/timeline.js";
import { tuningPanel } from "../tuning/tuning.js";
/** @import { Checked, CpuResult, DaeResult, Failed, GpuResult, Queued, RanGraph, Replayed, Result, Right, Run, SimulatedRun, TimedRun, Tuning, Wrong } from "../types.d.ts" */

/** @typedef {{ draw(): void, finish(result: Right | Replayed): void }} Panel what a run is drawn into */
/** @typedef {Run & { tuning: Tuning }} TuningRun */

/** @type {{ redraw(): void }[]} those on the page now, redrawn with the theme */
let charts = [];
/** @type {Panel | null} of the running run, or the last one */
let live = null;
let frame = 0;

/** @param {Run} run */
export function showBlank(run) {
  charts = [];
  live = null;
  forgetTimeline();
  if (!run.isComparison) clearColumns();
  byId("run-check").replaceChildren(h("span"), h("span.dim", "checked when the run ends"));
  byId("run-main").replaceChildren(
    message("spin", `Run ${run.number} is on its way`, run.repeated ?? "It starts as soon as a worker is free."),
  );
}

/**
 * A worker has it, and its data and kernels are made, which its header names.
 * @param {Run} run
 */
export function showBegun(run) {
  const sentence = run.repeated ?? "What it measures is drawn here as it comes.";
  byId("run-main").replaceChildren(message("spin", `Run ${run.number} has begun`, sentence));
}

function clearColumns() {
  for (const id of ["run-detail", "run-traffic", "run-plane"]) byId(id).replaceChildren();
  byId("run-plane").hidden = true;
  byId("run-plane").classList.remove("trial");
  forgetPlane();
}

/** @param {Queued} event */
export function showQueued({ position, message: sentence }) {
  byId("run-main").replaceChildren(
    message(
      "spin",
      sentence || `Waiting, number ${position} in the queue`,
      "One run at a time, so that times can be trusted.",
    ),
  );
}

/**
 * @param {Run} run
 * @returns {run is TimedRun}
 */
export const isTimed = (run) => run.target !== "dae";

/**
 * @param {Run} run
 * @returns {run is TuningRun}
 */
const isTuning = (run) => run.tuning !== undefined;

/** @param {Run} run */
export function showStarted(run) {
  if (isTuning(run) && !run.tuning.space) return; // nothing is known of it yet
  live = makePanel(run);
}

/** @param {Run} run */
const makePanel = (run) => (isTuning(run) ? tuningPanel(run) : isTimed(run) ? timesPanel(run) : queuesPanel(run));

const FIRST = "The run that is checked, with cold caches; it is not among the repeats";

/**
 * @param {TimedRun} run
 * @returns {Panel}
 */
function timesPanel(run) {
  const figures = { median: h("span.big", "–"), spread: h("span.v", "–"), least: h("span.v", "–"), apart: h("span.v", "–") };
  const isGpu = run.target === "gpu";
  const note = h("p.unsteady", { role: "note" });
  const canvas = h("div.chart", { role: "img", "aria-label": "Milliseconds of each repeat" });
  byId("run-main").replaceChildren(
    h("div.ch", h("h3", "Time per repeat")),
    h(
      "div.stat",
      h("div", figures.median),
      h("div", h("span.label", "p5 to p95"), figures.spread),
      h("div", h("span.label", "least"), figures.least),
      h("div", { title: isGpu ? "" : FIRST }, h("span.label", isGpu ? "warm" : "first run"), figures.apart),
    ),
    note,
    h("span.label", isGpu ? "ms, cold" : "ms"),
    canvas,
  );
  const chart = timesChart(canvas, run.settings.repeat);
  charts = [chart];
  const drawBeside = hasOthers(run) ? showBeside(run) : () => {};
  return {
    draw() {
      drawBeside();
      const samples = ownTimes(run);
      if (!samples.length) return;
      const sorted = [...samples].sort((a, b) => a - b);
      figures.median.replaceChildren(ms(quantile(sorted, 0.5)), h("small", " ms median"));
      figures.spread.textContent = `${ms(quantile(sorted, 0.05))} – ${ms(quantile(sorted, 0.95))}`;
      figures.least.textContent = ms(sorted[0]);
      chart.set(samples);
    },
    finish(result) {
      this.draw();
      if (result.target === "gpu") figures.apart.textContent = ms(result.warm_ms);
      if (result.target !== "cpu") return;
      figures.apart.textContent = ms(result.first_ms);
      note.textContent = result.unsteady;
    },
  };
}

/**
 * Whether something is timed by turns with it.
 * @param {TimedRun} run
 */
const hasOthers = ({ target, order }) => target === "gpu" || !!(order.against || order.peers || order.torch_compile);

/**
 * @param {SimulatedRun} run
 * @returns {Panel}
 */
function queuesPanel(run) {
  const timeline = showTimeline(byId("run-main"), run.settings.queue);
  return {
    draw: () => timeline.set(run.samples, [], true),
    finish(result) {
      if (result.target !== "dae") return;
      const { occupancy, pushed_first: records, access, execute, cycles } = result;
      timeline.set(occupancy.length ? occupancy : run.samples, records);
      timeline.setBusy(busyShare(access, cycles), busyShare(execute, cycles));
      timeline.moveTo(records.at(-1)?.cycle ?? 0);
      timeline.openAround();
    },
  };
}

// Samples may come faster than the screen draws.
export function showSample() {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(() => live?.draw());
}

/**
 * What was measured until a run was stopped is kept.
 * @param {Run} run
 * @param {Failed} outcome
 */
export function showFailure(run, { kind, title, message: sentence, hint }) {
  /** @type {Record<string, string>} */
  const titles = {
    timeout: "Stopped: it took too long",
    memory: "Too large to run",
    cancelled: "Stopped",
    superseded: "Superseded by a newer run",
    refused: "This cannot run",
    crashed: "The run crashed",
    away: "The queue is away",
    error: "The run failed",
  };
  const sign = kind === "cancelled" || kind === "superseded" ? "info" : kind === "timeout" ? "clock" : "err";
  cancelAnimationFrame(frame);
  byId("run-check").replaceChildren(h("span"), h("span.dim", "no result to check"));
  if ((isTuning(run) ? run.tuning.trials.length : isTimed(run) && run.samples.length) && live) {
    live.draw();
    byId("run-main").prepend(h("p.unsteady", `${title ?? titles[kind]}: ${sentence}`));
    return;
  }
  byId("run-main").replaceChildren(
    message(sign, title ?? titles[kind] ?? titles.error, [sentence, hint].filter(Boolean).join(" ")),
  );
  clearColumns();
}

/**
 * @param {Run} run
 * @param {Result} result
 */
export function showResult(run, result) {
  cancelAnimationFrame(frame);
  if (result.target === "recording") return showReplayed(run, result);
  showCheck(result);
  if (!result.matches_reference) {
    byId("run-main").replaceChildren(
      message("err", "Does not match the reference", result.message || "Its time is not shown."),
    );
    clearColumns();
    return;
  }
  live ??= makePanel(run);
  live.finish(result);
  if (isTuning(run)) return;
  if (result.target === "cpu" && isTimed(run)) showOnCpu(run, result);
  else if (result.target === "gpu" && isTimed(run)) showOnGpu(run, result);
  else if (result.target === "dae" && !isTimed(run)) showSimulated(run, result);
}

/**
 * @param {Run} run
 * @param {Replayed} result
 */
function showReplayed(run, result) {
  const words = `Replayed from a recording: ${result.name}, ${result.device}. Nothing ran now.`;
  byId("run-check").replaceChildren(h("span", icon("info")), h("span", words));
  live ??= makePanel(run);
  live.finish(result);
}

/**
 * @param {TimedRun} run
 * @param {CpuResult} result
 */
function showOnCpu(run, result) {
  if (hasOthers(run)) showBeside(run, result);
  else byId("run-detail").replaceChildren();
  byId("run-detail").append(...spentTables(result));
  showLimits(result);
  showRoofline(result);
}

/**
 * @param {TimedRun} run
 * @param {GpuResult} result
 */
function showOnGpu(run, result) {
  showBeside(run, result);
  byId("run-detail").append(...spentTables(result));
  showRoofline(result);
  showKernels(result);
  showPrepared(result);
}

/**
 * @param {SimulatedRun} run
 * @param {DaeResult} result
 */
function showSimulated(run, result) {
  run.levels = rememberLevel(run.key, result);
  showCycles(byId("run-detail"), result, run.levels, compareButton());
  byId("run-detail").prepend(...simulatedSides(result));
  byId("run-detail").append(...spentTables(result));
  byId("run-plane").hidden = !hasPlane(run.levels);
  if (hasPlane(run.levels)) showPlane(byId("run-plane"), result, run.levels);
  showTraffic(result);
  emit("simulated", result);
}

const compareButton = () =>
  byId("dock").dataset.levels
    ? h("button.btn.s.line", { type: "button", "data-act": "compare-levels", title: "Run this at all levels" }, "Compare levels")
    : null;

/**
 * `D 32, from RM1:L0; K 64`: where data fixes a size, it is named.
 * @param {Checked["sizes"]} sizes
 * @param {Checked["sizes_from"]} sources
 */
export const sizesInWords = (sizes, sources) =>
  Object.entries(sizes)
    .map(([name, size]) => `${name} ${size}${["given", "the text"].includes(sources[name]) ? "" : `, from ${sources[name]}`}`)
    .join("; ");

/**
 * `12 nodes`, or of a graph between two sets `3 users, 7 items`.
 * @param {RanGraph} set
 */
function ends(set) {
  if (!set.ends) return many(set.nodes, "node");
  return Object.entries(set.ends)
    .map(([name, count]) => many(count, name, `${name.replace(/([^aeiou])y$/, "$1ie")}s`))
    .join(", ");
}

/** @param {Right | Wrong} result */
function contents({ data: set, batch }) {
  if ("edges" in set)
    return `${ends(set)}, ${many(set.edges, "edge")} of ${many(set.etypes, "type")}`;
  if ("entries" in set)
    return `${many(set.entries, "entry", "entries")} in ${many(set.lists, "list")}, of ${many(set.rows, "row")}`;
  return `${many(set.entities, "entity", "entities")}, ${many(set.relations, "relation")}; batch ${whole(batch ?? 0)}`;
}

/** @param {Right | Wrong} result */
function showCheck(result) {
  /**
   * A hyphen that no line breaks after keeps an exponent together.
   * @param {number} value
   * @param {number} digits
   */
  const power = (value, digits) => value.toExponential(digits).replace("-", "\u2011");
  const error = result.max_relative_error === null ? "not a number" : power(result.max_relative_error, 1);
  const ratio = result.error_over_bound;
  const bounded = ratio === null ? "not a number where there should be one" : `${ratio.toPrecision(2)} of what rounding may make`;
  const text = h(
    "span",
    result.matches_reference ? "Matches the float64 reference" : "Does not match the float64 reference",
    result.reference_on === "gpu" ? ", which was computed on the GPU" : "",
  );
  const sub = h(
    "span.sub",
    result.results ? `each of ${many(result.results.length, "result")}; ` : "",
    `all ${whole(result.rows_checked)} rows; largest error ${bounded}, relative error ${error}`,
  );
  const sign = h(
    result.matches_reference ? "span.good" : "span.bad",
    icon(result.matches_reference ? "check" : "err"),
  );
  const { data: set } = result;
  const held = contents(result);
  const data = `${shownData(set.name)} (${set.source}): ${held}`;
  const sizes = sizesInWords(result.sizes, result.sizes_from);
  const { rounding } = result;
  const share = rounding?.root_mean_square ?? null;
  const stored = Object.entries(rounding?.tensors ?? {}).map(([name, storage]) => `${name}: ${storage}`);
  const rounded = rounding
    ? `${stored.join(", ")}, rounded before the run: against tables of float32, the result differs ${
        share === null ? "by what is no number" : `by ${power(share, 1)} of it, in the root mean square`
      }`
    : "";
  const anew = result.repeated ? "begun anew: the worker that did it first died" : "";
  const rest = [data, sizes, rounded, anew].filter(Boolean).flatMap((line) => [h("span"), h("span.dim", line)]);
  byId("run-check").replaceChildren(sign, text, h("span"), sub, ...rest);
}

on("theme", () => {
  charts.forEach((chart) => chart.redraw());
  redrawTimeline();
});
