// Where the page starts: what was kept is put back, the parts are started, and clicks find their action.
import { askForHandIn, backToOwn, dismissSent, openAssignment, openSent, startClass } from "./classroom.js";
import { edited, showTrouble, startCompiling, tryAgain } from "./model/compile.js";
import { around, byId, h } from "./dom.js";
import { makeEditor, replaceText } from "./model/editor.js";
import { resetDecision, resetDecisions, startDecisions } from "./stages/decisions.js";
import { compareEdited, goToEdited, startEditing, toggleEditing, undo } from "./stages/editing.js";
import { guideActions, startGuide } from "./guide/guide.js";
import { startFind } from "./stages/find.js";
import { startGraphs } from "./stages/graph.js";
import { showHeat, startHeat, toggleHeat } from "./stages/heat.js";
import { showProblem, startKeys } from "./keys.js";
import { leadTo, startLink, stepOperation, togglePin } from "./stages/link.js";
import { startLocality } from "./run/locality.js";
import { fetchExample, nameExample, nameFile, nameKept, nameOwn, startNaming } from "./model/naming.js";
import { say, share, showHelp, showTab, startPage, toggleDock, toggleTheme } from "./page.js";
import {
  activate,
  addPane,
  changePane,
  closePane,
  copy,
  download,
  exportJson,
  fitPanes,
  openPass,
  openStage,
  paneElements,
  startPanes,
  step,
  toggle,
  toggleChangedOnly,
  toggleDecisions,
} from "./stages/panes.js";
import { compareWith, startPasses } from "./stages/passes.js";
import { startArranging } from "./stages/arrange.js";
import { showRest } from "./stages/rest.js";
import { exportAs } from "./exports/exports.js";
import { startOpening } from "./exports/opening.js";
import { startQueues } from "./stages/queues.js";
import { startScrolling } from "./stages/scrolling.js";
import { startSides, swapSides, toggleComparison } from "./compare/sides.js";
import { isData, sendData, startDropping } from "./run/dropping.js";
import { exportRuns, exportTable } from "./run/history.js";
import { compareLevels, exportRun, run, runBoth, setTarget, startRuns, stop, tune } from "./run/run.js";
import { startSpent } from "./run/spent.js";
import { resetMachine } from "./run/machine.js";
import { chooseLevel, resetSize, showOptions, startSettings, toggleSwitch } from "./model/settings.js";
import { closeStory, leaveFor, openStory, startStory, stepStory, tellLater, tellMachineCode } from "./story/story.js";
import { connect } from "./socket.js";
import { freshPane, on, recall, recallFrom, state } from "./state.js";
import htmx from "htmx.org";
/** @import { Kept, Pane, Target } from "./types.d.ts" */

window.htmx = htmx;

/** @param {HTMLElement} element */
const paneOf = (element) => Number(around(element, ".pane")?.dataset.index);

/** @param {HTMLElement} element */
const placeOf = ({ dataset: { line, column } }) => ({ line: Number(line), column: Number(column) });

/** @type {Record<string, ((element: HTMLElement) => unknown) | undefined>} */
const actions = {
  ...guideActions,
  add: addPane,
  "class-assignment": openAssignment,
  "class-back": backToOwn,
  "class-dismiss": dismissSent,
  "class-hand-in": askForHandIn,
  "class-open": openSent,
  close: (element) => closePane(paneOf(element)),
  copy: (element) => copy(paneOf(element)),
  compare: toggleComparison,
  "compare-levels": compareLevels,
  "decision-reset": resetDecision,
  decisions: (element) => toggleDecisions(paneOf(element)),
  "decisions-reset": resetDecisions,
  diff: (element) => toggle("diff", paneOf(element)),
  drawn: (element) => changePane(paneOf(element), { drawn: true, diff: false }),
  dock: () => toggleDock(),
  "edit-compare": (element) => compareEdited(paneOf(element)),
  "edit-operation": (element) => togglePin(Number(element.dataset.operationOf)),
  "edit-place": (element) => goToEdited(paneOf(element), placeOf(element)),
  "edit-stage": (element) => toggleEditing(paneOf(element)),
  "edit-undo": (element) => undo(paneOf(element)),
  example: (element) => loadExample(element.dataset.example ?? ""),
  export: exportJson,
  "export-page": () => exportAs("html"),
  "export-python": () => exportAs("py"),
  heat: toggleHeat,
  help: showHelp,
  lead: (element) => leadTo(Number(element.dataset.operation)),
  level: chooseLevel,
  "made-by": (element) => openPass(element.dataset.stage ?? "", Number(element.dataset.pass)),
  "machine-reset": resetMachine,
  open: (element) => openStage(element.dataset.open ?? ""),
  "operation-after": () => stepOperation(1),
  "operation-before": () => stepOperation(-1),
  pass: (element) => showPass(paneOf(element), Number(element.dataset.pass)),
  "pass-after": (element) => step(1, paneOf(element)),
  "pass-before": (element) => step(-1, paneOf(element)),
  passes: (element) => toggle("passes", paneOf(element)),
  pin: () => togglePin(),
  problem: (element) => showProblem(Number(element.dataset.problem)),
  reconnect: connect,
  rest: (element) => showRest(paneElements()[paneOf(element)]),
  run,
  "run-both": runBoth,
  "run-json": exportRun,
  "runs-csv": exportTable,
  "runs-json": exportRuns,
  save: (element) => download(paneOf(element)),
  share,
  "size-reset": resetSize,
  stop: () => stop(),
  "swap-sides": swapSides,
  "try-again": tryAgain,
  story: (element) => openStory(element.dataset.operation ? Number(element.dataset.operation) : undefined),
  "story-after": () => stepStory(1),
  "story-before": () => stepStory(-1),
  "story-close": closeStory,
  "story-machine-code": tellMachineCode,
  "story-pane": leaveFor,
  "story-pass": leaveFor,
  switch: toggleSwitch,
  tab: (element) => showTab(element.dataset.tabTo ?? ""),
  target: chooseTarget,
  text: (element) => changePane(paneOf(element), { drawn: false }),
  theme: toggleTheme,
  tune,
};

/**
 * @param {number} index
 * @param {number} number
 */
function showPass(index, number) {
  const last = Number(paneElements()[index].dataset.last);
  changePane(index, { at: number === last ? null : number });
}

/** @type {(name?: string) => name is Target} */
const isTarget = (name) => name === "cpu" || name === "dae" || name === "gpu";

/** @param {HTMLElement} element */
function chooseTarget({ dataset: { target } }) {
  if (isTarget(target)) setTarget(target);
  toggleDock(true);
}

/** @param {string} key */
async function loadExample(key) {
  if (byId("examples").matches(":popover-open")) byId("examples").hidePopover();
  const text = await fetchExample(key);
  if (text === null) return showTrouble("The example did not arrive. Your text is kept.");
  state.sizes = {};
  state.defaultSizes = {};
  state.schedule = {};
  state.edited = {};
  nameExample(key, text);
  replaceText(text);
}

/**
 * What was kept, in place of what the page shows.
 * @param {Kept} kept
 */
function adopt(kept) {
  const shown = state.text;
  if (kept.panes.length) state.panes = kept.panes;
  const { text, sizes, defaultSizes, options, schedule, edited: texts, data, against, layout } = kept;
  const chosen = { text, sizes, defaultSizes, options, schedule, edited: texts, against, layout };
  Object.assign(state, { ...chosen, data: data || state.data });
  tellLater(kept.story);
  showHeat(kept.heat);
  fitPanes();
  showOptions();
  if (kept.example !== state.example) {
    if (kept.example) nameKept(kept.example);
    else nameOwn();
  }
  if (text === shown) edited();
  else replaceText(text);
}

// A run of the history: what it was of, in the panes that are open.
function startRestoring() {
  on("restore", (order) => {
    const { text, sizes, default_sizes: defaultSizes, options, schedule, edited: texts = {}, data, against } = order;
    const side = against ? { sizes: against.sizes, options: against.options, schedule: against.schedule } : null;
    const { layout, story, example, heat } = state;
    const input = { text, sizes, defaultSizes, options, schedule, edited: texts, data };
    adopt({ ...input, against: side, panes: [], layout, story, example, heat });
  });
}

// A link pasted into this tab changes only the hash. What the page itself writes there makes no such event.
function startLinks() {
  window.addEventListener("hashchange", () => {
    if (!/^#1\./.test(location.hash)) return;
    const kept = recall();
    if (kept) adopt(kept);
    else say("This link is damaged: it holds no model.");
  });
}

function startClicks() {
  document.addEventListener("click", (event) => {
    const element = around(event.target, "[data-act]");
    if (!element?.matches("button:enabled, a")) return;
    const action = actions[element.dataset.act ?? ""];
    if (!action) return;
    event.preventDefault();
    action(element);
  });
  document.addEventListener("change", ({ target }) => {
    if (target instanceof HTMLSelectElement && target.dataset.act === "stage")
      changePane(paneOf(target), { stage: target.value, at: null, diff: false, versus: null });
    if (target instanceof HTMLSelectElement && target.dataset.act === "versus") compareWith(paneOf(target), target.value);
    if (target instanceof HTMLInputElement && target.dataset.act === "changed-only") toggleChangedOnly();
  });
}

/**
 * A pane as the server drew it: at a pass, perhaps beside what that was given.
 * @param {HTMLElement} pane
 * @returns {Pane}
 */
function paneDrawn({ dataset: { stage = "", at, last, diff } }) {
  return { ...freshPane(stage), at: at === last || at === "-1" ? null : Number(at), diff: diff !== undefined };
}

function start() {
  const editor = byId("editor");
  const { text: shown = "", example = "" } = editor.dataset;
  const [navigation] = performance.getEntriesByType("navigation");
  const kept = recall(navigation instanceof PerformanceNavigationTiming && navigation.type === "reload");
  state.text = shown;
  state.panes = paneElements().map(paneDrawn);
  if (kept?.panes.length) state.panes = kept.panes;
  editor.replaceChildren();
  makeEditor(editor, shown);
  startPage();
  startPanes();
  startDecisions();
  startPasses();
  startEditing();
  startGraphs();
  startFind();
  startQueues();
  startScrolling();
  startHeat();
  startLink();
  startSpent();
  startStory();
  startSettings();
  startSides();
  startClicks();
  startNaming();
  nameExample(example, shown);
  startKeys();
  on("trouble", (wait) => {
    if (wait < 2000) return;
    showTrouble(`Connection lost; trying again in ${Math.round(wait / 1000)} s. Edits are kept.`);
    byId("status").append(h("button.btn.line.s", { type: "button", "data-act": "reconnect" }, "Try now"));
  });
  startClass();
  startLocality();
  startRuns();
  startCompiling();
  fitPanes();
  activate(0);
  connect();
  // The server drew its own example; what was kept takes its place.
  if (kept) adopt({ ...kept, panes: [] });
  startLinks();
  startDropping();
  startOpening(
    { is: isData, send: sendData },
    (found) => {
      const saved = recallFrom(found);
      if (saved) adopt(saved);
      return saved !== null;
    },
    (name, text) => {
      nameFile(name, text);
      replaceText(text);
    },
  );
  startRestoring();
  startArranging();
  startGuide(adopt);
}

start();
