// Charts on canvas, redrawn at their width. Colours come from the style sheet, so both themes share one drawing.
import uPlot from "uplot";
/** @import { AlignedData, Axis, Options } from "uplot" */

const probe = document.createElement("i");

/** @param {string} name of a variable of the style sheet */
export const colour = (name) => {
  if (!probe.isConnected) document.body.append(probe);
  probe.hidden = true;
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
};
const FONT = "11px system-ui, sans-serif";
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000]; // steps between the numbers of repeats

/**
 * @param {Axis} extra
 * @returns {Axis}
 */
export const axis = (extra) => ({
  font: FONT,
  stroke: () => colour("ink-3"),
  grid: { stroke: () => colour("line"), width: 1 },
  ticks: { show: false },
  ...extra,
});

/**
 * @param {number[]} sorted
 * @param {number} share
 */
export const quantile = (sorted, share) => {
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
};

/**
 * uPlot at the width of its element, for as long as that is on the page.
 * @param {HTMLElement} element
 * @param {Omit<Options, "width">} options
 * @param {AlignedData} data
 */
export function mount(element, options, data) {
  const plot = new uPlot({ ...options, width: Math.max(60, element.clientWidth) }, data, element);
  const observer = new ResizeObserver(() => {
    if (!element.isConnected) return observer.disconnect();
    plot.setSize({ width: Math.max(60, element.clientWidth), height: options.height });
  });
  observer.observe(element);
  return plot;
}

/**
 * Milliseconds of each repeat as dots, p5 to p95 as a band, the median as a line, and a histogram at the right edge
 * on the same axis; the newest dot is amber.
 * @param {HTMLElement} element
 * @param {number} repeats
 */
export function timesChart(element, repeats) {
  /** @type {number[]} */
  let samples = [];
  const span = repeats * 1.25;
  /** @param {uPlot} u */
  const drawBelow = (u) => {
    const newest = samples.at(-1);
    if (newest === undefined) return;
    const sorted = [...samples].sort((a, b) => a - b);
    /** @param {number} value */
    const y = (value) => u.valToPos(value, "y", true);
    /** @param {number} value */
    const x = (value) => u.valToPos(value, "x", true);
    const { ctx } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    ctx.fillStyle = colour("mark-2");
    const top = y(quantile(sorted, 0.95));
    ctx.fillRect(x(0), top, x(samples.length - 1) - x(0), y(quantile(sorted, 0.05)) - top);
    drawHistogram(ctx, u, sorted, newest, x(repeats * 1.03), x(span));
    ctx.strokeStyle = colour("mark-line");
    ctx.lineWidth = devicePixelRatio;
    const median = y(quantile(sorted, 0.5));
    ctx.beginPath();
    ctx.moveTo(x(0), median);
    ctx.lineTo(x(span), median);
    ctx.stroke();
    ctx.restore();
  };
  /** @param {number} tick */
  const numbered = (tick) => (tick >= 0 && tick <= repeats ? tick : "");
  const plot = mount(
    element,
    {
      height: 158,
      cursor: { show: false },
      legend: { show: false },
      padding: [6, 4, 0, 0],
      scales: {
        x: { time: false, range: () => [-0.5, span] },
        y: { range: (_, low, high) => spread(low, high) },
      },
      axes: [
        axis({ size: 22, incrs: WHOLE, values: (_, ticks) => ticks.map(numbered) }),
        axis({ size: 48 }),
      ],
      series: [
        {},
        { paths: () => null, points: { show: true, size: 4, width: 0, fill: () => colour("ink-2") } },
        { paths: () => null, points: { show: true, size: 8, width: 0, fill: () => colour("mark-fill") } },
      ],
      hooks: { drawAxes: [drawBelow] },
    },
    [[], [], []],
  );
  return {
    /** @param {number[]} values */
    set(values) {
      samples = values;
      const last = values.length - 1;
      plot.setData([
        values.map((_, at) => at),
        values,
        values.map((value, at) => (at === last ? value : null)),
      ]);
    },
    redraw: () => plot.redraw(),
  };
}

/**
 * @param {number | null} low
 * @param {number | null} high
 * @returns {[number, number]}
 */
const spread = (low, high) => {
  if (low === null || high === null) return [0, 1];
  const margin = (high - low || high || 1) * 0.08;
  return [Math.max(0, low - margin), high + margin];
};

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {uPlot} u
 * @param {number[]} sorted
 * @param {number} newest
 * @param {number} left
 * @param {number} right
 */
function drawHistogram(ctx, u, sorted, newest, left, right) {
  const BINS = 24;
  const { min = 0, max = 1 } = u.scales.y;
  const size = (max - min) / BINS || 1;
  /** @param {number} value */
  const binOf = (value) => Math.min(BINS - 1, Math.floor((value - min) / size));
  const counts = new Array(BINS).fill(0);
  for (const value of sorted) counts[binOf(value)] += 1;
  const most = Math.max(...counts);
  counts.forEach((count, bin) => {
    if (!count) return;
    const top = u.valToPos(min + (bin + 1) * size, "y", true);
    const height = u.valToPos(min + bin * size, "y", true) - top;
    ctx.fillStyle = colour(bin === binOf(newest) ? "mark-fill" : "wait-2");
    ctx.fillRect(left, top, ((right - left) * count) / most, Math.max(1, height - 1));
  });
}
