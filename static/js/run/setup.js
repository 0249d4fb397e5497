// What a run is set up with, its target and the fields that this reads, and why a run cannot start with it.
import { byId, need, queryAll } from "../dom.js";
import { badParameter } from "./machine.js";
import { isConnected } from "../socket.js";
import { isBroken, state } from "../state.js";
import { chooseRecording, chosenRecording } from "../tuning/recordings.js";
/** @import { RunOrder, Target } from "../types.d.ts" */

/** @type {Target} */
let target = "dae";

export const chosenTarget = () => target;

/** @param {Target} name */
export function showTarget(name) {
  target = name;
  byId("dock").dataset.target = name;
  for (const button of queryAll(document, "[data-target][data-act=target]"))
    button.setAttribute("aria-pressed", String(button.dataset.target === name));
  need(document, "[data-target-name]").textContent = name;
  byId("run").title = `Run on ${need(document, `.seg [data-target="${name}"]`).title}`;
}

/** @param {string} id */
const field = (id) => byId(id, HTMLInputElement);

export const batchSize = () => Number(field("run-batch").value);
export const repeats = () => Number(field("run-repeat").value);
/** @returns {RunOrder["tune"]} */
export const tuneSettings = () => ({
  trials: Number(field("tune-trials").value),
  search: /** @type {NonNullable<RunOrder["tune"]>["search"]} */ (byId("tune-search", HTMLSelectElement).value),
  seed: 0,
  replay: chosenRecording(),
});
/** @param {NonNullable<RunOrder["tune"]>} tune */
export function showTuneSettings({ trials, search, replay }) {
  field("tune-trials").value = String(trials);
  byId("tune-search", HTMLSelectElement).value = search;
  chooseRecording(replay ?? "");
}
/** @param {Target} on */
export const withPeers = (on) => field(on === "gpu" ? "run-peers" : "run-cpu-peers").checked;

/** @param {Target} on */
export const withCompiled = (on) => !!document.querySelector(`#run-${on}-compiled:checked`); // none where it is not on offer

/** @typedef {{ id: string, name: string }} Field */
const BATCH = { id: "run-batch", name: "batch" };
const REPEATS = { id: "run-repeat", name: "repeats" };

/** @type {Record<Target, Field[]>} those that each target reads */
const FIELDS = { cpu: [BATCH, REPEATS], gpu: [BATCH, REPEATS], dae: [BATCH] };

// Why a run cannot start now; empty where it can.
export function hindrance() {
  const count = state.facts?.diagnostics.length ?? 0;
  if (isBroken()) return `Fix ${count} error${count === 1 ? "" : "s"} to run.`;
  if (!isConnected()) return "The server is not connected.";
  const bad = FIELDS[target].find(({ id }) => !field(id).checkValidity() || field(id).value === "");
  if (bad) return boundsOf(field(bad.id), bad.name);
  const wrong = target === "dae" ? badParameter() : undefined;
  return wrong ? boundsOf(wrong, wrong.labels?.[0].textContent ?? "") : "";
}

// Why a tuning cannot start, where a run can.
export function tuneHindrance() {
  const trials = field("tune-trials");
  if (!trials.checkValidity() || trials.value === "") return boundsOf(trials, "number of trials");
  const standing = state.facts?.ok && state.facts.edited.length > 0;
  return standing ? "Tune chooses what the compiler makes of the text: undo the edits of stages first." : "";
}

/**
 * @param {HTMLInputElement} input
 * @param {string} name
 */
function boundsOf({ min, max, step }, name) {
  const [least, most] = [min, max].map((bound) => Number(bound).toLocaleString("en"));
  return `The ${name} must be a ${step === "1" ? "whole " : ""}number from ${least} to ${most}.`;
}
