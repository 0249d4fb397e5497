// What the instructor says to all pages: that runs are paused, and a text to open in the place of one's own.
import { byId } from "./dom.js";
import { edited } from "./model/compile.js";
import { replaceText } from "./model/editor.js";
import { lockOptions } from "./model/settings.js";
import { say } from "./page.js";
import { on, state } from "./state.js";
/** @import { ClassNotice } from "./types.d.ts" */

const NOTHING = { options: [], stages: [] };

/** @type {ClassNotice | null} */
let notice = null;
let dismissed = 0; // the number of a text that the reader wants no more of
/** @type {Pick<typeof state, "text" | "sizes" | "defaultSizes" | "schedule" | "edited"> | null} what an opened text replaced */
let own = null;
let opened = ""; // the name of what was opened in its place

function paint() {
  const sent = notice?.sent && notice.sent.number !== dismissed ? notice.sent : null;
  byId("class-paused").hidden = !notice?.paused;
  byId("class-sent").hidden = !sent;
  byId("class-name").textContent = sent?.name ?? "";
  byId("class-shown").hidden = !own;
  byId("class-whose").textContent = opened;
  byId("class-assigned").hidden = !notice?.assignment;
  byId("class-title").textContent = notice?.assignment?.title ?? "";
  const locked = [...(notice?.locked.options ?? []), ...(notice?.locked.stages ?? [])];
  byId("class-locked").textContent = locked.length ? `locked: ${locked.join(", ")}` : "";
  const dismiss = byId("class-dismiss");
  dismiss.hidden = !sent && !own;
  dismiss.title = dismiss.ariaLabel = own ? "Keep this text, and forget mine" : "Dismiss";
  const isTold = Boolean(notice?.paused || sent || own || notice?.assignment);
  byId("class").hidden = !isTold;
  byId("screen").classList.toggle("told", isTold);
}

/** @param {string} path */
async function fetchText(path) {
  const answer = await fetch(path).catch(() => null);
  return answer?.ok ? answer.text() : null;
}

export async function openSent() {
  const sent = notice?.sent;
  if (!sent) return;
  if (await open(`/class/sent/${sent.number}`, sent.name)) dismissed = sent.number;
  paint();
}

export async function openAssignment() {
  if (notice?.assignment) await open(`/class/assignment/${notice.assignment.number}`, notice.assignment.title);
  paint();
}

/**
 * Open a text of the instructor's; what it replaces is kept.
 * @param {string} path
 * @param {string} name
 */
async function open(path, name) {
  const text = await fetchText(path);
  if (text === null) {
    say("The text did not arrive. Yours is kept.");
    return false;
  }
  const { sizes, defaultSizes, schedule } = state;
  opened = name;
  own ??= { text: state.text, sizes, defaultSizes, schedule, edited: state.edited };
  Object.assign(state, { sizes: {}, defaultSizes: {}, schedule: {}, edited: {} });
  replaceText(text);
  return true;
}

// One's own text with its sizes, as it was when the instructor's was opened.
export function backToOwn() {
  if (!own) return;
  const { text, ...settings } = own;
  own = null;
  Object.assign(state, settings);
  replaceText(text);
  paint();
}

export function dismissSent() {
  dismissed = notice?.sent?.number ?? dismissed;
  own = null;
  paint();
}

export const askForHandIn = () => byId("hand-in", HTMLDialogElement).showModal();

async function handIn() {
  if (!notice?.assignment) return say("This assignment is over; nothing was handed in.");
  const { text, sizes, defaultSizes, options, schedule, data } = state;
  const name = byId("hand-in-name", HTMLInputElement).value;
  const work = { text, sizes, default_sizes: defaultSizes, options, schedule, data };
  const answer = await fetch("/class/hand-in", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ assignment: notice.assignment.number, name, ...work }),
  }).catch(() => null);
  const said = await answer?.json().catch(() => null);
  if (answer?.ok) return sayHandedIn(said);
  say(said?.diagnostics?.[0]?.message ?? "The server did not take it. Hand in again.");
}

/** @param {{ student: string, at: string }} taken */
function sayHandedIn({ student, at }) {
  byId("class-handed").textContent = `handed in at ${new Date(at).toLocaleTimeString()}`;
  say(`Handed in as ${student}.`);
}

export function startClass() {
  const dialog = byId("hand-in", HTMLDialogElement);
  dialog.addEventListener("close", () => dialog.returnValue === "hand-in" && handIn());
  on("class", (told) => {
    if (told.assignment?.number !== notice?.assignment?.number) byId("class-handed").textContent = "";
    const others = JSON.stringify(told.locked) !== JSON.stringify(notice?.locked ?? NOTHING);
    notice = told;
    paint();
    if (!others) return;
    lockOptions(told.locked.options);
    edited(); // other stages may be shown
  });
  // What comes of a link, or was chosen before.
  on("facts", () => notice && lockOptions(notice.locked.options));
}
