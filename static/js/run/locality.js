// How near to each other the accesses to the same row are, in the data chosen for a run: Ember's Table 1 as a figure.
import { byId, h, short, whole } from "../dom.js";
import { on } from "../state.js";
import { s } from "../svg.js";
/** @import { Events, Reuse } from "../types.d.ts" */

const SIZE = { width: 208, height: 128, left: 42, right: 8, top: 8, bottom: 30 };
const NEAR = 1000; // Ember characterises inputs by the share within so many vectors

let asked = "";
/** @type {Events["data"] | { name: "", family: "" }} */
let chosen = { name: "", family: "" };

/** @param {number} share */
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

async function show() {
  const fold = byId("reuse", HTMLDetailsElement);
  fold.hidden = chosen.family !== "op" || !chosen.name;
  if (fold.hidden || !fold.open || asked === chosen.name) return;
  const name = (asked = chosen.name);
  const answer = await fetch(`/api/locality?data=${encodeURIComponent(name)}`).catch(() => null);
  if (name !== asked) return;
  const place = byId("reuse-figure");
  if (!answer?.ok) {
    asked = "";
    return place.replaceChildren(h("p.label", "The reuse distances of this data did not arrive."));
  }
  place.replaceChildren(...figure(await answer.json()));
}

/** @param {Reuse} found */
function figure(found) {
  const sentence = `${percent(found.within_1000)} of ${whole(found.accesses)} accesses have a reuse distance below ${whole(NEAR)}; ${whole(found.distinct)} different rows.`;
  return [curve(found, sentence), h("p.label", sentence)];
}

/**
 * @param {Reuse} found
 * @param {string} sentence
 */
function curve({ x: rows, share }, sentence) {
  const { width, height, left, right, top, bottom } = SIZE;
  const points = rows.map((value, at) => ({ rows: value, share: share[at] })).filter((point) => point.rows >= 1);
  const most = Math.log2(Math.max(NEAR, points.at(-1)?.rows ?? NEAR));
  /** @param {number} value */
  const x = (value) => left + ((width - left - right) * Math.log2(value)) / most;
  /** @param {number} value */
  const y = (value) => height - bottom - (height - top - bottom) * value;
  const path = points.map((point, at) => (at ? `H${x(point.rows)}V${y(point.share)}` : `M${x(point.rows)} ${y(point.share)}`)).join("");
  const ticks = [1, 10, 100, 1000, 1e4, 1e5, 1e6].filter((tick) => Math.log2(tick) <= most);
  return s(
    "svg.cv",
    { width, height, role: "img", "aria-label": `Distribution of reuse distances. ${sentence}` },
    [0, 0.5, 1].flatMap((tick) => [
      s(tick ? "path.gr" : "path.ax", { d: `M${left} ${y(tick)}H${width - right}` }),
      s("text", { x: left - 4, y: y(tick) + 4, "text-anchor": "end" }, `${100 * tick} %`),
    ]),
    ticks.map((tick) => s("text", { x: x(tick), y: height - bottom + 13, "text-anchor": "middle" }, short(tick).replace(" ", ""))),
    s("path.mel.dash", { d: `M${x(NEAR)} ${top}V${y(0)}` }),
    s("path.cdf", { d: path }),
    s("text", { x: width - right, y: height - 3, "text-anchor": "end" }, "rows in the cache"),
  );
}

export function startLocality() {
  byId("reuse").addEventListener("toggle", show);
  on("data", (data) => {
    chosen = data;
    show();
  });
}
