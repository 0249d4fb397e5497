// The header of the run panel: always the same parts in the same places, of the run on its way or of the last one.
import { ownTimes, ratioInWords, unitOf } from "./beside.js";
import { shownData } from "./data.js";
import { byId, h, icon, many, ms, whole } from "../dom.js";
import { coreRange, levelOf, speedup, times } from "./levels.js";
import { isTimed } from "./results.js";
import { bestOf, isSingle, progressOf, shareOf } from "../tuning/tuning.js";
/** @import { DaeResult, GpuResult, Result, Run } from "../types.d.ts" */

/**
 * @param {Run | null} run
 * @param {string} reason why another one cannot start; empty where it can
 */
export function paintHeader(run, reason) {
  const outcome = run?.outcome;
  const going = outcome ? null : run;
  const result = outcome?.event === "result" ? outcome : null;
  const button = byId("run", HTMLButtonElement);
  button.hidden = going !== null;
  button.disabled = reason !== "";
  const tune = byId("tune", HTMLButtonElement);
  tune.hidden = going !== null;
  tune.disabled = reason !== "";
  byId("stop").hidden = going === null;
  byId("run-source").textContent = going?.source ?? result?.source ?? "";
  const device = going?.device ?? (run && result ? deviceLine(run, result) : "");
  byId("run-device").textContent = byId("run-device").title = device;
  byId("run-json").hidden = result === null;
  paintProgress(going);
  byId("run-summary").replaceChildren(...(going ? [progressLine(going)] : summary(run, reason)));
}

/** @param {Run | null} going */
function paintProgress(going) {
  const share = going ? shareDone(going) : 0;
  const bar = byId("run-progress");
  bar.hidden = going === null;
  bar.style.setProperty("--done", String(share));
  bar.setAttribute("aria-valuenow", String(Math.round(share * 100)));
}

/** @param {Run} run */
function shareDone(run) {
  const { progress, tuning } = run;
  if (tuning?.space) return shareOf(tuning);
  const share = progress ? progress.done / progress.total : 0;
  if (isTimed(run)) return run.samples.length ? ownTimes(run).length / run.settings.repeat : share;
  const last = run.samples.at(-1);
  return last && run.family === "score" ? last.triples / run.settings.batch : share;
}

/** @param {Run} run */
function progressLine(run) {
  if (run.tuning?.trials.length) return `${progressOf(run.tuning)}, best ${bestOf(run.tuning).join(", ")}`;
  const waiting = run.progress?.what ?? (run.status === "queued" ? "waiting for its turn" : "starting");
  if (isTimed(run)) return run.samples.length ? `${ownTimes(run).length} of ${run.settings.repeat}` : waiting;
  const last = run.samples.at(-1);
  if (!last) return waiting;
  if (run.family === "score")
    return `cycle ${whole(last.cycle)}, triple ${whole(last.triples)} of ${whole(run.settings.batch)}`;
  return `cycle ${whole(last.cycle)}, iteration ${whole(last.triples)}`;
}

/**
 * @param {Run} run
 * @param {Result} result
 */
const deviceLine = ({ edit }, result) => {
  if (result.target === "recording") return `${result.name}, ${result.device}`;
  const { device, data, date } = result;
  return `${device}, ${shownData(data.name)}, ${date.slice(0, 10)}, edit ${edit}`;
};

/**
 * @param {Run | null} run that has ended
 * @param {string} reason
 * @returns {(string | HTMLElement)[]}
 */
function summary(run, reason) {
  const parts = reason ? [h("span.bad", reason)] : [];
  const outcome = run?.outcome;
  if (!run || !outcome) return reason ? parts : ["not run yet"];
  const [found, ...gained] = bestOf(run.tuning);
  const best = found ? [h("b.num", found), ...gained.map((words) => h("span.num", words))] : [];
  if (outcome.event !== "result")
    return [...parts, ...best, ...(isSingle(run.tuning) ? [h("span", "not timed again")] : []), h("span", outcome.title ?? outcome.message)];
  if (!outcome.matches_reference) return [...parts, h("span.bad", "does not match the reference")];
  if (found) return [...parts, ...best, h("span", `the best of ${many(run.tuning?.trials.length ?? 0, "trial")}`)];
  if (outcome.target === "recording") return parts;
  const isSimulated = outcome.target === "dae";
  const figure = isSimulated ? `${whole(outcome.cycles)} cycles` : `${Number(outcome.median_ms.toPrecision(3))} ms`;
  const good = h("span.good", icon("check"));
  return [...parts, h("b.num", figure), good, h("span", "matches the reference"), ...moreFigures(run, outcome)];
}

/**
 * @param {Run} run
 * @param {Result} result
 * @returns {HTMLElement[]}
 */
function moreFigures(run, result) {
  if (!result.matches_reference || result.target === "recording") return [];
  if (result.against?.of_a) return [h("span.num", ratioInWords(result.against.of_a, unitOf(result)).split(";")[0])];
  if (result.target === "cpu") return [];
  if (result.target === "gpu") return deviceFigures(result);
  return simulatedFigures(result, isTimed(run) ? undefined : run.levels);
}

/** @param {GpuResult} result */
const deviceFigures = ({ limit_reached: reached, peers }) => [
  h("span.num", `median, cold, ${(100 * reached).toFixed(0)} % of what is possible`),
  ...peers.flatMap(({ name, ratio }) => (ratio ? h("span.num", `${name} takes ${times(ratio)}`) : [])),
];

/**
 * @param {DaeResult} outcome
 * @param {Map<string, DaeResult>} [levels]
 */
function simulatedFigures(outcome, levels = new Map()) {
  const { microseconds, machine, basis } = outcome;
  const time = `${microseconds >= 100 ? whole(microseconds) : ms(microseconds)} µs at ${machine.core_ghz.value} GHz`;
  const ratio = levelOf(outcome) === "opt0" ? null : speedup(outcome, levels);
  const range = coreRange(outcome);
  /**
   * @param {string} words
   * @param {string} rests
   */
  const figure = (words, rests) => h("span.num", { title: rests }, `${words} (${rests.split(/[:,] /)[0]})`);
  return [
    figure(time, basis.cycles),
    ...(ratio === null ? [] : [figure(`${times(ratio)} fewer than opt0`, basis.opt0)]),
    ...(range === null ? [] : [figure(`${range} one core's speed`, `${basis.core_alone}; the core loads and computes by itself`)]),
  ];
}
