// The lines behind the first thousands of a text: fetched when the reader wants them, or looks for something.
import { around, query } from "../dom.js";
import { paneElements } from "./panes.js";
import { say } from "../page.js";
import { emit, state } from "../state.js";

/** @type {WeakMap<Element, Promise<void>>} by what says how much is left out */
const coming = new WeakMap();

/** @param {number} index */
async function fetchOfNext(index) {
  const note = query(paneElements()[index], ".more[data-rest]");
  if (note) await fetchRest(note);
}

/** @param {HTMLElement} note */
async function fetchRest(note) {
  const pane = around(note, ".pane");
  const index = pane ? paneElements().indexOf(pane) : -1;
  const input = state.goodInput;
  if (!input || index < 0) return;
  const { text, sizes, defaultSizes, options, schedule, data } = input;
  const body = new FormData();
  const fields = { sizes, default_sizes: defaultSizes, options, schedule, panes: [state.panes[index]] };
  for (const [name, value] of Object.entries(fields)) body.set(name, JSON.stringify(value));
  for (const [name, value] of Object.entries({ text, data, edit: String(state.edit) })) body.set(name, value);
  const answer = await fetch("/rest", { method: "POST", body }).catch(() => null);
  if (!answer?.ok) return say("The other lines did not arrive. Try again.");
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!note.isConnected) return fetchOfNext(index); // the pane was swapped while they came
  const code = note.parentElement && query(note.parentElement, ".code");
  // Where a text ends with what its kernels call, that is folded, and so is the rest of it.
  const end = code && (query(code, ".behind") ?? code);
  end?.append(...found.body.children);
  // The server counts a text's rows without these: the next answer is to be whole.
  if (note.parentElement) delete note.parentElement.dataset.text;
  note.remove();
  emit("painted", undefined);
}

/** @param {HTMLElement} pane */
export async function showRest(pane) {
  const note = query(pane, ".more[data-rest]");
  if (!note) return;
  let fetching = coming.get(note);
  if (!fetching) coming.set(note, (fetching = fetchRest(note).finally(() => coming.delete(note))));
  await fetching;
}
