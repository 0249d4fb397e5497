// A run on a device: how near it comes to what that can do; and of a GPU, what its kernels take.
import { byId, h, short, whole } from "../dom.js";
import { logSteps, s } from "../svg.js";
import { ms, tick } from "./beside.js";
import { percent } from "./levels.js";
/** @import { CpuResult, GpuResult, Kernel } from "../types.d.ts" */
/** @typedef {(value: number) => number} Scale */

// --- roofline

const HEIGHT = 214;
const MARGIN = { left: 40, right: 12, top: 18, bottom: 30 };

/** @param {GpuResult | CpuResult} result */
export function showRoofline(result) {
  const figure = h("div.plane");
  const column = byId("run-plane");
  column.hidden = false;
  column.setAttribute("aria-label", "Roofline");
  column.replaceChildren(h("div.ch", h("h3", "Roofline"), h("span.label", "ceilings measured here")), figure);
  if (!result.limits.flop) return column.append(h("p.label", "This computes nothing: it only moves rows."));
  if (result.target === "cpu") column.append(h("p.label", "Repeats are warm: what stays in caches may pass the line of the copy, which is from memory."));
  const draw = () => drawRoofline(figure, result);
  draw();
  new ResizeObserver((_, observer) => (figure.isConnected ? draw() : observer.disconnect())).observe(figure);
}

/**
 * A point at the least bytes that the run must move: it lies under the roof, as far as its time is above the limit.
 * @param {HTMLElement} figure
 * @param {GpuResult | CpuResult} result
 */
function drawRoofline(figure, { limits, ceilings, median_ms: median }) {
  const { bytes_per_s: bandwidth, flop_per_s: peak } = ceilings;
  const reached = (limits.flop / median) * 1e3;
  const intensity = limits.flop / limits.compulsory_bytes;
  const width = Math.max(180, Math.min(420, figure.clientWidth));
  const [unit, word] = peak < 1e12 ? [1e9, "GFLOP/s"] : [1e12, "TFLOP/s"];
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
  const isAbove = reached > bandwidth * Math.min(intensity, ridge); // of what caches hold
  const under = !isAbove && y(reached) + 18 < bottom; // else the ticks would be written over
  const beside = { x: x(intensity), y: y(reached) + (under ? 18 : -10), "text-anchor": intensity > ridge ? "end" : "start" };
  // The slope's name goes along it, on the side where no run is.
  const degrees = (Math.atan2(y(peak) - y(bandwidth * left), x(ridge) - x(left)) * 180) / Math.PI;
  const along = `translate(${x(left)} ${y(bandwidth * left)}) rotate(${degrees})`;
  figure.replaceChildren(
    s(
      "svg.cv",
      { width, height: HEIGHT, role: "img", "aria-label": `This kernel reaches ${label}` },
      logSteps(left, right).map((step) => [
        s("path.gr", { d: `M${x(step)} ${MARGIN.top}V${bottom}` }),
        s("text", { x: x(step), y: bottom + 14, "text-anchor": "middle" }, tick(step)),
      ]),
      logSteps(low / unit, high / unit).map((step) => [
        s("path.gr", { d: `M${MARGIN.left} ${y(step * unit)}H${width - MARGIN.right}` }),
        s("text", { x: MARGIN.left - 5, y: y(step * unit) + 4, "text-anchor": "end" }, tick(step)),
      ]),
      s("path.ref", { d: `M${x(left)} ${y(bandwidth * left)}L${x(ridge)} ${y(peak)}H${x(right)}` }),
      s("text", { x: x(right), y: y(peak) - 5, "text-anchor": "end" }, `${short(peak)}FLOP/s fp32`),
      s("text", { x: 8, y: isAbove ? 13 : -4, transform: along }, `${short(bandwidth)}B/s copy`),
      s("circle.meh", { cx: x(intensity), cy: y(reached), r: 4.5 }),
      s("text.ma", beside, `${short(reached)}FLOP/s`),
      s("text", { x: 0, y: 10 }, word),
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
