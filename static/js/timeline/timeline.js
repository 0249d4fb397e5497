// A simulated run over its cycles: the whole of it with a window to drag, both queues, both units' lanes, and one
// cursor that the pointer and the keyboard move.
import { h, icon, need, short, whole } from "../dom.js";
import { plotLane, unitLane } from "./lanes.js";
import { emit } from "../state.js";
import { listenToCursor, listenToWindow } from "./steering.js";
import { endOf, follow, freshView, nextStop, sampleAtCursor, setWindow } from "./view.js";
/** @import { MachineState, QueueRecord } from "../types.d.ts" */
/** @import { View } from "./view.js" */

/**
 * @typedef {ReturnType<typeof makeTimeline>} Timeline
 * @typedef {ReturnType<typeof makeParts>} Parts its elements
 * @typedef {ReturnType<typeof makePlots>} Plots
 */

/** @type {Timeline | null} on the page */
let shown = null;

/** @param {number} by stops */
export const stepCursor = (by) => shown?.step(by);
export const redrawTimeline = () => shown?.redraw();
export const forgetTimeline = () => (shown = null);

/**
 * The timeline of a run.
 * @param {HTMLElement} parent
 * @param {number} capacity of the data queue in bytes
 */
export function showTimeline(parent, capacity) {
  const view = freshView();
  const parts = makeParts();
  parent.replaceChildren(parts.head, parts.whole, parts.lanes);
  const plots = makePlots(parts, view, capacity);
  const timeline = makeTimeline(parts, plots, view);
  listenToCursor(parts, view, timeline);
  listenToWindow(parts, view, () => showWindow(parts, plots, view));
  new ResizeObserver(() => paint(parts, view)).observe(parts.lanes);
  shown = timeline;
  return timeline;
}

/**
 * @param {Parts} parts
 * @param {Plots} plots
 * @param {View} view
 */
function makeTimeline(parts, plots, view) {
  /** @param {number} cycle */
  const moveTo = (cycle) => {
    view.at = Math.max(0, Math.min(endOf(view), cycle));
    follow(view);
    paint(parts, view);
    emit("cursor", view.at);
  };
  return {
    moveTo,
    /** The window over the whole run becomes one over what is told one by one, and as much again, at the cursor. */
    openAround() {
      if (!view.isWhole || !view.records.length) return;
      const width = 2 * (view.records[view.records.length - 1].popped - view.records[0].cycle);
      if (width >= endOf(view)) return;
      setWindow(view, view.at - width / 2, view.at + width / 2);
      showWindow(parts, plots, view);
    },
    /** @param {number} by stops */
    step: (by) => moveTo(nextStop(view, by)),
    /**
     * While the run goes the cursor stays at its end.
     * @param {MachineState[]} samples
     * @param {QueueRecord[]} records
     */
    set(samples, records, isLive = false) {
      Object.assign(view, { samples, records });
      const end = endOf(view);
      if (view.isWhole) Object.assign(view, { from: 0, to: end });
      if (isLive) view.at = end;
      setData(plots, samples);
      paint(parts, view);
    },
    /**
     * @param {number} access the share of all cycles that the unit worked
     * @param {number} execute
     */
    setBusy(access, execute) {
      tell(parts.lines.access, `${percent(access)} busy`);
      tell(parts.lines.execute, `${percent(execute)} busy`);
    },
    redraw() {
      for (const { plot } of plots) plot.redraw();
    },
  };
}

/**
 * @param {Parts} parts
 * @param {Plots} plots
 * @param {View} view
 */
function showWindow(parts, plots, view) {
  for (const { plot } of plots.filter(({ isWindow }) => isWindow)) plot.setScale("x", { min: view.from, max: view.to });
  paint(parts, view);
}

/** @param {number} share */
const percent = (share) => `${Math.round(share * 100)} %`;

// --- its elements

function makeParts() {
  const field = h("input.field", { type: "number", min: "0", step: "1", "aria-label": "Cycle of the cursor" });
  const lines = {
    queue: lane(["data queue", h("br"), "bytes"]),
    control: lane(["control", h("br"), "tokens"]),
    access: lane(["access"], ".ua"),
    execute: lane(["execute"], ".ux"),
    axis: lane(["cycle"]),
  };
  const slider = handle("i.at", "Cycle under the cursor");
  const brush = handle("i.brush", "Window over the whole run");
  return {
    head: h("div.ch", h("h3", "Queues over time"), h("span.grow"), h("span.ctl", ...tools(field))),
    field,
    whole: h("div.lane.whole", h("span.name", "whole run"), h("div.chart", brush), h("span.now")),
    lines,
    lanes: h("div.lanes", ...Object.values(lines), slider),
    slider,
    brush,
  };
}

/** @param {HTMLInputElement} field */
function tools(field) {
  /** @type {(name: string, label: string, move: string) => HTMLElement} */
  const tool = (name, label, move) =>
    h("button.ib", { type: "button", "data-move": move, "aria-label": label, title: label }, icon(name));
  return [
    tool("first", "To the start (Home)", "first"),
    tool("left", "One token back (,)", "-1"),
    field,
    tool("right", "One token on (.)", "1"),
    tool("last", "To the end (End)", "last"),
  ];
}

/**
 * @param {(string | Node)[]} name
 * @param {string} unit a class
 */
const lane = (name, unit = "") => h(`div.lane${unit}`, h("span.name", ...name), h("div.chart"), h("span.now"));

/**
 * @param {string} kind
 * @param {string} label
 */
const handle = (kind, label) =>
  h(kind, { role: "slider", tabindex: "0", "aria-label": label, "aria-valuemin": "0", "aria-valuenow": "0" });

// --- its plots

/**
 * Mounts them in their elements, which must be on the page.
 * @param {Parts} parts
 * @param {View} view
 * @param {number} capacity
 */
function makePlots({ whole: all, lines }, view, capacity) {
  if (capacity) need(lines.queue, ".now").before(h("span.cap", `${bytes(capacity)} full`));
  /** @type {() => [number, number]} */
  const range = () => [view.from, view.to];
  /** @type {() => [number, number]} */
  const wholeRange = () => [0, endOf(view)];
  /** @param {HTMLElement} row */
  const chart = (row) => need(row, ".chart");
  const none = () => 0;
  const inQueue = (/** @type {MachineState} */ sample) => sample.queue_bytes;
  const inControl = (/** @type {MachineState} */ sample) => sample.control_tokens;
  return [
    { plot: plotLane(chart(all), { height: 24, range: wholeRange }), valueOf: inQueue, isWindow: false },
    { plot: plotLane(chart(lines.queue), { height: 84, range, cap: capacity }), valueOf: inQueue, isWindow: true },
    { plot: plotLane(chart(lines.control), { height: 34, range }), valueOf: inControl, isWindow: true },
    ...(/** @type {const} */ (["access", "execute"])).map((unit) => ({
      plot: plotLane(chart(lines[unit]), { height: 16, range, draw: unitLane(view, unit) }),
      valueOf: none,
      isWindow: true,
    })),
    { plot: plotLane(chart(lines.axis), { height: 20, range, isAxis: true }), valueOf: none, isWindow: true },
  ];
}

/** @param {number} value */
const bytes = (value) => (value >= 1024 && value % 1024 === 0 ? `${whole(value / 1024)} KB` : `${whole(value)} B`);

/**
 * @param {Plots} plots
 * @param {MachineState[]} samples
 */
function setData(plots, samples) {
  if (!samples.length) return;
  const cycles = [0, ...samples.map(({ cycle }) => cycle)];
  for (const { plot, valueOf } of plots) {
    const values = samples.map(valueOf);
    plot.setData([cycles, [values[0], ...values]]);
  }
}

// --- the cursor and the window

/**
 * @param {HTMLElement} row
 * @param {string} words
 */
function tell(row, words) {
  need(row, ".now").textContent = words;
}

/**
 * @param {Parts} parts
 * @param {View} view
 */
function paint(parts, view) {
  const sample = sampleAtCursor(view);
  if (!sample) return;
  const { field, lines } = parts;
  const { at } = view;
  if (document.activeElement !== field) field.value = String(Math.round(at));
  const queue = `${whole(sample.queue_bytes)} B`;
  const tokens = `${whole(sample.control_tokens)} token${Math.round(sample.control_tokens) === 1 ? "" : "s"}`;
  tell(lines.queue, queue);
  tell(lines.control, tokens);
  const units = `access ${percent(sample.access_busy)} busy, execute ${percent(sample.execute_busy)} busy`;
  paintCursor(parts, view, `cycle ${whole(at)}: ${queue} in the data queue, ${tokens}, ${units}`);
  paintWindow(parts, view);
}

/**
 * @param {Parts} parts
 * @param {View} view
 * @param {string} words what stands under it
 */
function paintCursor({ slider, lines }, view, words) {
  const chart = need(lines.queue, ".chart");
  const share = (view.at - view.from) / (view.to - view.from || 1);
  const left = chart.offsetLeft + chart.clientWidth * Math.max(0, Math.min(1, share));
  slider.style.setProperty("--x", `${left}px`);
  slider.classList.toggle("out", share < 0 || share > 1);
  slider.setAttribute("aria-valuemax", String(Math.round(endOf(view))));
  slider.setAttribute("aria-valuenow", String(Math.round(view.at)));
  slider.setAttribute("aria-valuetext", words);
}

/**
 * @param {Parts} parts
 * @param {View} view
 */
function paintWindow({ whole: row, brush }, view) {
  const end = endOf(view);
  brush.style.setProperty("--from", `${(100 * view.from) / end}%`);
  brush.style.setProperty("--to", `${100 - (100 * view.to) / end}%`);
  tell(row, `${short(end)} cycles`);
  brush.setAttribute("aria-valuemax", String(Math.round(end)));
  brush.setAttribute("aria-valuenow", String(Math.round(view.from)));
  brush.setAttribute("aria-valuetext", `cycles ${whole(view.from)} to ${whole(view.to)} of ${whole(end)}`);
}
