// A long text whose scroll bar is dragged: until it rests, only what is seen is laid out and painted. Left to itself a
// browser also does what stands up to one and a half windows away, and a drag goes past all of it at once.
import { byId, queryAll } from "../dom.js";

const REST = 120; // ms without a scroll
const OFTEN = 100; // ms between two that are of one drag

/**
 * @typedef {object} Drag
 * @property {HTMLElement[]} chunks
 * @property {number[]} tops where each begins, which no scrolling changes
 * @property {Set<HTMLElement>} seen
 * @property {ReturnType<typeof setTimeout>} [rest]
 *
 * @typedef {{ top: number, jumpedAt: number }} Place where a body was scrolled to, and when it last came from out of sight
 */

/** @type {WeakMap<HTMLElement, Place>} */
const places = new WeakMap();
/** @type {WeakMap<HTMLElement, Drag>} */
const drags = new WeakMap();

export function startScrolling() {
  byId("panes").addEventListener(
    "scroll",
    ({ target }) => target instanceof HTMLElement && target.matches(".body") && follow(target),
    { capture: true, passive: true },
  );
}

/** @param {HTMLElement} body */
function follow(body) {
  const [top, height, now] = [body.scrollTop, body.clientHeight, performance.now()];
  const before = places.get(body) ?? { top, jumpedAt: -Infinity };
  const jumps = Math.abs(top - before.top) > height;
  places.set(body, { top, jumpedAt: jumps ? now : before.jumpedAt });
  // One jump alone is to a line that was asked for.
  const drag = drags.get(body) ?? (jumps && now - before.jumpedAt < OFTEN ? begin(body) : null);
  if (!drag) return;
  show(drag, top, top + height);
  clearTimeout(drag.rest);
  drag.rest = setTimeout(() => end(body, drag), REST);
}

/**
 * @param {HTMLElement} body
 * @returns {Drag}
 */
function begin(body) {
  body.classList.add("dragged");
  const chunks = queryAll(body, ".chunk");
  const above = body.getBoundingClientRect().top - body.scrollTop;
  /** @type {Drag} */
  const drag = { chunks, tops: chunks.map((chunk) => chunk.getBoundingClientRect().top - above), seen: new Set() };
  drags.set(body, drag);
  return drag;
}

/**
 * @param {Drag} drag
 * @param {number} top
 * @param {number} bottom
 */
function show(drag, top, bottom) {
  const { chunks, tops, seen } = drag;
  drag.seen = new Set(chunks.filter((_, at) => tops[at] < bottom && (tops[at + 1] ?? Infinity) > top));
  for (const chunk of seen) if (!drag.seen.has(chunk)) chunk.style.contentVisibility = "";
  for (const chunk of drag.seen) chunk.style.contentVisibility = "visible";
}

/**
 * @param {HTMLElement} body
 * @param {Drag} drag
 */
function end(body, drag) {
  drags.delete(body);
  body.classList.remove("dragged");
  for (const chunk of drag.seen) chunk.style.contentVisibility = "";
}
