// Where the page starts: what was kept is put back, the parts are started, and clicks find their action.
import { edited, showTrouble, startCompiling } from "./compile.js";
import { byId, h } from "./dom.js";
import { makeEditor, replaceText } from "./editor.js";
import { startFind } from "./find.js";
import { startGraphs } from "./graph.js";
import { showProblem, startKeys } from "./keys.js";
import { startLink, stepOperation, togglePin } from "./link.js";
import { startLocality } from "./locality.js";
import { fetchExample, nameExample, nameKept, startNaming } from "./naming.js";
import { say, share, showHelp, showTab, startPage, toggleTheme } from "./page.js";
import {
  activate,
  addPane,
  changePane,
  closePane,
  copy,
  download,
  exportJson,
  fitPanes,
  openStage,
  paneElements,
  startPanes,
  step,
  toggle,
  toggleChangedOnly,
} from "./panes.js";
import { startQueues } from "./queues.js";
import { compareLevels, exportRun, run, setTarget, startRuns, stop, toggleDock } from "./run.js";
import { resetMachine } from "./machine.js";
import { chooseLevel, resetSize, showOptions, startSettings, toggleComparison, toggleSwitch } from "./settings.js";
import { connect } from "./socket.js";
import { freshPane, on, recall, state } from "./state.js";

const paneOf = (element) => Number(element.closest(".pane").dataset.index);

const actions = {
  add: addPane,
  close: (element) => closePane(paneOf(element)),
  copy: (element) => copy(paneOf(element)),
  compare: toggleComparison,
  "compare-levels": compareLevels,
  diff: (element) => toggle("diff", paneOf(element)),
  drawn: (element) => changePane(paneOf(element), { drawn: true, diff: false }),
  dock: () => toggleDock(),
  example: (element) => loadExample(element.dataset.example),
  export: exportJson,
  help: showHelp,
  level: chooseLevel,
  "machine-reset": resetMachine,
  open: (element) => openStage(element.dataset.open),
  "operation-after": () => stepOperation(1),
  "operation-before": () => stepOperation(-1),
  pass: (element) => showPass(paneOf(element), Number(element.dataset.pass)),
  "pass-after": (element) => step(1, paneOf(element)),
  "pass-before": (element) => step(-1, paneOf(element)),
  passes: (element) => toggle("passes", paneOf(element)),
  pin: () => togglePin(),
  problem: (element) => showProblem(Number(element.dataset.problem)),
  reconnect: connect,
  run,
  "run-json": exportRun,
  save: (element) => download(paneOf(element)),
  share,
  "size-reset": resetSize,
  stop: () => stop(),
  switch: toggleSwitch,
  tab: (element) => showTab(element.dataset.tabTo),
  target: chooseTarget,
  text: (element) => changePane(paneOf(element), { drawn: false }),
  theme: toggleTheme,
};

function showPass(index, number) {
  const last = Number(paneElements()[index].dataset.last);
  changePane(index, { at: number === last ? null : number });
}

function chooseTarget(element) {
  setTarget(element.dataset.target);
  toggleDock(true);
}

async function loadExample(key) {
  byId("examples").hidePopover();
  const text = await fetchExample(key);
  if (text === null) return showTrouble("The example did not arrive. Your text is kept.");
  state.sizes = {};
  state.defaultSizes = {};
  nameExample(key, text);
  replaceText(text);
}

// What was kept, in place of what the page shows.
function adopt(kept) {
  const shown = state.text;
  if (kept.panes.length) state.panes = kept.panes;
  const { text, sizes, defaultSizes, options, data, against } = kept;
  Object.assign(state, { text, sizes, defaultSizes, options, data: data || state.data, against });
  fitPanes();
  showOptions();
  if (kept.example && kept.example !== state.example) nameKept(kept.example);
  if (text === shown) edited();
  else replaceText(text);
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
    const element = event.target.closest("[data-act]");
    const action =
      element && !element.disabled && element.matches("button, a") ? actions[element.dataset.act] : null;
    if (!action) return;
    event.preventDefault();
    action(element);
  });
  document.addEventListener("change", ({ target }) => {
    if (target.dataset.act === "stage")
      changePane(paneOf(target), { stage: target.value, at: null, diff: false });
    if (target.dataset.act === "changed-only") toggleChangedOnly();
  });
}

function start() {
  const shown = byId("editor").dataset.text;
  const kept = recall();
  state.text = shown;
  state.panes = paneElements().map(({ dataset }) => freshPane(dataset.stage));
  if (kept?.panes.length) state.panes = kept.panes;
  byId("editor").replaceChildren();
  makeEditor(byId("editor"), shown);
  startPage();
  startPanes();
  startGraphs();
  startFind();
  startQueues();
  startLink();
  startSettings();
  startClicks();
  startNaming();
  nameExample(byId("editor").dataset.example, shown);
  startKeys();
  on("trouble", (wait) => {
    if (wait < 2000) return;
    showTrouble(`Connection lost; trying again in ${Math.round(wait / 1000)} s. Edits are kept.`);
    byId("status").append(h("button.btn.line.s", { type: "button", "data-act": "reconnect" }, "Try now"));
  });
  startLocality();
  startRuns();
  startCompiling();
  fitPanes();
  activate(0);
  connect();
  // The server drew its own example; what was kept takes its place.
  if (kept) adopt({ ...kept, panes: [] });
  startLinks();
}

start();
