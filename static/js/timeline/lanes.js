// The lanes of a timeline, as plots on canvas: how full either queue was, and what either unit did, over cycles.
import uPlot from "uplot";
import { axis, colour, mount } from "../run/charts.js";
import { whole } from "../dom.js";
import { endOf } from "./view.js";
/** @import { Range } from "uplot" */
/** @import { MachineState } from "../types.d.ts" */
/** @import { View } from "./view.js" */

/**
 * @typedef {object} Lane
 * @property {number} height px
 * @property {() => Range.MinMax} range of cycles
 * @property {number} [cap] a line across, and the least that the lane reaches to
 * @property {(u: uPlot) => void} [draw] in place of a line over the samples
 * @property {boolean} [isAxis] nothing but the numbers of the cycles
 */

const DIGIT = 8; // px, at least the width of one

/**
 * Whether a tick is at a cycle whose number, centred there, ends before the axis does.
 * @param {uPlot.Scale} scale
 * @param {number} tick
 * @param {number} width px of the axis
 */
function hasRoom({ min, max }, tick, width) {
  if (!tick || !Number.isInteger(tick) || min === undefined || max === undefined) return false;
  return ((max - tick) / (max - min)) * width > (whole(tick).length * DIGIT) / 2;
}

/**
 * @param {HTMLElement} element
 * @param {Lane} lane
 */
export function plotLane(element, { height, range, cap, draw, isAxis = false }) {
  const hasLine = !draw && !isAxis;
  /** @type {uPlot.Series} */
  const area = {
    stroke: () => colour("wait"),
    fill: () => colour("wait-2"),
    fillTo: () => 0,
    width: 1,
    points: { show: false },
    paths: hasLine ? uPlot.paths.stepped?.({ align: -1 }) : () => null,
  };
  /** @type {uPlot.Axis} */
  const cycles = {
    size: 20,
    grid: { show: false },
    space: 70,
    values: ({ scales, width }, ticks) => ticks.map((tick) => (hasRoom(scales.x, tick, width) ? whole(tick) : "")),
  };
  /** @type {(u: uPlot, low: number, high: number) => Range.MinMax} */
  const upTo = (_, __, high) => [0, hasLine ? (Math.max(high ?? 0, cap ?? 0) || 1) * 1.05 : 1];
  const options = {
    height,
    cursor: { show: false },
    legend: { show: false },
    padding: /** @type {uPlot.Padding} */ ([0, 0, 0, 0]),
    scales: { x: { time: false, range }, y: { range: upTo } },
    axes: [isAxis ? axis(cycles) : { show: false }, { show: false }],
    series: [{}, area],
    hooks: { drawClear: isAxis ? [] : [background], draw: [draw ?? [], cap === undefined ? [] : capLine(cap)].flat() },
  };
  return mount(element, options, [[], []]);
}

/**
 * uPlot remembers the styles that it set: a hook must leave them as they were.
 * @param {uPlot} u
 */
function background({ ctx, bbox }) {
  ctx.save();
  ctx.fillStyle = colour("sunken");
  ctx.fillRect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.restore();
}

/**
 * @param {number} cap
 * @returns {(u: uPlot) => void}
 */
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

/** @param {CanvasRenderingContext2D} ctx */
function hatching(ctx) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  if (!pen) return colour("wait");
  pen.strokeStyle = colour("wait");
  pen.lineWidth = 1.2;
  for (const x of [-6, 0, 6]) {
    pen.moveTo(x, 6);
    pen.lineTo(x + 6, 0);
  }
  pen.stroke();
  return ctx.createPattern(tile, "repeat") ?? colour("wait");
}

/**
 * What a unit did since the sample before.
 * @param {MachineState} sample
 * @param {"access" | "execute"} unit
 */
const workOf = (sample, unit) =>
  unit === "access"
    ? { busy: sample.access_busy, memory: sample.access_stalls.memory ?? 0 }
    : { busy: sample.execute_busy, memory: sample.execute_stalls.memory ?? 0 };

/**
 * The share of each stretch that a unit worked, from below; hatched, what it waited for a queue; grey, for memory.
 * @param {View} view
 * @param {"access" | "execute"} unit
 * @returns {(u: uPlot) => void}
 */
export const unitLane = (view, unit) => (u) => {
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
    /** @type {(share: number, base: number, name: string) => void} */
    const box = (share, base, name) => {
      ctx.fillStyle = colour(name);
      const height = bbox.height * Math.min(1, share);
      ctx.fillRect(left, bbox.top + bbox.height * (1 - base) - height, width, height);
    };
    const { busy, memory } = workOf(sample, unit);
    box(busy, 0, `${unit}-f`);
    if (memory) box(memory, busy, "wait");
  }
  ctx.restore();
};
