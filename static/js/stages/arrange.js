// How the panes are arranged: their widths and heights, by dragging or by keys at what separates them, and their order.
import { repaint } from "../model/compile.js";
import { around, byId, h, queryAll } from "../dom.js";
import { activate, paneElements } from "./panes.js";
import { say } from "../page.js";
import { keep, on, state } from "../state.js";

const LEAST = 128; // pixels of a pane, as the style sheet has it for its height
const STEP = 24;
const AXES = /** @type {const} */ ({
  columns: { property: "gridTemplateColumns", orientation: "vertical", less: "ArrowLeft", more: "ArrowRight" },
  rows: { property: "gridTemplateRows", orientation: "horizontal", less: "ArrowUp", more: "ArrowDown" },
});
/** @typedef {keyof typeof AXES} Axis */

const panes = () => byId("panes");
const canArrange = () => !matchMedia("(max-width: 699px)").matches;

/**
 * The widths or heights of the grid's tracks as they are drawn, in pixels.
 * @param {Axis} axis
 */
const tracks = (axis) =>
  (getComputedStyle(panes())[AXES[axis].property].match(/[\d.]+(?=px)/g) ?? []).map(Number);

/**
 * @param {Axis} axis
 * @param {number[]} sizes
 */
function setTracks(axis, sizes) {
  const whole = sizes.reduce((sum, size) => sum + size, 0);
  const least = axis === "rows" ? `${LEAST}px` : 0;
  panes().style[AXES[axis].property] = sizes.map((size) => `minmax(${least}, ${((100 * size) / whole).toFixed(2)}fr)`).join(" ");
}

// The grid as the style sheet has it, and then as the reader has left one of as many columns and rows.
function arrange() {
  if (!panes().checkVisibility()) return; // another tab of a narrow window is in their place
  for (const axis of /** @type {Axis[]} */ (Object.keys(AXES))) {
    panes().style[AXES[axis].property] = "";
    const count = tracks(axis).length;
    const kept = state.layout[`${axis}${count}`];
    if (canArrange() && kept?.length === count && count > 1) setTracks(axis, kept);
  }
  placeSplits();
}

let arranged = "";

// After an edit: where the panes stand depends on nothing else, and to look makes the browser lay all of them out.
function rearrange() {
  const shown = [...panes().children].map((pane) => (pane instanceof HTMLElement ? pane.dataset.shows : ""));
  const key = JSON.stringify([shown, state.active, state.layout, document.documentElement.dataset.projector]);
  if (key === arranged) return;
  arranged = key;
  arrange();
}

/**
 * @param {Axis} axis
 * @param {number} at the track before the separator
 * @param {number} by pixels
 */
function move(axis, at, by) {
  const sizes = tracks(axis);
  const step = Math.max(LEAST - sizes[at], Math.min(sizes[at + 1] - LEAST, by));
  if (Math.sign(step) !== Math.sign(by)) return;
  sizes[at] += step;
  sizes[at + 1] -= step;
  state.layout = { ...state.layout, [`${axis}${sizes.length}`]: sizes.map(Math.round) };
  setTracks(axis, sizes);
  placeSplits();
  keep();
}

// What separates the panes lies over the gaps: the panes themselves are swapped with every edit.
function placeSplits() {
  const box = panes();
  const old = queryAll(byId("splits"), "[role=separator]");
  /** @type {HTMLElement[]} */
  const wanted = [];
  for (const axis of /** @type {Axis[]} */ (Object.keys(AXES))) {
    const sizes = canArrange() && box.scrollHeight <= box.clientHeight + 1 ? tracks(axis) : [];
    let edge = 0;
    for (let at = 0; at + 1 < sizes.length; at += 1) {
      edge += sizes[at];
      const split = old.find(({ dataset }) => dataset.axis === axis && dataset.at === String(at)) ?? makeSplit(axis, at);
      const isColumn = axis === "columns";
      split.style.left = isColumn ? `${box.offsetLeft + edge + at - 3}px` : `${box.offsetLeft}px`;
      split.style.top = isColumn ? `${box.offsetTop}px` : `${box.offsetTop + edge + at - 3}px`;
      split.style.width = isColumn ? "7px" : `${box.clientWidth}px`;
      split.style.height = isColumn ? `${box.clientHeight}px` : "7px";
      const share = Math.round((100 * sizes[at]) / (sizes[at] + sizes[at + 1]));
      split.setAttribute("aria-valuenow", String(share));
      wanted.push(split);
    }
  }
  for (const split of old) if (!wanted.includes(split)) split.remove();
  byId("splits").append(...wanted.filter((split) => !split.isConnected));
}

/**
 * @param {Axis} axis
 * @param {number} at
 */
function makeSplit(axis, at) {
  const { orientation, less, more } = AXES[axis];
  const label = axis === "columns" ? `Width of column ${at + 1} of the panes` : `Height of row ${at + 1} of the panes`;
  const range = { "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 50 };
  const split = h("div.split", { role: "separator", tabindex: 0, "aria-orientation": orientation, "aria-label": label, "data-axis": axis, "data-at": at, ...range });
  split.addEventListener("keydown", (event) => {
    if (event.key === less) move(axis, at, -STEP);
    else if (event.key === more) move(axis, at, STEP);
    else return;
    event.preventDefault();
  });
  split.addEventListener("pointerdown", (event) => {
    split.setPointerCapture(event.pointerId);
    let last = axis === "columns" ? event.clientX : event.clientY;
    /** @param {PointerEvent} moved */
    const follow = ({ clientX, clientY }) => {
      const now = axis === "columns" ? clientX : clientY;
      move(axis, at, now - last);
      last = now;
    };
    split.addEventListener("pointermove", follow);
    split.addEventListener("pointerup", () => split.removeEventListener("pointermove", follow), { once: true });
    event.preventDefault();
  });
  split.addEventListener("dblclick", () => {
    const count = tracks(axis).length;
    state.layout = Object.fromEntries(Object.entries(state.layout).filter(([name]) => name !== `${axis}${count}`));
    arrange();
    keep();
  });
  return split;
}

/**
 * Moves a pane to another one's place; those between make room.
 * @param {number} from
 * @param {number} to
 */
function place(from, to) {
  if (from === to || to < 0 || to >= state.panes.length) return;
  const [moved] = state.panes.splice(from, 1);
  state.panes.splice(to, 0, moved);
  activate(to);
  repaint();
  say(`${moved.stage} is pane ${to + 1} of ${state.panes.length}.`);
}

/** @param {number} by places of the active pane */
export const shiftPane = (by) => place(state.active, state.active + by);

// A pane is taken by its header, where that has nothing else to press.
function startDragging() {
  panes().addEventListener("pointerdown", (event) => {
    const { target, button } = event;
    const header = around(target, ".ph");
    if (!header || button !== 0 || !canArrange() || around(target, "button, select, input, a, .seg")) return;
    const from = paneElements().findIndex((pane) => pane.contains(header));
    /** @type {HTMLElement | null} */
    let over = null;
    /** @param {PointerEvent} moved */
    const follow = ({ clientX, clientY }) => {
      over?.classList.remove("drop");
      over = around(document.elementFromPoint(clientX, clientY), ".pane");
      over?.classList.add("drop");
    };
    const end = () => {
      document.removeEventListener("pointermove", follow);
      over?.classList.remove("drop");
      if (over) place(from, paneElements().indexOf(over));
    };
    document.addEventListener("pointermove", follow);
    document.addEventListener("pointerup", end, { once: true });
    event.preventDefault();
  });
}

export function startArranging() {
  on("painted", rearrange);
  new ResizeObserver(arrange).observe(panes()); // another width may have other columns; it calls at once too
  startDragging();
}
