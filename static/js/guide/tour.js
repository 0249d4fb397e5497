// The line that says what the page is, and the tour that takes its place: nine stops, each an example with its panes.
import { byId } from "../dom.js";
import { say } from "../page.js";
import { fetchExample, isOwnText, isWork } from "../model/naming.js";
import { freshPane, on, state } from "../state.js";
/** @import { Kept, Stop } from "../types.d.ts" */

const KEPT = "tour";
/** @type {Stop[]} */
let stops = [];
let at = 0;
let wanted = 0; // the stop that was asked for last, whose example may not be here yet
/** @type {Kept | null} the reader's own text, where the tour took its place */
let before = null;
/** @type {(kept: Kept) => void} */
let adopt = () => {};

const isTouring = () => !byId("tour").hidden;

/** Whether the stop's example has made way for another text, of which its sentence says nothing. */
const isAway = () => isOwnText() || state.example !== stops[at].example;

function remember() {
  try {
    sessionStorage.setItem(KEPT, isTouring() ? JSON.stringify({ at, before }) : "");
  } catch {
    // The tour then begins anew after a reload.
  }
}

/** @returns {Kept} */
const own = () => ({
  text: state.text,
  sizes: state.sizes,
  defaultSizes: state.defaultSizes,
  options: state.options,
  schedule: state.schedule,
  edited: state.edited,
  data: state.data,
  panes: state.panes,
  against: state.against,
  story: state.story,
  example: state.example,
  layout: state.layout,
  heat: state.heat,
});

export async function startStops() {
  const examples = byId("examples");
  if (examples.matches(":popover-open")) examples.hidePopover();
  await show(0);
}

/** @param {number} by */
export const step = (by) => show(isAway() ? at : wanted + by);

async function fetchStops() {
  const answer = stops.length ? null : await fetch("/guide/tour").catch(() => null);
  if (answer?.ok) stops = await answer.json();
  return stops.length > 0;
}

/** @param {number} number */
async function show(number) {
  if (number < 0) return;
  wanted = number;
  if (!(await fetchStops())) {
    wanted = at;
    return say("The tour did not arrive. Try again.");
  }
  if (number >= stops.length) return leave();
  const stop = stops[number];
  const text = await fetchExample(stop.example);
  if (number !== wanted) return; // another has been asked for since
  if (text === null) {
    wanted = at;
    return say("The example did not arrive. Try again.");
  }
  if (isWork() && (!isTouring() || isAway())) before = own();
  at = number;
  paint();
  const panes = stop.panes.map((pane) => ({ ...freshPane(pane.stage), at: pane.at, diff: pane.diff }));
  const settings = { sizes: {}, defaultSizes: {}, schedule: {}, edited: {}, data: "", against: null, story: null };
  adopt({ ...settings, layout: state.layout, heat: state.heat, text, options: { ...stop.options }, panes, example: stop.example });
}

function paint() {
  byId("guide").hidden = false;
  byId("about").hidden = true;
  byId("tour").hidden = false;
  byId("tour-at").textContent = `${at + 1} of ${stops.length}`;
  byId("tour-back").hidden = before === null;
  byId("tour-before", HTMLButtonElement).disabled = at === 0;
  paintStop();
  remember();
}

// What the stop says, or that it waits for the reader.
function paintStop() {
  const away = isAway();
  const next = at === stops.length - 1 ? "End" : "Next";
  const look = away ? "The tour waits here while you look at another text." : stops[at].look;
  if (byId("tour-look").textContent !== look) byId("tour-look").textContent = look; // else it is read out again
  byId("tour-before").hidden = away;
  byId("tour-next").textContent = away ? "Back to the tour" : next;
}

const follow = () => isTouring() && paintStop();

/** What the reader had written comes back, unless the example in its place has been worked on or made way. */
export function leave() {
  return before && isTouring() && !isAway() && !isWork() ? backToText() : close();
}

export function backToText() {
  if (before) adopt(before);
  before = null;
  close();
}

/** The line stays closed, on the next page too. */
function close() {
  byId("guide").hidden = true;
  byId("tour").hidden = true;
  remember();
  document.cookie = "about=seen; path=/; max-age=31536000; samesite=lax";
}

// An empty editor offers somewhere to begin.
const offer = () => (byId("offer").hidden = state.text.trim() !== "");

/** @param {(kept: Kept) => void} put what puts a text with its settings and panes in place of what the page shows */
export async function startTour(put) {
  adopt = put;
  on("edited", offer);
  on("edited", follow);
  on("named", follow);
  offer();
  const kept = sessionStorage.getItem(KEPT);
  if (!kept || !(await fetchStops())) return;
  ({ at = 0, before = null } = JSON.parse(kept));
  if (!stops[at]) at = 0;
  wanted = at;
  paint();
}
