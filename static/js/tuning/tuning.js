// A tuning while it goes and when it has ended: the best so far, predicted against measured, the trial that is chosen.
import { around, byId, h, many, query } from "../dom.js";
import { drawCurve, signOf } from "./curve.js";
import { came, focusDetails, rowOf, showDetails, tableOf } from "./details.js";
import { figure, makePicker, tellPicker, unitOf } from "./plot.js";
import { times } from "../run/levels.js";
import { correlation, drawScatter, predictedOf } from "./scatter.js";
/** @import { Result, Run, Space, Trial, Tuning } from "../types.d.ts" */
/** @typedef {{ number: number, x: number, y: number }[]} Places */

/** @returns {Tuning} of a run that begins */
export const freshTuning = () => ({ space: null, trials: [], best: null, picked: null, tuned: null });

/**
 * @param {Tuning} tuning
 * @param {Space | Trial} event
 */
export function noteTuning(tuning, event) {
  if (event.event === "space") return Object.assign(tuning, freshTuning(), { space: event });
  tuning.trials.push(event);
  const least = tuning.best === null ? null : tuning.trials[tuning.best].value;
  if (event.value !== null && (least === null || event.value < least)) tuning.best = tuning.trials.length - 1;
}

/**
 * `12,345 cycles` and `1.42× the usual's speed`: the best of a tuning; empty where it has none.
 * @param {Tuning | undefined} tuning
 */
export function bestOf(tuning) {
  if (!tuning?.space || tuning.best === null) return [];
  const { space, best, tuned } = tuning;
  const { least, gain } = figuresOf(tuning);
  const faster = gain ? `${times(gain)} the usual's speed${onPart(tuning)}` : "";
  const words = tuned && best === 0 ? "nothing faster was found" : faster && `${faster}${isSingle(tuning) ? " in single trials" : ""}`;
  return [`${figure(space, least)} ${unitOf(space)}`, words].filter(Boolean);
}

/** @param {Tuning} tuning */
const onPart = ({ space }) => (space?.part ? `, on ${space.part}` : "");

/**
 * Whether its best is the luckiest of trials that were measured once: a tuning that was stopped has timed none again.
 * @param {Tuning | undefined} tuning
 */
export const isSingle = (tuning) => Boolean(tuning?.space && !tuning.tuned && tuning.space.metric === "ms" && tuning.best !== null);

/** @param {Tuning | undefined} tuning */
export const leastOf = (tuning) => (tuning ? figuresOf(tuning).least : null);

/**
 * The least value and what it gains: of a tuning that has ended what it says, which may be timed anew.
 * @param {Tuning} tuning
 */
function figuresOf({ trials, best, tuned }) {
  if (tuned) return { least: tuned.best, gain: tuned.gain };
  const [usual, least] = [trials[0]?.value ?? null, best === null ? null : trials[best].value];
  return { least, gain: usual && least ? usual / least : null };
}

/**
 * Whether what is chosen was timed once more beside the usual, which times of trials are apart from.
 * @param {Tuning} tuning
 */
const isTimedAgain = ({ trials, best, tuned }) => tuned !== null && best !== null && tuned.best !== trials[best].value;

/**
 * The trial of what a tuning has chosen: where several are as good, not the least of all.
 * @param {Tuning} tuning
 */
function chosenBy({ space, trials, best, tuned }) {
  const usual = new Map(space?.genes.map((gene) => [gene.key, gene.usual]));
  const isChosen = (/** @type {Trial} */ { choices, value }) =>
    value !== null && Object.entries(choices).every(([key, own]) => own === (tuned?.choices[key] ?? usual.get(key)));
  const found = trials.findIndex(isChosen);
  return found < 0 ? best : found;
}

/**
 * How far a tuning has come, in words.
 * @param {Tuning} tuning
 */
export const progressOf = ({ space, trials }) => (space ? `trial ${trials.length} of ${Math.min(space.budget, space.points)}` : "");

/** @param {Tuning} tuning */
export const shareOf = ({ space, trials }) => (space ? trials.length / Math.min(space.budget, space.points) : 0);

// --- the drawing

/**
 * What a tuning is drawn into: as trials come, and when it has ended.
 * @param {Run & { tuning: Tuning }} run
 */
export function tuningPanel({ tuning, order }) {
  const parts = makeParts(tuning);
  /** @type {{ curve: Places, scatter: Places }} */
  const places = { curve: [], scatter: [] };
  const chosen = () => tuning.picked ?? tuning.best ?? 0;
  const draw = () => {
    const { space, trials } = tuning;
    if (!space || !trials.length) return;
    // Where all times are known, what was drawn says less than they do.
    const isRandom = order.tune?.search === "random" && space.known === "the predictions";
    places.curve = drawCurve(parts.curve, space, trials, chosen(), isRandom);
    if (space.predicted) places.scatter = drawScatter(parts.scatter, space, trials, chosen());
    tell(parts, tuning, chosen(), isRandom);
  };
  let shown = -1; // the trial whose details stand there
  const present = () => showDetails(parts.details, order, tuning, (shown = chosen()));
  const choose = (/** @type {number} */ number) => {
    tuning.picked = number;
    draw();
    present();
  };
  const open = () => focusDetails(parts.details);
  makePicker(parts.curve, () => places.curve, chosen, choose, open);
  makePicker(parts.scatter, () => places.scatter, chosen, choose, open);
  parts.table.addEventListener("toggle", () => fillTable(parts.table, tuning));
  parts.table.onclick = ({ target }) => {
    const number = around(target, "[data-trial]")?.dataset.trial;
    if (number !== undefined) choose(Number(number));
  };
  redrawWithin(parts.curve, draw);
  const drawAll = () => {
    draw();
    fillTable(parts.table, tuning);
    const isInHand = parts.details.matches(":hover, :focus-within");
    if (chosen() !== shown && tuning.trials.length && !isInHand) present();
  };
  return {
    draw: drawAll,
    redraw: draw,
    /** @param {Result} result */
    finish({ tuned }) {
      tuning.tuned = tuned ?? null;
      tuning.best = chosenBy(tuning);
      drawAll();
      present();
    },
  };
}

/** @param {Tuning} tuning */
function makeParts(tuning) {
  const picker = (/** @type {string} */ label) => h("div.plane.picker", { role: "slider", tabindex: 0, "aria-label": label });
  const source = tuning.space?.source ?? "";
  const parts = {
    best: h("span.big", "–"),
    gain: h("span.v", "–"),
    count: h("span.v", "–"),
    curve: picker(`Best so far by trial, ${source}`),
    signs: h("div.lg.signs"),
    random: h("p.label"),
    table: h("details.note", h("summary.label", "all trials as a table")),
    scatter: picker(`Predicted against ${source}`),
    agree: h("p.label"),
    details: byId("run-plane"),
  };
  tellPicker(parts.curve, 0, 0, "no trial yet");
  tellPicker(parts.scatter, 0, 0, "no trial yet");
  byId("run-main").replaceChildren(
    h("div.ch", h("h3", "Best so far"), h("span.label", source)),
    h("div.stat", h("div", parts.best), h("div", h("span.label", "of the usual's speed"), parts.gain), h("div", h("span.label", "trials"), parts.count)),
    parts.curve,
    parts.signs,
    parts.random,
    parts.table,
  );
  showPredicted(parts, tuning.space);
  parts.details.hidden = false;
  parts.details.classList.add("trial");
  parts.details.setAttribute("aria-label", "The trial that is chosen");
  parts.details.replaceChildren();
  return parts;
}

/**
 * @param {{ scatter: HTMLElement, agree: HTMLElement }} parts
 * @param {Space | null} space
 */
function showPredicted({ scatter, agree }, space) {
  if (!space) return;
  const head = h("div.ch", h("h3", space.predicted ? `Predicted against ${space.source}` : "No prediction"));
  byId("run-detail").replaceChildren(head, ...(space.predicted ? [scatter, agree] : []), h("p.label", space.by));
}

/**
 * @param {ReturnType<typeof makeParts>} parts
 * @param {Tuning} tuning
 * @param {number} chosen
 * @param {boolean} isRandom
 */
function tell(parts, tuning, chosen, isRandom) {
  const { space, trials } = tuning;
  if (!space) return;
  const { least, gain } = figuresOf(tuning);
  parts.best.replaceChildren(figure(space, least), h("small", ` ${unitOf(space)} ${isTimedAgain(tuning) ? "at the end" : "best"}`));
  parts.gain.textContent = gain ? `${times(gain)}${onPart(tuning)}${isSingle(tuning) ? " in single trials" : ""}` : "–";
  parts.count.textContent = `${trials.length} of ${Math.min(space.budget, space.points)}, of ${many(space.points, "point")}`;
  parts.signs.replaceChildren(...signsOf(trials));
  parts.random.textContent = randomInWords(space, isRandom);
  const words = trials[chosen] ? `trial ${chosen}: ${came(space, trials[chosen], trials[0])}` : "no trial yet";
  tellPicker(parts.curve, chosen, trials.length - 1, words);
  tellPicker(parts.scatter, chosen, trials.length - 1, words);
  const r = correlation(trials);
  const agreed = r === null ? "" : `; Pearson's r of their logarithms ${r.toFixed(2)}`;
  parts.agree.textContent = `${many(predictedOf(trials).length, "trial")}; on the line, both are the same${agreed}.`;
}

/**
 * What the signs of the curve mean, of those that it has.
 * @param {Trial[]} trials
 */
function signsOf(trials) {
  /** @type {[string, string, number][]} */
  const kinds = [
    ["better", "better than all before", 0],
    ["timed", "other", 0],
    ["far", "over 3 times the usual", 0],
    ["apart", "a program seen before, or tried beside the best", 0],
    ["failed", "stopped, wrong or not valid", 0],
  ];
  for (const trial of trials) for (const kind of kinds) if (kind[0] === signOf(trial, trials)) kind[2] += 1;
  return kinds.filter(([, , count]) => count).map(([sign, words, count]) => h("span", h(`i.sign.${sign}`), `${words}, ${count}`));
}

/**
 * @param {Space} space
 * @param {boolean} isRandom
 */
function randomInWords({ expected, known }, isRandom) {
  if (isRandom) return "Dashed: what random search is expected to have by then, of the values that it has drawn.";
  if (expected) return `Dashed: what random search is expected to have by then, by ${known}.`;
  return "Random search is not drawn: these trials are chosen, and say little of the other points. Tune at random to see it.";
}

/**
 * Adds what is new to the table, where it is looked at.
 * @param {HTMLDetailsElement} table
 * @param {Tuning} tuning
 */
function fillTable(table, { space, trials }) {
  if (!table.open || !space) return;
  const found = query(table, "table", HTMLTableElement) ?? table.appendChild(tableOf(space));
  const [body] = found.tBodies;
  body.append(...trials.slice(body.rows.length).map((trial) => rowOf(space, trial)));
}

/**
 * Draws again at a new width, for as long as the element is on the page.
 * @param {HTMLElement} element
 * @param {() => void} draw
 */
const redrawWithin = (element, draw) =>
  new ResizeObserver((_, observer) => (element.isConnected ? draw() : observer.disconnect())).observe(element);
