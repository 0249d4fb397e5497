// Runs: ask for one, follow its events, keep what came of it. At most one is on its way.
import { compileNow } from "../model/compile.js";
import { chosenData, familyInHand, isListed, startData } from "./data.js";
import { byId } from "../dom.js";
import { paintHeader } from "./header.js";
import { remember, startHistory } from "./history.js";
import { knownLevels } from "./levels.js";
import { machineValues, parameter, setMachine, startMachine } from "./machine.js";
import { save } from "../stages/panes.js";
import { say, showTab, tell, toggleDock } from "../page.js";
import {
  isTimed,
  sizesInWords,
  showBegun,
  showBlank,
  showFailure,
  showQueued,
  showResult,
  showSample,
  showStarted,
} from "./results.js";
import { batchSize, chosenTarget, hindrance, repeats, showTarget, showTuneSettings, tuneHindrance, tuneSettings, withCompiled, withPeers } from "./setup.js";
import { send } from "../socket.js";
import { emit, isCurrent, on, state } from "../state.js";
import { startRecordings } from "../tuning/recordings.js";
import { freshTuning, noteTuning } from "../tuning/tuning.js";
/** @import { Failed, GoodFacts, Options, Result, Run, RunEvent, RunOrder, Sample, ShownProgram, Space, Target, Trial } from "../types.d.ts" */

let number = 0;
/** @type {Run | null} the run on its way, or the last one */
let current = null;
/** @type {(() => void) | null} the run that was asked for while the stages showed an older edit: it waits for the newest */
let wanted = null;
/** @type {number[]} what is still to come of a comparison */
let levelsToRun = [];

const running = () => (current?.outcome ? null : current);
export const isRunning = () => running() !== null;

const paint = () => paintHeader(current, hindrance());

/** @param {Target} name */
export function setTarget(name) {
  showTarget(name);
  paint();
}

// Whether the stages and the list of data are those of the newest edit.
const isReady = () => isCurrent() && isListed();

/**
 * Orders runs of what the page shows, as soon as that is of the newest edit.
 * @param {() => void} order
 */
function whenReady(order) {
  levelsToRun = [];
  wanted = isReady() ? null : order;
  if (!wanted) return order();
  if (!isCurrent()) compileNow();
  say("This runs when the newest edit has compiled.");
}

export const run = () => whenReady(() => start({}));

/** Both sides of a comparison, by turns. */
export const runBoth = () => whenReady(() => start({}, { againstA: true }));

/** Tries what else could be chosen, and says what is best. */
export function tune() {
  const reason = tuneHindrance();
  if (reason) return say(reason);
  whenReady(() => start({}, { tune: tuneSettings() }));
}

// Runs what this session has not yet run of the levels, this one last.
export const compareLevels = () =>
  whenReady(() => {
    const count = Number(byId("dock").dataset.levels);
    const chosen = Number(state.options.opt ?? count - 1);
    const known = current ? knownLevels(current.key) : new Set();
    const others = Array.from({ length: count }, (_, level) => level).filter((level) => level !== chosen);
    levelsToRun = [...others.filter((level) => !known.has(`opt${level}`)), chosen];
    runNextLevel();
  });

const runIfWanted = () => wanted && isReady() && whenReady(wanted);

function runNextLevel() {
  const opt = levelsToRun.shift();
  if (opt !== undefined) start({ opt }, { isComparison: true });
}

/** @typedef {{ isComparison?: boolean, againstA?: boolean, tune?: RunOrder["tune"] }} How a run is meant */

/**
 * @param {Options} changed what differs from the options of the page
 * @param {How} how
 */
function start(changed, how = {}) {
  const reason = hindrance();
  if (reason) return say(reason);
  const { facts } = state;
  if (!facts?.ok) return;
  if (isRunning()) stop("superseded");
  number += 1;
  const order = orderOf(facts, changed, how);
  const key = JSON.stringify({ ...order, run: 0, edit: 0, compiled: null, options: { ...order.options, opt: 0 } });
  current = runOf(order, key, how.isComparison ?? false);
  send(order);
  toggleDock(true);
  if (matchMedia("(max-width: 699px)").matches) showTab("run");
  byId("run-number").textContent = String(number);
  showBlank(current);
  paint();
}

/**
 * @param {GoodFacts} facts
 * @param {Options} changed
 * @param {How} how
 * @returns {RunOrder}
 */
function orderOf(facts, changed, { againstA, tune: tuned }) {
  const { text, sizes, defaultSizes, schedule, edit } = state;
  const target = tuned?.replay ? "gpu" : chosenTarget(); // that is where spaces were recorded
  // What is refused is on no stage: those are the compiler's.
  const standing = facts.edited.filter(({ stage, status }) => stage in state.edited && /^(matches|wrong)$/.test(status));
  // What the stages show, which the server holds the run against; a level that they do not show says its own name.
  const isShown = Object.entries(changed).every(([name, value]) => facts.options[name] === value);
  return {
    type: "run",
    run: number,
    edit,
    text,
    sizes,
    default_sizes: defaultSizes,
    options: { ...state.options, ...changed },
    schedule,
    edited: Object.fromEntries(standing.map(({ stage }) => [stage, state.edited[stage]])),
    on: target,
    data: chosenData(),
    batch: batchSize(),
    compiled: isShown ? shownOf(facts, target) : null,
    ...(target === "dae" ? { machine: machineValues() } : { repeat: repeats() }),
    ...(target === "dae" ? {} : { peers: !tuned && withPeers(target), torch_compile: !tuned && withCompiled(target) }),
    ...(tuned ? { tune: tuned } : {}),
    ...(againstA && state.against
      ? { against: { ...state.against, compiled: facts.against && shownOf(facts.against, target) } }
      : {}),
  };
}

/**
 * What the stages show of a side, which the server holds the run against.
 * @param {Pick<GoodFacts, "programs" | "sizes" | "options">} side
 * @param {Target} target
 */
const shownOf = ({ programs, sizes, options }, target) => ({ program: programs[target] ?? "", sizes, options });

/**
 * @param {RunOrder} order
 * @param {string} key
 * @param {boolean} isComparison
 * @returns {Run}
 */
function runOf(order, key, isComparison) {
  const { run: ordered, edit, on: target, data, batch } = order;
  const tuning = order.tune ? freshTuning() : undefined;
  const common = { number: ordered, order, edit, family: familyInHand(), status: /** @type {const} */ ("queued"), key, isComparison, tuning };
  if (target !== "dae") return { ...common, target, samples: [], settings: { data, batch, repeat: repeats() } };
  return { ...common, target, samples: [], settings: { data, batch, queue: parameter("queue_bytes") } };
}

/** @param {"cancelled" | "superseded"} kind */
export function stop(kind = "cancelled") {
  levelsToRun = [];
  const going = running();
  if (!going) return;
  send({ type: "cancel", run: going.number });
  const [title, message] = {
    cancelled: ["Stopped", `You stopped run ${going.number}. ${keptOf(going)}`],
    superseded: [`Stopped by edit ${state.edit}`, `The program or its data changed while this ran. ${keptOf(going)}`],
  }[kind];
  end(going, { event: "failed", kind, title, message, hint: "Press Run to run what the editor shows." });
}

/** @param {Run} going */
function keptOf(going) {
  if (going.tuning?.trials.length) return "What was found until then is kept.";
  return isTimed(going) && going.samples.length ? "The repeats until then are kept." : "Nothing was measured yet.";
}

/**
 * Whether what a run takes is what the page shows now: a comment or another pane's option changes nothing of it.
 * @param {Run} going
 * @param {GoodFacts} facts
 */
function isOf({ order }, facts) {
  const { compiled, against, tune: tuned } = order;
  if (tuned?.replay) return true; // whatever the page shows
  // A point that is taken over or compared is another program of the same text.
  if (tuned && order.text === state.text && JSON.stringify(compiled?.sizes) === JSON.stringify(facts.sizes))
    return facts.family === "score" || order.data === facts.data;
  const shown = shownOf(facts, order.on);
  // Of a program that was not made with the stages all that is known is its edit.
  if (!compiled?.program || !shown.program || (against && !against.compiled)) return order.edit === facts.edit;
  /** @type {(taken: ShownProgram, side: ShownProgram) => boolean} */
  const isSame = (taken, side) => taken.program === side.program && JSON.stringify(taken.sizes) === JSON.stringify(side.sizes);
  if (!isSame(compiled, shown)) return false;
  if (against?.compiled && !(facts.against && isSame(against.compiled, shownOf(facts.against, order.on)))) return false;
  return facts.family === "score" || order.data === facts.data;
}

/**
 * @param {Run} going
 * @param {Result | Failed} outcome
 */
function end(going, outcome) {
  going.outcome = outcome;
  if (outcome.event === "result") {
    showResult(going, outcome);
    if (outcome.matches_reference && outcome.target !== "recording" && !going.tuning) emit("ran", outcome);
  } else showFailure(going, outcome);
  remember(going, outcome);
  paint();
  if (outcome.event === "result" && levelsToRun.length) return runNextLevel();
  const said = [...byId("run-summary").childNodes].map((part) => part.textContent).filter(Boolean);
  tell(`Run ${going.number} has ended: ${said.join(", ")}.`);
}

/** @param {RunEvent} event */
function receive(event) {
  const going = running();
  // Only the newest run speaks; what an older one still says is dropped. Refusals without a run are ours too.
  if (!going || (event.run !== undefined && event.run !== going.number)) return;
  going.at = event.at ?? going.at;
  if (event.event === "result" || event.event === "failed") return end(going, event);
  if (event.event === "queued") showQueued(event);
  else if (event.event === "repeated") beginAnew(going, event.message);
  else if (event.event === "progress") {
    if (!going.progress && going.status === "queued") showBegun(going);
    going.progress = event;
  }
  else if (event.event === "sample") addSample(going, event);
  else if (event.event === "space" || event.event === "trial") addTo(going, event);
  else if (event.event === "started") {
    Object.assign(going, { status: "running", device: event.device, source: event.source });
    showStarted(going);
  }
  paint();
}

/**
 * @param {Run} going
 * @param {string} reason
 */
function beginAnew(going, reason) {
  Object.assign(going, { status: "queued", repeated: reason, progress: undefined });
  going.samples.length = 0;
  if (going.tuning) Object.assign(going.tuning, freshTuning());
  showBlank(going);
}

/**
 * @param {Run} going
 * @param {Space | Trial} event
 */
function addTo(going, event) {
  if (!going.tuning) return;
  noteTuning(going.tuning, event);
  if (event.event === "space") showStarted(going);
  else showSample();
}

/**
 * @param {Run} going
 * @param {Sample} sample
 */
function addSample(going, sample) {
  if (isTimed(going)) {
    if ("ms" in sample) going.samples.push(sample);
  } else if ("cycle" in sample) going.samples.push(sample);
  showSample();
}

/**
 * Where and how much a run of the history took; its text and options the page brings back.
 * @param {RunOrder} order
 */
function restore({ on: target, batch, repeat, data, machine, tune: tuned }) {
  setTarget(target);
  const list = byId("run-data", HTMLSelectElement);
  if ([...list.options].some(({ value }) => value === data)) list.value = data;
  byId("run-batch", HTMLInputElement).value = String(batch);
  if (repeat) byId("run-repeat", HTMLInputElement).value = String(repeat);
  if (target === "dae") setMachine(machine ?? {});
  if (tuned) showTuneSettings(tuned);
  paint();
}

export function exportRun() {
  if (!current?.outcome) return;
  const { number: of, outcome, tuning } = current;
  const told = tuning ? { ...outcome, space: tuning.space, trials: tuning.trials } : outcome;
  save(`run-${of}.json`, JSON.stringify(told, null, 1), "application/json");
}

function loseConnection() {
  const going = running();
  if (!going) return;
  if (going.at) {
    going.progress = { event: "progress", what: "the connection is lost: what became of the run is asked when it is back", done: 0, total: 1 };
    return;
  }
  end(going, {
    event: "failed",
    kind: "crashed",
    title: "Connection lost",
    message: "The server went away while this ran.",
    hint: "Your model and settings are kept; run again when it is back.",
  });
}

// A run that a queue keeps is gone on with where this page had got to.
function resume() {
  const going = running();
  if (going?.at) send({ type: "resume", run: going.number, edit: going.edit, at: going.at });
}

export function startRuns() {
  showTarget(chosenTarget());
  startMachine();
  startRecordings();
  byId("dock-body").addEventListener("input", paint);
  startData();
  startHistory();
  on("restore", restore);
  on("listed", runIfWanted);
  on("run-event", receive);
  on("tab", (name) => name === "run" && toggleDock(true));
  on("edited", () => {
    wanted = null;
  });
  on("facts", (facts) => {
    const going = running();
    if (going && facts.ok && isCurrent() && !isOf(going, facts)) stop("superseded");
    const { sizes, sizes_from: sources } = facts;
    if (sizes) byId("run-sizes").textContent = sizesInWords(sizes, sources);
    if (isCurrent()) paint();
    runIfWanted();
  });
  on("connection", (connection) => {
    if (connection.isUp) {
      if (connection.isBack) say("Connected again.");
      resume();
    } else {
      loseConnection();
      emit("trouble", connection.wait);
    }
    paint();
  });
}
