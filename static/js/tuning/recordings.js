// Where there is no GPU to tune on: the recorded spaces that are of the model in hand, asked for once the reader sees
// where one is chosen.
import { h, many } from "../dom.js";
import { isCurrent, on, state } from "../state.js";

const PAUSE = 500;
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;
/** @type {AbortController | null} */
let asked = null;
let isSeen = false;
let askedOf = ""; // the text that the list is of
/** @type {string[]} */
let fitting = [];
let chosen = ""; // also before the list has come that has it

/** None where there is a GPU. @returns {HTMLSelectElement | null} */
const list = () => document.querySelector("#tune-recording");

export const chosenRecording = () => chosen;

/** @param {string} name "" for the target itself */
export function chooseRecording(name) {
  chosen = name;
  paint();
}

/** Those that there are to choose from; what was chosen before the list has come stays in it. */
function paint() {
  const field = list();
  if (!field) return;
  const names = chosen && !fitting.includes(chosen) ? [...fitting, chosen] : fitting;
  field.replaceChildren(h("option", { value: "" }, "the target"), ...names.map((name) => h("option", { value: name }, `a recording: ${name}`)));
  field.value = chosen;
}

/** @param {string} words */
function tell(words) {
  const told = document.querySelector("#recordings-told");
  if (told) told.textContent = words;
}

function later() {
  clearTimeout(timer);
  asked?.abort();
  if (isSeen) timer = setTimeout(ask, PAUSE);
}

async function ask() {
  const text = state.goodInput?.text;
  if (text === undefined || !isCurrent() || text === askedOf) return;
  const body = new FormData();
  body.set("text", text);
  body.set("edit", String(state.edit));
  asked = new AbortController();
  /** @type {{ recordings: string[] | null } | null} */
  const answer = await fetch("/recordings", { method: "POST", body, signal: asked.signal })
    .then((response) => (response.ok ? response.json() : null))
    .catch(() => null);
  const recordings = answer?.recordings;
  if (recordings && text === state.goodInput?.text) take(text, recordings);
}

/**
 * @param {string} text
 * @param {string[]} recordings
 */
function take(text, recordings) {
  askedOf = text;
  fitting = recordings;
  if (!fitting.includes(chosen)) chosen = "";
  paint();
  tell(fitting.length ? `${many(fitting.length, "recording")} of this model` : "no recording is of this model");
}

export function startRecordings() {
  const field = list();
  if (!field) return;
  field.addEventListener("change", () => (chosen = field.value));
  on("facts", ({ ok }) => ok && later());
  const seen = new IntersectionObserver((found) => {
    isSeen = found.some(({ isIntersecting }) => isIntersecting);
    later();
  });
  seen.observe(field);
}
