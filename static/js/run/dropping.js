// Data files that a reader drops onto the page, or chooses: sent to the server, which keeps them until the page is closed.
import { chooseDropped } from "./data.js";
import { around, byId } from "../dom.js";
import { say, showTab, tell, toggleDock } from "../page.js";
/** @import { Diagnostic, Dropped } from "../types.d.ts" */

const LONGEST_NAME = 200;
const LOOKED_AT = 4096; // bytes of a text, to tell triples from a model

/**
 * Whether a file is data by its name, or a text of triples by its first line.
 * @param {File} file
 */
export async function isData(file) {
  if (/\.(tsv|npz|gz)$/i.test(file.name)) return true;
  if (!/\.txt$/i.test(file.name)) return false;
  const [first] = (await file.slice(0, LOOKED_AT).text()).split("\n", 1);
  return first.split("\t").length === 3;
}

const button = () => byId("data-file", HTMLButtonElement);

/** @param {File} file */
export function sendData(file) {
  toggleDock(true);
  if (matchMedia("(max-width: 699px)").matches) showTab("run");
  const { most, refused } = button().dataset;
  if (refused) return complain(refused);
  if (file.size > Number(most)) return complain(`${file.name} is larger than ${Number(most) >> 20} MiB: drop a part of it.`);
  if (button().ariaBusy === "true") return complain("Another file is being sent: drop this one when that is done.");
  complain("");
  send(file);
}

/** @param {File} file */
function send(file) {
  const request = new XMLHttpRequest(); // since fetch does not tell how far it is
  request.open("POST", `/api/data?${new URLSearchParams({ name: file.name.slice(-LONGEST_NAME) })}`);
  request.responseType = "json";
  request.upload.onprogress = ({ loaded, total }) => showProgress(`${Math.floor((100 * loaded) / (total || 1))} %`);
  request.upload.onload = () => showProgress("reading");
  request.onload = () => receive(file, request);
  request.onerror = () => complain(`${file.name} did not arrive: the connection was lost. Drop it again.`);
  request.onloadend = () => showProgress("");
  showProgress("0 %");
  tell(`${file.name} is being sent.`);
  request.send(file);
}

/**
 * @param {File} file
 * @param {XMLHttpRequest} request
 */
async function receive(file, { status, response }) {
  if (status !== 201) {
    /** @type {Diagnostic | undefined} */
    const told = response?.diagnostics?.[0];
    return complain(told ? `${told.message} ${told.detail}`.trim() : `${file.name} was not taken: the server answered ${status}.`);
  }
  /** @type {Dropped} */
  const kept = response;
  const reason = await chooseDropped(kept);
  if (reason) complain(reason);
  else say(`${kept.label} is the data now. The server keeps it until this page is closed.`);
}

/** @param {string} told */
function showProgress(told) {
  button().ariaBusy = String(!!told);
  button().textContent = told || "file…";
}

/** @param {string} sentence */
function complain(sentence) {
  byId("data-problem").textContent = sentence;
  byId("data-problem").hidden = !sentence;
  if (sentence) byId("data-problem").scrollIntoView({ block: "nearest" });
}

// Where a file may be dropped is shown as long as one is dragged over the page.
function startTarget() {
  const target = byId("drop-target");
  /** @param {DragEvent} event */
  const hasFile = ({ dataTransfer }) => !!dataTransfer?.types.includes("Files");
  document.addEventListener("dragenter", (event) => hasFile(event) && (target.hidden = false));
  document.addEventListener("dragleave", ({ relatedTarget }) => {
    if (relatedTarget === null) target.hidden = true;
  });
  for (const name of ["drop", "dragend"]) document.addEventListener(name, () => (target.hidden = true), { capture: true });
}

export function startDropping() {
  startTarget();
  const input = byId("data-input", HTMLInputElement);
  button().addEventListener("click", () => {
    const { refused } = button().dataset;
    if (refused) complain(refused);
    else input.click();
  });
  input.addEventListener("change", ({ target }) => {
    const file = around(target, "input", HTMLInputElement)?.files?.[0];
    if (file) sendData(file);
    input.value = "";
  });
}
