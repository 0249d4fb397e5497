// Runs: ask for one, follow its events, keep what came of it. At most one is on its way.
import { ownTimes } from "./device.js";
import {
  isTimed,
  sizesInWords,
  showBlank,
  showFailure,
  showHistory,
  showQueued,
  showResult,
  showSample,
  showStarted,
} from "./results.js";
import { compileNow, edited, showTrouble } from "./compile.js";
import { byId, h, icon, many, ms, whole } from "./dom.js";
import { coreRange, knownLevels, levelOf, speedup, times } from "./levels.js";
import { badParameter, machineValues, parameter, startMachine } from "./machine.js";
import { save } from "./panes.js";
import { say, showTab, tell } from "./page.js";
import { isConnected, send } from "./socket.js";
import { chooseData, emit, isBroken, isCurrent, on, state } from "./state.js";

let number = 0;
let current = null; // the run on its way, or the last one
let target = "dae";
let family = "score"; // of the newest text that compiled
let kind = ""; // and of an op the kind of its lists: what data there is to run it on
let listed = null; // the kind whose data stands in the list
const history = [];

const ENDED = new Set(["done", "failed"]);
export const isRunning = () => current !== null && !ENDED.has(current.status);

export function setTarget(name) {
  showTarget(name);
  paint();
}

function showTarget(name) {
  target = name;
  byId("dock").dataset.target = name;
  for (const button of document.querySelectorAll("[data-target][data-act=target]")) {
    button.setAttribute("aria-pressed", String(button.dataset.target === name));
  }
  document.querySelector("[data-target-name]").textContent = name;
}

export function toggleDock(open = byId("dock-body").hidden) {
  byId("dock-body").hidden = !open;
  byId("dock").classList.toggle("open", open);
  byId("dock-toggle").setAttribute("aria-expanded", String(open));
}

const numberIn = (id) => (byId(id).checkValidity() && byId(id).value !== "" ? Number(byId(id).value) : null);

// The fields that each target reads.
const FIELDS = {
  cpu: [
    ["run-batch", "batch"],
    ["run-repeat", "repeats"],
  ],
  dae: [["run-batch", "batch"]],
};
FIELDS.gpu = FIELDS.cpu;

// Whether the stages and the list of data are those of the newest edit.
const isReady = () => isCurrent() && listed === kind;

// Why a run cannot start now; empty where it can.
function hindrance() {
  const count = state.facts?.diagnostics?.length ?? 0;
  if (isBroken()) return `Fix ${count} error${count === 1 ? "" : "s"} to run.`;
  if (!isConnected()) return "The server is not connected.";
  const bad = FIELDS[target].find(([id]) => numberIn(id) === null);
  if (bad) return boundsOf(byId(bad[0]), bad[1]);
  const wrong = target === "dae" ? badParameter() : undefined;
  return wrong ? boundsOf(wrong, wrong.labels[0].textContent) : "";
}

function boundsOf({ min, max, step }, name) {
  const [least, most] = [min, max].map((bound) => Number(bound).toLocaleString("en"));
  return `The ${name} must be a ${step === "1" ? "whole " : ""}number from ${least} to ${most}.`;
}

let isWanted = false; // a run was asked for while the stages showed an older edit: it waits for the newest

export function run() {
  levelsToRun = [];
  isWanted = !isReady();
  if (!isWanted) return start({});
  if (!isCurrent()) compileNow();
  say("This runs when the newest edit has compiled.");
}

const runIfWanted = () => isWanted && isReady() && run();

let levelsToRun = []; // what is still to come of a comparison

// Runs what this session has not yet run of the four levels, this one last.
export function compareLevels() {
  if (!isReady()) return say("The newest edit is still compiling.");
  const count = Number(byId("dock").dataset.levels);
  const chosen = Number(state.options.opt ?? count - 1);
  const known = current ? knownLevels(current.key) : new Set();
  const others = Array.from({ length: count }, (_, level) => level).filter((level) => level !== chosen);
  levelsToRun = [...others.filter((level) => !known.has(`opt${level}`)), chosen];
  runNextLevel();
}

const runNextLevel = () => start({ opt: levelsToRun.shift() }, true);

function start(changed, isComparison = false) {
  const reason = hindrance();
  if (reason) return say(reason);
  if (isRunning()) stop("superseded");
  number += 1;
  const settings = {
    data: byId("run-data").value,
    batch: numberIn("run-batch"),
    repeat: numberIn("run-repeat"),
    queue: parameter("queue_bytes"),
  };
  const { data, batch, repeat } = settings;
  const ofTarget = {
    cpu: () => ({ repeat }),
    dae: () => ({ machine: machineValues() }),
    gpu: () => ({ repeat, peers: byId("run-peers").checked }),
  }[target]();
  const { text, sizes, defaultSizes, edit, facts } = state;
  const options = { ...state.options, ...changed };
  // What the stages show, which the server holds the run against; a level that they do not show says its own name.
  const isShown = Object.entries(changed).every(([name, value]) => facts.options[name] === value);
  const compiled = isShown ? { program: facts.programs[target] ?? "", sizes: facts.sizes, options: facts.options } : null;
  const asked = { text, sizes, default_sizes: defaultSizes, options, on: target, data, batch, compiled, ...ofTarget };
  const key = JSON.stringify({ ...asked, compiled: undefined, options: { ...options, opt: undefined } });
  current = { number, edit, target, family, status: "queued", samples: [], settings, key, isComparison };
  send({ type: "run", run: number, edit, ...asked });
  toggleDock(true);
  if (matchMedia("(max-width: 699px)").matches) showTab("run");
  byId("run-number").textContent = number;
  showBlank(current);
  paint();
}

export function stop(kind = "cancelled") {
  levelsToRun = [];
  if (!isRunning()) return;
  send({ type: "cancel", run: current.number });
  const words = {
    cancelled: ["Stopped", `You stopped run ${current.number}. Nothing of it is kept.`],
    superseded: [`Stopped by edit ${state.edit}`, "The model or a setting changed while this ran."],
  }[kind];
  end({
    event: "failed",
    kind,
    title: words[0],
    message: words[1],
    hint: "Press Run to run what the editor shows.",
  });
}

function end(event) {
  const isResult = event.event === "result";
  current.status = isResult ? "done" : "failed";
  current.outcome = event;
  if (isResult) showResult(current);
  else showFailure(current);
  history.unshift(current);
  history.splice(20);
  showHistory(history);
  paint();
  if (isResult && levelsToRun.length) return runNextLevel();
  tell(`Run ${current.number} has ended: ${byId("run-summary").textContent}`);
}

function receive(event) {
  // Only the newest run speaks; what an older one still says is dropped. Refusals without a run are ours too.
  if (!isRunning() || (event.run !== undefined && event.run !== current.number)) return;
  if (event.event === "queued") showQueued(current, event);
  else if (event.event === "started")
    (Object.assign(current, { status: "running", device: event.device, source: event.source }),
      showStarted(current));
  else if (event.event === "progress") current.progress = event;
  else if (event.event === "sample") (current.samples.push(event), showSample(current, event));
  else if (event.event === "result" || event.event === "failed") return end(event);
  paint();
}

// The dock's header: always the same parts in the same places.
function paint() {
  const running = isRunning();
  byId("run").hidden = running;
  byId("stop").hidden = !running;
  const reason = hindrance();
  byId("run").disabled = reason !== "";
  byId("run-source").textContent = running ? (current.source ?? "") : (current?.outcome?.source ?? "");
  byId("run-device").textContent = running ? (current.device ?? "") : deviceLine();
  byId("run-json").hidden = running || current?.outcome?.event !== "result";
  const share = running ? shareDone() : null;
  const bar = byId("run-progress");
  bar.hidden = share === null;
  bar.style.setProperty("--done", share ?? 0);
  bar.setAttribute("aria-valuenow", String(Math.round((share ?? 0) * 100)));
  byId("run-summary").replaceChildren(
    ...(running ? [progressLine()] : summary(reason)),
  );
}

function shareDone() {
  if (isTimed(current) && current.samples.length) return ownTimes(current).length / current.settings.repeat;
  const last = current.samples.at(-1);
  if (last && current.family === "score") return last.triples / current.settings.batch;
  return current.progress ? current.progress.done / current.progress.total : 0;
}

function progressLine() {
  if (isTimed(current) && current.samples.length)
    return `${ownTimes(current).length} of ${current.settings.repeat}`;
  const last = current.samples.at(-1);
  if (last && current.family === "score")
    return `cycle ${whole(last.cycle)}, triple ${whole(last.triples)} of ${whole(current.settings.batch)}`;
  if (last) return `cycle ${whole(last.cycle)}, iteration ${whole(last.triples)}`;
  return current.progress
    ? current.progress.what
    : current.status === "queued"
      ? "waiting for its turn"
      : "starting";
}

const deviceLine = () => {
  const outcome = current?.outcome;
  if (outcome?.event !== "result") return "";
  return `${outcome.device}, ${outcome.data.name}, ${outcome.date.slice(0, 10)}, edit ${current.edit}`;
};

function summary(reason) {
  const parts = reason ? [h("span.bad", reason)] : [];
  if (current === null) return reason ? parts : ["not run yet"];
  const { outcome } = current;
  if (outcome.event !== "result") return [...parts, h("span", outcome.title ?? outcome.message)];
  if (!outcome.matches_reference) return [...parts, h("span.bad", "does not match the reference")];
  const figure =
    isTimed(current)
      ? `${Number(outcome.median_ms.toPrecision(3))} ms`
      : `${whole(outcome.cycles)} cycles`;
  const good = h("span.good", icon("check"));
  const more = { cpu: () => [], dae: simulatedFigures, gpu: deviceFigures }[current.target](outcome);
  return [...parts, h("b.num", figure), ...more, good, h("span", "matches the reference")];
}

const deviceFigures = ({ limit_reached: reached, peers }) => [
  h("span.num", `median, cold, ${(100 * reached).toFixed(0)} % of what is possible`),
  ...peers.filter(({ ratio }) => ratio).map(({ name, ratio }) => h("span.num", `${name} takes ${times(ratio)}`)),
];

function simulatedFigures(outcome) {
  const { microseconds, machine, basis } = outcome;
  const time = `${microseconds >= 100 ? whole(microseconds) : ms(microseconds)} µs at ${machine.core_ghz?.value} GHz`;
  const ratio = levelOf(outcome) === "opt0" ? null : speedup(outcome, "opt0", current.levels ?? new Map());
  const range = coreRange(outcome);
  const figure = (words, rests) => h("span.num", { title: rests }, `${words} (${rests.split(/: |, not/)[0]})`);
  return [
    figure(time, basis.cycles),
    ratio === null ? null : figure(`${times(ratio)} fewer than opt0`, basis.opt0),
    range === null ? null : figure(`${range} the speed of a core alone`, basis.core_alone),
  ].filter(Boolean);
}

export const exportRun = () =>
  current?.outcome &&
  save(`run-${current.number}.json`, JSON.stringify(current.outcome, null, 1), "application/json");

function counted(set) {
  if ("edges" in set)
    return `${many(set.nodes, "node")} of ${many(set.ntypes, "type")}, ${many(set.edges, "edge")} of ${many(set.etypes, "type")}`;
  if ("triples" in set)
    return `${many(set.entities, "entity", "entities")}, ${many(set.relations, "relation")}, ${many(set.triples, "triple")}`;
  return "";
}

const PREFERRED_TRIPLES = "FB15k-237";
const kindOf = ({ family: found, lists }) => [found, lists].filter(Boolean).join(" ");

// The data sets that a definition of this family runs on: scores take triples, layers graphs, each op lists of its kind.
async function loadData() {
  const asked = kind;
  byId("dock").dataset.family = family;
  const answer = await fetch(`/api/data?family=${family}`);
  const sets = answer.ok ? await answer.json() : [];
  if (asked !== kind) return;
  const lists = asked.split(" ")[1];
  const offered = lists ? sets.filter((set) => set.for === lists) : sets;
  const select = byId("run-data");
  select.replaceChildren(...offered.map(({ name, label }) => h("option", { value: name }, label)));
  const preferred = family === "score" ? PREFERRED_TRIPLES : state.data;
  if (offered.some((set) => set.name === preferred)) select.value = preferred;
  select.onchange = () => {
    const set = offered.find(({ name }) => name === select.value);
    byId("data-about").textContent = set ? counted(set) : "";
    emit("data", { name: select.value, family });
    if (family === "score" || select.value === state.data) return;
    chooseData(select.value);
    edited(); // sizes and costs depend on the data
  };
  select.onchange();
  listed = asked;
  runIfWanted();
}

const reloadData = () =>
  loadData().catch(() => showTrouble("The list of data sets did not arrive; reload the page."));

export function startRuns() {
  showTarget(target);
  startMachine();
  byId("dock-body").addEventListener("input", paint);
  family = state.facts?.family || family;
  kind = kindOf(state.facts ?? {});
  reloadData();
  on("run-event", receive);
  on("tab", (name) => name === "run" && toggleDock(true));
  on("edited", () => {
    isWanted = false;
    if (isRunning()) stop("superseded");
  });
  on("facts", (facts) => {
    const { sizes, sizes_from: sources, family: found } = facts;
    if (found && kindOf(facts) !== kind) {
      family = found;
      kind = kindOf(facts);
      reloadData();
    } else if (family !== "score" && byId("run-data").value !== state.data) {
      byId("run-data").value = state.data;
      byId("run-data").onchange?.();
    }
    if (sizes) byId("run-sizes").textContent = sizesInWords(sizes, sources);
    if (isCurrent()) paint();
    runIfWanted();
  });
  on("connection", ({ isUp, isBack, wait }) => {
    if (isBack) say("Connected again.");
    if (!isUp && isRunning()) {
      end({
        event: "failed",
        kind: "crashed",
        title: "Connection lost",
        message: "The server went away while this ran.",
        hint: "Your model and settings are kept; run again when it is back.",
      });
    }
    if (!isUp) emit("trouble", wait);
    paint();
  });
}
