// What the text is called: the example it came from, and whether it still is that.
import { byId, queryAll } from "../dom.js";
import { on, state } from "../state.js";

/** @type {string | null} the example's own text; null while it is not known */
let original = null;

function paint() {
  // Blank lines at the end make no other text.
  const isEdited = original !== null && state.text.trimEnd() !== original.trimEnd();
  const name = byId("example-file").textContent;
  for (const mark of queryAll(document, "[data-edited]")) mark.hidden = !isEdited;
  document.title = `${name}${isEdited ? " (edited)" : ""} · Embedding Compiler Explorer`;
}

/**
 * @param {string} key
 * @param {string | null} text
 */
export function nameExample(key, text) {
  const [folder, name] = key.split("/");
  state.example = key;
  show(`${folder} /`, `${name}.emb`, text);
}

/**
 * @param {string} file its name
 * @param {string} text
 */
export function nameFile(file, text) {
  state.example = "";
  show("file /", file, text);
}

/**
 * @param {string} group
 * @param {string} name
 * @param {string | null} text
 */
function show(group, name, text) {
  original = text;
  byId("example-group").textContent = group;
  byId("example-file").textContent = name;
  byId("model-file").textContent = name;
  paint();
}

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
  const [exampleBefore, textBefore] = [state.example, original];
  nameExample(key, null);
  const text = await fetchExample(key);
  if (state.example !== key) return;
  if (text === null) nameExample(exampleBefore, textBefore);
  else nameExample(key, text);
}

export const startNaming = () => on("edited", paint);
