// What the optimisation levels gain: where each one's cycles go, and what either unit could do alone (Ember Fig. 17).
// A level's figures are those of its run in this session, with the same model, data and machine.
import { h, short } from "../dom.js";
import { roundSteps, s } from "../svg.js";
/** @import { Checked, DaeResult, Levels, Unit } from "../types.d.ts" */

/** @type {Map<string, Levels>} by all that decides a run but its level */
const families = new Map();

/**
 * Keep a result with those that differ from it in nothing but the level.
 * @param {string} key
 * @param {DaeResult} result
 * @returns {Levels}
 */
export function rememberLevel(key, result) {
  const levels = families.get(key) ?? new Map();
  families.set(key, levels.set(levelOf(result), result));
  return new Map([...levels].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** @param {Checked} result */
export const levelOf = ({ options }) => (options.opt === undefined ? "dlc" : `opt${options.opt}`);

/** @param {string} key */
export const knownLevels = (key) => new Set(families.get(key)?.keys() ?? []);

/**
 * How many times fewer cycles than opt0: as the run says, or from that level's own run.
 * @param {DaeResult} result
 * @param {Levels} levels
 */
export function speedup(result, levels) {
  const said = result.speedup_over?.opt0;
  if (said) return said;
  const base = levels.get("opt0");
  return base?.cycles ? base.cycles / result.cycles : null;
}

/**
 * The speed over a core alone, from vectorised to scalar code on it: an assumed baseline.
 * @param {DaeResult} result
 */
export function coreRange({ speedup_over: over }) {
  const ratios = Object.values(over?.core_alone ?? {}).flatMap((ratio) => ratio || []);
  return ratios.length ? [...new Set(ratios.map(times))].join(" to ") : null;
}

/** @param {number} ratio */
export const times = (ratio) => `${ratio >= 100 ? Math.round(ratio) : ratio.toFixed(ratio >= 10 ? 1 : 2)}×`;

// --- where cycles go

/** @type {[word: string, css: string, shown: string][]} */
const CAUSES = [
  ["queue", "fill-queue", "queue full or empty"],
  ["memory", "fill-memory", "waits for memory"],
  ["hbm", "fill-memory", "waits for memory"],
  ["mshr", "fill-mshrs", "misses all in flight"],
  ["storage", "fill-storage", "its storage is full"],
];

/** @param {string} cause */
const kindOf = (cause) =>
  CAUSES.find(([word]) => cause.toLowerCase().includes(word)) ?? ["", "fill-rest", cause.replaceAll("_", " ")];

/** @param {Unit} unit */
const stallsOf = (unit) => Object.entries(unit.stalls).filter(([, cycles]) => cycles > 0);

/**
 * @param {Unit} unit
 * @param {number} cycles
 */
export const busyShare = (unit, cycles) => (cycles ? unit.busy / cycles : 0);

/**
 * @param {HTMLElement} parent
 * @param {DaeResult} result
 * @param {Levels} levels
 * @param {HTMLElement | null} button
 */
export function showCycles(parent, result, levels, button) {
  const mine = levelOf(result);
  const head = h(
    "tr",
    ...["level", "unit", "share of cycles", "cycles", levels.has("dlc") ? "" : "over opt0"].map((word, at) =>
      h("th", { scope: "col" }, at < 2 ? h("span.vh", word) : word),
    ),
  );
  const bodies = [...levels].map(([level, other]) => levelRows(level, other, levels, level === mine));
  const table = h("table.levels", h("caption.vh", "Share of cycles by unit and cause"), h("thead", head), ...bodies, coresAlone(result, levels));
  parent.replaceChildren(h("div.ch", h("h3", "Where cycles go"), h("span.grow"), button), table, legend([...levels.values()]));
}

/**
 * @param {string} level
 * @param {DaeResult} result
 * @param {Levels} levels
 * @param {boolean} isMine
 */
function levelRows(level, result, levels, isMine) {
  const ratio = speedup(result, levels);
  /** @param {string} text */
  const figure = (text) => h("td.num", { rowspan: "2" }, text);
  return h(
    isMine ? "tbody.me" : "tbody",
    h(
      "tr",
      h("th", { rowspan: "2", scope: "rowgroup" }, level),
      h("td.unit-letter", "A"),
      h("td", unitBar("access", result.access, "fill-a", result.cycles)),
      figure(short(result.cycles)),
      figure(ratio === null ? "" : times(ratio)),
    ),
    h("tr", h("td.unit-letter", "X"), h("td", unitBar("execute", result.execute, "fill-x", result.cycles))),
  );
}

/**
 * The same kernel with no access unit, where the run tells of it, and what that rests on.
 * @param {DaeResult} result
 * @param {Levels} levels
 */
function coresAlone(result, levels) {
  const cores = Object.entries(result.core_alone ?? {}).flatMap(([code, core]) => (core?.cycles ? [{ code, cycles: core.cycles }] : []));
  if (!cores.length) return null;
  const opt0 = levels.get("opt0");
  const rows = cores.map(({ code, cycles }) =>
    h(
      "tr",
      h("th", { scope: "row", colspan: "3" }, `core alone, ${code} code`),
      h("td.num", short(cycles)),
      h("td.num", opt0 ? times(opt0.cycles / cycles) : ""),
    ),
  );
  return h("tbody", ...rows, h("tr", h("td", { colspan: "5" }, result.basis.core_alone)));
}

/**
 * @param {string} name
 * @param {Unit} unit
 * @param {string} fill
 * @param {number} cycles
 */
function unitBar(name, unit, fill, cycles) {
  /**
   * @param {string} css
   * @param {number} share
   */
  const piece = (css, share) => {
    const element = h(`i.${css}`);
    element.style.setProperty("--part", String(share));
    return element;
  };
  const busy = busyShare(unit, cycles);
  const stalls = stallsOf(unit).map(([cause, stalled]) => ({ cause, share: stalled / cycles }));
  const words = [`busy ${percent(busy)}`, ...stalls.map(({ cause, share }) => `${cause.replaceAll("_", " ")} ${percent(share)}`)];
  const label = `${name}: ${words.join(", ")}`;
  return h(
    "span.bar",
    { role: "img", "aria-label": label, title: label },
    piece(fill, busy),
    ...stalls.map(({ cause, share }) => piece(kindOf(cause)[1], share)),
  );
}

/** @param {number} share */
export const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

/** @param {DaeResult[]} results */
function legend(results) {
  const causes = results.flatMap(({ access, execute }) => [access, execute]).flatMap(stallsOf);
  const kinds = new Map(causes.map(([cause]) => kindOf(cause)).map(([, fill, words]) => [fill, words]));
  /**
   * @param {string} fill
   * @param {string} words
   */
  const entry = (fill, words) => h("span", h(`i.${fill}`), words);
  return h(
    "div.lg",
    entry("fill-a", "access busy"),
    entry("fill-x", "execute busy"),
    ...[...kinds].map(([fill, words]) => entry(fill, words)),
  );
}

// --- access against execute

/** @param {DaeResult} result */
const throughputOf = ({ throughput }) =>
  throughput && throughput.access_alone > 0 && throughput.execute_alone > 0 ? throughput : null;

/** @typedef {{ level: string, x: number, y: number, achieved: number, isMine: boolean }} Point GB/s of either unit alone */
/** @typedef {(value: number) => number} Scale */

/** @type {{ figure: HTMLElement, points: Point[] } | null} what the plane shows: drawn again at its new width */
let drawn = null;
const resized = new ResizeObserver(() => drawn && drawPlane(drawn));

/** @param {Levels} levels */
export const hasPlane = (levels) => [...levels.values()].some(throughputOf);

/**
 * @param {HTMLElement} parent
 * @param {DaeResult} result
 * @param {Levels} levels
 */
export function showPlane(parent, result, levels) {
  const points = [...levels].flatMap(([level, other]) => {
    const found = throughputOf(other);
    return found ? [{ level, x: found.access_alone, y: found.execute_alone, achieved: found.achieved, isMine: level === levelOf(result) }] : [];
  });
  const figure = h("div.plane");
  const mine = points.find(({ isMine }) => isMine);
  const reached = mine?.achieved ? h("p.label", `${mine.level} reaches ${gbs(mine.achieved)}; ${mine.x < mine.y ? "the access unit" : "the execute unit"} bounds it.`) : null;
  parent.setAttribute("aria-label", "Access against execute");
  parent.replaceChildren(h("div.ch", h("h3", "Access against execute")), figure, ...(reached ? [reached] : []));
  drawn = { figure, points };
  resized.disconnect();
  resized.observe(parent);
}

export const forgetPlane = () => (drawn = null);

/** @param {number} value */
const gbs = (value) => `${Number(value.toPrecision(3))} GB/s`;
const HEIGHT = 244;
const MARGIN = { left: 30, right: 10, top: 20, bottom: 34 };

/** @param {{ figure: HTMLElement, points: Point[] }} shown */
function drawPlane({ figure, points }) {
  const width = Math.max(180, Math.min(420, figure.clientWidth));
  const steps = roundSteps(Math.max(...points.flatMap(({ x, y }) => [x, y])) * 1.08);
  const most = Math.max(...steps);
  /** @type {Scale} */
  const x = (value) => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * value) / most;
  /** @type {Scale} */
  const y = (value) => HEIGHT - MARGIN.bottom - ((HEIGHT - MARGIN.top - MARGIN.bottom) * value) / most;
  const label = points.map((point) => `${point.level} access ${gbs(point.x)}, execute ${gbs(point.y)}`).join("; ");
  const [left, right, top, bottom] = [x(0), x(most), y(most), y(0)];
  figure.replaceChildren(
    s(
      "svg.cv",
      { width, height: HEIGHT, role: "img", "aria-label": `Throughput of either unit alone: ${label}` },
      grid(steps, x, y, [left, right, top, bottom]),
      s("path.ref", { d: `M${left} ${bottom}L${right} ${top}` }),
      s("text", { x: left + 8, y: y(most * 0.86) }, "access-bound"),
      s("text", { x: x(most) - 6, y: y(most * 0.3), "text-anchor": "end" }, "execute-bound"),
      s("path.mel.dash", { d: points.map((point, at) => `${at ? "L" : "M"}${x(point.x)} ${y(point.y)}`).join("") }),
      points.map((point) => dot(point, x, y, right)),
      s("text", { x: 0, y: 10 }, "execute alone, GB/s"),
      s("text", { x: right, y: HEIGHT - 4, "text-anchor": "end" }, "access alone, GB/s"),
    ),
  );
}

/**
 * @param {number[]} steps
 * @param {Scale} x
 * @param {Scale} y
 * @param {[left: number, right: number, top: number, bottom: number]} box
 */
const grid = (steps, x, y, [left, right, top, bottom]) =>
  steps.flatMap((step) => [
    s(step ? "path.gr" : "path.ax", { d: `M${x(step)} ${top}V${bottom}` }),
    s(step ? "path.gr" : "path.ax", { d: `M${left} ${y(step)}H${right}` }),
    s("text", { x: x(step), y: bottom + 14, "text-anchor": "middle" }, String(step)),
    s("text", { x: left - 5, y: y(step) + 4, "text-anchor": "end" }, String(step)),
  ]);

/**
 * @param {Point} point
 * @param {Scale} x
 * @param {Scale} y
 * @param {number} right
 */
function dot({ level, x: across, y: up, isMine }, x, y, right) {
  const isNearLeft = x(across) < 80;
  const at = isNearLeft ? { x: Math.min(x(across) + 9, right), "text-anchor": "start" } : { x: x(across) - 9, "text-anchor": "end" };
  return [
    s(isMine ? "circle.me" : "circle.meh", { cx: x(across), cy: y(up), r: isMine ? 4.5 : 4 }),
    s(isMine ? "text.ma" : "text.s", { ...at, y: y(up) + 4 }, level),
  ];
}

