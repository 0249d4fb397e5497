// A simulated run over its cycles: the whole of it with a window to drag, both queues, both units' lanes, and one
// cursor that the pointer and the keyboard move. A sample tells of the cycles since the one before.
import uPlot from "uplot";
import { axis, colour, mount } from "./charts.js";
import { h, icon, short, whole } from "./dom.js";
import { emit } from "./state.js";

const LEAST_SHARE = 0.01; // of the run, in the narrowest window
const PAGE = 10; // stops that PageUp and PageDown go

let shown = null; // the timeline on the page

export const stepCursor = (by) => shown?.step(by);
export const redrawTimeline = () => shown?.redraw();
export const forgetTimeline = () => (shown = null);

// The timeline of a run: `capacity` of the data queue in bytes.
export function makeTimeline(parent, capacity) {
  const view = { samples: [], records: [], from: 0, to: 1, at: 0, isWhole: true };
  const parts = build(parent, capacity, view);
  const timeline = {
    // While the run goes the cursor stays at its end.
    set(samples, records = [], isLive = false) {
      Object.assign(view, { samples, records });
      const end = endOf(view);
      if (view.isWhole) Object.assign(view, { from: 0, to: end });
      if (isLive) view.at = end;
      parts.setData();
      parts.paint();
    },
    moveTo(cycle) {
      view.at = Math.max(0, Math.min(endOf(view), cycle));
      follow(view);
      parts.paint();
      emit("cursor", view.at);
    },
    step: (by) => timeline.moveTo(nextStop(view, by)),
    setBusy: (access, execute) => parts.setBusy(access, execute),
    redraw: () => parts.redraw(),
  };
  listen(parts, view, timeline);
  shown = timeline;
  return timeline;
}

const endOf = ({ samples }) => samples.at(-1)?.cycle ?? 1;

export const sampleAt = (samples, cycle) => samples[indexAt(samples, cycle)];

function indexAt(samples, cycle) {
  const at = samples.findIndex((sample) => sample.cycle >= cycle);
  return at < 0 ? samples.length - 1 : at;
}

// Where the cursor stops: every record that is told one by one, and every sample.
function nextStop({ samples, records, at }, by) {
  const told = records.flatMap(({ cycle, popped }) => [cycle, popped ?? cycle]);
  const stops = [...new Set([...told, ...samples.map(({ cycle }) => cycle)])].sort((a, b) => a - b);
  const EPSILON = 1e-6;
  if (by > 0) return stops.filter((stop) => stop > at + EPSILON)[by - 1] ?? stops.at(-1) ?? 0;
  return stops.filter((stop) => stop < at - EPSILON).at(by) ?? stops[0] ?? 0;
}

// A window that the cursor leaves moves with it.
function follow(view) {
  const width = view.to - view.from;
  if (view.at < view.from) setWindow(view, view.at, view.at + width);
  else if (view.at > view.to) setWindow(view, view.at - width, view.at);
}

function setWindow(view, from, to) {
  const end = endOf(view);
  const width = Math.min(end, Math.max(to - from, end * LEAST_SHARE));
  const start = Math.max(0, Math.min(end - width, from));
  Object.assign(view, { from: start, to: start + width, isWhole: width >= end * 0.999 });
}

// --- what stands on the page

function build(parent, capacity, view) {
  const field = h("input.field", { type: "number", min: "0", step: "1", "aria-label": "Cycle of the cursor" });
  const tool = (name, label, key) => h("button.ib", { type: "button", "data-move": key, "aria-label": label, title: label }, icon(name));
  const head = h(
    "div.ch",
    h("h3", "Queues over time"),
    h("span.grow"),
    h(
      "span.ctl",
      tool("first", "To the start (Home)", "first"),
      tool("left", "One token back (,)", "-1"),
      field,
      tool("right", "One token on (.)", "1"),
      tool("last", "To the end (End)", "last"),
    ),
  );
  const rows = overviewAndLanes(capacity, view);
  parent.replaceChildren(head, rows.whole, rows.lanes);
  rows.mount();
  const paint = () => paintCursor({ field, rows }, view);
  return { head, field, rows, paint, ...drawing(rows, view, paint) };
}

const lane = (name, unit) => h(`div.lane${unit ? `.${unit}` : ""}`, h("span.name", ...name), h("div.chart"), h("span.now"));

function overviewAndLanes(capacity, view) {
  const whole = h("div.lane.whole", h("span.name", "whole run"), h("div.chart", h("i.brush")), h("span.now"));
  const lines = {
    queue: lane(["data queue", h("br"), "bytes"]),
    control: lane(["control", h("br"), "tokens"]),
    access: lane(["access"], "ua"),
    execute: lane(["execute"], "ux"),
    axis: lane(["cycle"]),
  };
  const slider = h("i.at", { role: "slider", tabindex: "0", "aria-label": "Cycle under the cursor", "aria-valuemin": "0", "aria-valuenow": "0" });
  const lanes = h("div.lanes", ...Object.values(lines), slider);
  const brush = whole.querySelector(".brush");
  for (const [name, value] of Object.entries({ role: "slider", tabindex: "0", "aria-label": "Window over the whole run", "aria-valuemin": "0", "aria-valuenow": "0" }))
    brush.setAttribute(name, value);
  const plots = {};
  const range = () => [view.from, view.to];
  const add = (name, row, options) => (plots[name] = plot(row.querySelector(".chart"), { range, ...options }));
  return {
    whole,
    lanes,
    lines,
    slider,
    brush,
    plots,
    capacity,
    mount() {
      add("whole", whole, { height: 24, range: () => [0, endOf(view)] });
      add("queue", lines.queue, { height: 84, cap: capacity });
      add("control", lines.control, { height: 34 });
      add("access", lines.access, { height: 16, draw: unitLane(view, "access") });
      add("execute", lines.execute, { height: 16, draw: unitLane(view, "execute") });
      add("axis", lines.axis, { height: 20, isAxis: true });
      if (capacity) lines.queue.querySelector(".now").before(h("span.cap", `${bytes(capacity)} full`));
    },
  };
}

export const bytes = (value) =>
  value >= 1024 && value % 1024 === 0 ? `${whole(value / 1024)} KB` : `${whole(value)} B`;

function drawing(rows, view, paint) {
  const { plots } = rows;
  const names = ["whole", "queue", "control", "access", "execute", "axis"];
  const key = { whole: "queue_bytes", queue: "queue_bytes", control: "control_tokens" };
  return {
    setData() {
      const { samples } = view;
      if (!samples.length) return;
      const x = [0, ...samples.map(({ cycle }) => cycle)];
      for (const name of names) {
        const values = samples.map((sample) => (key[name] ? sample[key[name]] : 0));
        plots[name].setData([x, [values[0], ...values]]);
      }
    },
    setBusy(access, execute) {
      rows.lines.access.querySelector(".now").textContent = `${Math.round(access * 100)} % busy`;
      rows.lines.execute.querySelector(".now").textContent = `${Math.round(execute * 100)} % busy`;
    },
    redraw() {
      for (const name of names) plots[name].redraw();
    },
    rescale() {
      for (const name of names.slice(1)) plots[name].setScale("x", { min: view.from, max: view.to });
      paint();
    },
  };
}

function plot(element, { height, range, cap = null, draw = null, isAxis = false }) {
  const area = {
    stroke: () => colour("wait"),
    fill: () => colour("wait-2"),
    fillTo: () => 0,
    width: 1,
    points: { show: false },
    paths: draw || isAxis ? () => null : uPlot.paths.stepped({ align: -1 }),
  };
  const options = {
    height,
    cursor: { show: false },
    legend: { show: false },
    padding: [0, 0, 0, 0],
    scales: {
      x: { time: false, range },
      y: { range: (_, __, high) => [0, draw || isAxis ? 1 : (Math.max(high ?? 0, cap ?? 0) || 1) * 1.05] },
    },
    axes: [
      isAxis
        ? axis({ size: 20, grid: { show: false }, space: 70, values: (_, ticks) => ticks.map((tick) => (tick ? whole(tick) : "")) })
        : { show: false },
      { show: false },
    ],
    series: [{}, area],
    hooks: { drawClear: isAxis ? [] : [background], draw: [draw, cap === null ? null : capLine(cap)].filter(Boolean) },
  };
  return mount(element, options, [[], []]);
}

// uPlot remembers the styles that it set: a hook must leave them as they were.
function background({ ctx, bbox }) {
  ctx.save();
  ctx.fillStyle = colour("sunken");
  ctx.fillRect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.restore();
}

const capLine = (cap) => (u) => {
  const y = u.valToPos(cap, "y", true);
  u.ctx.save();
  u.ctx.strokeStyle = colour("ink-2");
  u.ctx.setLineDash([4, 3]);
  u.ctx.beginPath();
  u.ctx.moveTo(u.bbox.left, y);
  u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
  u.ctx.stroke();
  u.ctx.restore();
};

function hatching(ctx) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = colour("wait");
  pen.lineWidth = 1.2;
  for (const x of [-6, 0, 6]) {
    pen.moveTo(x, 6);
    pen.lineTo(x + 6, 0);
  }
  pen.stroke();
  return ctx.createPattern(tile, "repeat");
}

// The share of each stretch that a unit worked, from below; hatched, what it waited for a queue; grey, for memory.
const unitLane = (view, unit) => (u) => {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  ctx.fillStyle = hatching(ctx);
  ctx.fillRect(bbox.left, bbox.top, u.valToPos(endOf(view), "x", true) - bbox.left, bbox.height);
  let begin = 0;
  for (const sample of view.samples) {
    const [left, right] = [begin, sample.cycle].map((cycle) => Math.round(u.valToPos(cycle, "x", true)));
    begin = sample.cycle;
    if (right < bbox.left || left > bbox.left + bbox.width) continue;
    const width = Math.max(right - left, 1);
    const box = (share, base, name) => {
      ctx.fillStyle = colour(name);
      const height = bbox.height * Math.min(1, share);
      ctx.fillRect(left, bbox.top + bbox.height * (1 - base) - height, width, height);
    };
    box(sample[`${unit}_busy`], 0, `${unit}-f`);
    const memory = sample[`${unit}_stalls`]?.memory ?? 0;
    if (memory) box(memory, sample[`${unit}_busy`], "wait");
  }
  ctx.restore();
};

// --- the cursor and the window

function paintCursor({ field, rows }, view) {
  const { samples, at, from, to } = view;
  const sample = sampleAt(samples, at);
  if (!sample) return;
  const chart = rows.lines.queue.querySelector(".chart");
  const share = (at - from) / (to - from || 1);
  rows.slider.style.setProperty("--x", `${chart.offsetLeft + chart.clientWidth * Math.max(0, Math.min(1, share))}px`);
  rows.slider.classList.toggle("out", share < 0 || share > 1);
  if (document.activeElement !== field) field.value = Math.round(at);
  const queue = `${whole(sample.queue_bytes)} B`;
  const tokens = `${whole(sample.control_tokens)} token${Math.round(sample.control_tokens) === 1 ? "" : "s"}`;
  rows.lines.queue.querySelector(".now").textContent = queue;
  rows.lines.control.querySelector(".now").textContent = tokens;
  const percent = (busy) => `${Math.round(busy * 100)} % busy`;
  rows.slider.setAttribute("aria-valuemax", Math.round(endOf(view)));
  rows.slider.setAttribute("aria-valuenow", Math.round(at));
  rows.slider.setAttribute(
    "aria-valuetext",
    `cycle ${whole(at)}: ${queue} in the data queue, ${tokens}, access ${percent(sample.access_busy)}, execute ${percent(sample.execute_busy)}`,
  );
  paintWindow(rows, view);
}

function paintWindow({ whole: row, brush }, view) {
  const end = endOf(view);
  brush.style.setProperty("--from", `${(100 * view.from) / end}%`);
  brush.style.setProperty("--to", `${100 - (100 * view.to) / end}%`);
  row.querySelector(".now").textContent = `${short(end)} cycles`;
  brush.setAttribute("aria-valuemax", Math.round(end));
  brush.setAttribute("aria-valuenow", Math.round(view.from));
  brush.setAttribute("aria-valuetext", `cycles ${whole(view.from)} to ${whole(view.to)} of ${whole(end)}`);
}

function listen(parts, view, timeline) {
  const { head, field, rows } = parts;
  const cycleAt = (chart, { clientX }, from, to) => {
    const box = chart.getBoundingClientRect();
    return from + ((to - from) * (clientX - box.left)) / box.width;
  };
  head.addEventListener("click", ({ target }) => {
    const move = target.closest("[data-move]")?.dataset.move;
    if (move === "first") timeline.moveTo(0);
    else if (move === "last") timeline.moveTo(endOf(view));
    else if (move) timeline.step(Number(move));
  });
  field.addEventListener("change", () => field.value !== "" && timeline.moveTo(Number(field.value)));
  rows.lanes.addEventListener("pointermove", (event) => {
    const chart = event.target.closest(".chart");
    if (chart && view.samples.length) timeline.moveTo(cycleAt(chart, event, view.from, view.to));
  });
  rows.slider.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -PAGE, PageUp: PAGE };
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Home") timeline.moveTo(0);
    else if (event.key === "End") timeline.moveTo(endOf(view));
    else if (steps[event.key]) timeline.step(steps[event.key]);
    else return;
    event.preventDefault();
  });
  listenToWindow(parts, view, cycleAt);
}

function listenToWindow({ rows, rescale }, view, cycleAt) {
  const chart = rows.whole.querySelector(".chart");
  const show = (from, to) => {
    setWindow(view, Math.min(from, to), Math.max(from, to));
    rescale();
  };
  chart.addEventListener("pointerdown", (event) => {
    if (!view.samples.length) return;
    const begin = cycleAt(chart, event, 0, endOf(view));
    const width = view.to - view.from;
    const isInside = !view.isWhole && begin >= view.from && begin <= view.to;
    const grip = begin - view.from;
    chart.setPointerCapture(event.pointerId);
    const move = (moved) => {
      const cycle = cycleAt(chart, moved, 0, endOf(view));
      if (isInside) show(cycle - grip, cycle - grip + width);
      else show(begin, cycle);
    };
    chart.addEventListener("pointermove", move);
    chart.addEventListener("pointerup", () => chart.removeEventListener("pointermove", move), { once: true });
  });
  chart.addEventListener("dblclick", () => show(0, endOf(view)));
  rows.brush.addEventListener("keydown", (event) => {
    const { from, to } = view;
    const width = to - from;
    const windows = {
      ArrowLeft: [from - width / 4, to - width / 4],
      ArrowRight: [from + width / 4, to + width / 4],
      ArrowUp: [view.at - width / 4, view.at + width / 4],
      "+": [view.at - width / 4, view.at + width / 4],
      ArrowDown: [from - width / 2, to + width / 2],
      "-": [from - width / 2, to + width / 2],
      Home: [0, width],
      End: [endOf(view) - width, endOf(view)],
      Escape: [0, endOf(view)],
    };
    if (!windows[event.key] || event.altKey || event.ctrlKey || event.metaKey) return;
    show(...windows[event.key]);
    event.preventDefault();
    event.stopPropagation();
  });
}
