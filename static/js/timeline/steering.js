// What moves the cursor and the window of a timeline: the pointer over its lanes, its buttons, its field and keys.
import { around, need } from "../dom.js";
import { endOf, setWindow } from "./view.js";
/** @import { Parts, Timeline } from "./timeline.js" */
/** @import { View } from "./view.js" */

const PAGE = 10; // stops that PageUp and PageDown go
/** @type {Record<string, number | undefined>} stops that a key goes */
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -PAGE, PageUp: PAGE };

/**
 * The cycle under the pointer, over a chart that shows some from one to another.
 * @param {Element} chart
 * @param {{ clientX: number }} pointer
 * @param {number} from
 * @param {number} to
 */
function cycleAt(chart, { clientX }, from, to) {
  const box = chart.getBoundingClientRect();
  return from + ((to - from) * (clientX - box.left)) / box.width;
}

/** @param {KeyboardEvent} event */
const isModified = ({ altKey, ctrlKey, metaKey }) => altKey || ctrlKey || metaKey;

/**
 * @param {Parts} parts
 * @param {View} view
 * @param {Timeline} timeline
 */
export function listenToCursor({ head, field, lanes, slider }, view, timeline) {
  head.addEventListener("click", ({ target }) => {
    const move = around(target, "[data-move]")?.dataset.move;
    if (move === "first") timeline.moveTo(0);
    else if (move === "last") timeline.moveTo(endOf(view));
    else if (move) timeline.step(Number(move));
  });
  field.addEventListener("change", () => field.value !== "" && timeline.moveTo(Number(field.value)));
  lanes.addEventListener("pointermove", (event) => {
    const chart = around(event.target, ".chart");
    if (chart && view.samples.length) timeline.moveTo(cycleAt(chart, event, view.from, view.to));
  });
  slider.addEventListener("keydown", (event) => {
    if (isModified(event)) return;
    const step = STEPS[event.key];
    if (event.key === "Home") timeline.moveTo(0);
    else if (event.key === "End") timeline.moveTo(endOf(view));
    else if (step) timeline.step(step);
    else return;
    event.preventDefault();
  });
}

/**
 * @param {Parts} parts
 * @param {View} view
 * @param {() => void} rescale draws what the window shows now
 */
export function listenToWindow({ whole, brush }, view, rescale) {
  const chart = need(whole, ".chart");
  /**
   * @param {number} from
   * @param {number} to
   */
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
    /** @param {PointerEvent} moved */
    const move = (moved) => {
      const cycle = cycleAt(chart, moved, 0, endOf(view));
      if (isInside) show(cycle - grip, cycle - grip + width);
      else show(begin, cycle);
    };
    chart.addEventListener("pointermove", move);
    chart.addEventListener("pointerup", () => chart.removeEventListener("pointermove", move), { once: true });
  });
  chart.addEventListener("dblclick", () => show(0, endOf(view)));
  brush.addEventListener("keydown", (event) => {
    const window = windowsFrom(view)[event.key];
    if (!window || isModified(event)) return;
    show(...window);
    event.preventDefault();
    event.stopPropagation();
  });
}

/**
 * By key the window that it leads to.
 * @param {View} view
 * @returns {Record<string, [from: number, to: number] | undefined>}
 */
function windowsFrom(view) {
  const { from, to, at } = view;
  const [width, end] = [to - from, endOf(view)];
  return {
    ArrowLeft: [from - width / 4, to - width / 4],
    ArrowRight: [from + width / 4, to + width / 4],
    ArrowUp: [at - width / 4, at + width / 4],
    "+": [at - width / 4, at + width / 4],
    ArrowDown: [from - width / 2, to + width / 2],
    "-": [from - width / 2, to + width / 2],
    Home: [0, width],
    End: [end - width, end],
    Escape: [0, end],
  };
}
