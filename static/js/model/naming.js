// What the text is called: the example or file that it came from, and whether it still is that. A text none of whose
// definitions has a name of one there is the reader's own, and is called by its first definition.
import { byId, queryAll } from "../dom.js";
import { emit, on, state } from "../state.js";

/** @typedef {{ group: string, file: string, text: string | null }} Origin */

/** @type {Origin | null} what the text came from, its text null while that is not known; null for the reader's own */
let origin = null;
let isOwn = false;
let isEdited = false;
let becameOwn = false; // by the last change

/** @param {string} text */
const definitionsIn = (text) =>
  [...text.matchAll(/^[ \t]*(?:score|layer|op|def|class)[ \t]+([A-Za-z_]\w*)/gm)].map(([, name]) => name);

/**
 * What a text is called.
 * @param {string} text
 * @returns {Origin}
 */
function nameOf(text) {
  if (origin && (origin.text === null || origin.text === text)) return origin;
  const own = definitionsIn(text);
  const before = definitionsIn(origin?.text ?? "");
  if (origin && own.some((name) => before.includes(name))) return origin;
  return { group: "own /", file: `${own[0] ?? "untitled"}.emb`, text: null };
}

/** Whether the text is of nothing that the explorer has. */
export const isOwnText = () => isOwn;

/** Whether something would be lost if another text took this one's place. */
export const isWork = () => state.text.trim() !== "" && (state.example === "" || isOwn || isEdited);

/** @param {string} text */
function paint(text) {
  const found = nameOf(text);
  const { group, file, text: original } = found;
  becameOwn = !isOwn && found !== origin;
  isOwn = found !== origin;
  // Blank lines at the end make no other text.
  isEdited = original !== null && text.trimEnd() !== original.trimEnd();
  byId("example-group").textContent = group;
  byId("example-file").textContent = file;
  byId("model-file").textContent = file;
  for (const mark of queryAll(document, "[data-edited]")) mark.hidden = !isEdited;
  document.title = `${file}${isEdited ? " (edited)" : ""} · Embedding Compiler Explorer`;
}

/**
 * @param {string} example its key, "" for none
 * @param {Origin | null} found
 * @param {string} text what is in the editor, or is about to be
 */
function show(example, found, text) {
  origin = found;
  state.example = example;
  paint(text);
  emit("named", example);
}

/**
 * @param {string} key
 * @param {string | null} text
 */
export function nameExample(key, text) {
  const [folder, name] = key.split("/");
  show(key, { group: `${folder} /`, file: `${name}.emb`, text }, text ?? state.text);
}

/**
 * @param {string} file its name
 * @param {string} text
 */
export const nameFile = (file, text) => show("", { group: "file /", file, text }, text);

/** The text in the editor, of which nobody says what it came from. */
export const nameOwn = () => show("", null, state.text);

/**
 * An example's text; null if it did not arrive.
 * @param {string} key
 */
export async function fetchExample(key) {
  const answer = await fetch(`/examples/${key}`).catch(() => null);
  return answer?.ok ? answer.text() : null;
}

/**
 * The example that a kept text came from, where the server drew another one; one that is not there changes nothing.
 * @param {string} key
 */
export async function nameKept(key) {
  const [exampleBefore, before] = [state.example, origin];
  nameExample(key, null);
  const text = await fetchExample(key);
  if (state.example !== key) return;
  if (text === null) return show(exampleBefore, before, state.text);
  nameExample(key, text);
  paint(state.text);
}

export function startNaming() {
  on("edited", () => paint(state.text));
  on("replaced", () => becameOwn && emit("own", undefined));
}
