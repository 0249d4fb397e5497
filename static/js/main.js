// Where the page starts: what was kept is put back, the parts are started, and clicks find their action.
import { edited, showTrouble, startCompiling } from "./compile.js";
import { byId, h } from "./dom.js";
import { makeEditor, replaceText } from "./editor.js";
import { showProblem, startKeys } from "./keys.js";
import { startLink, stepOperation, togglePin } from "./link.js";
import { share, showHelp, showTab, startPage, toggleTheme } from "./page.js";
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
import { exportRun, run, setTarget, startRuns, stop, toggleDock } from "./run.js";
import { resetSize, showOptions, startSettings, toggleSwitch } from "./settings.js";
import { connect } from "./socket.js";
import { on, recall, state } from "./state.js";

const paneOf = (element) => Number(element.closest(".pane").dataset.index);

const actions = {
  add: addPane,
  close: (element) => closePane(paneOf(element)),
  copy: (element) => copy(paneOf(element)),
  diff: (element) => toggle("diff", paneOf(element)),
  dock: () => toggleDock(),
  example: (element) => loadExample(element.dataset.example),
  export: exportJson,
  help: showHelp,
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
  const answer = await fetch(`/examples/${key}`);
  if (!answer.ok) return showTrouble("The example did not arrive. Your text is kept.");
  const [folder, name] = key.split("/");
  state.example = key;
  state.sizes = {};
  nameExample(folder, name);
  replaceText(await answer.text());
}

function nameExample(folder, name) {
  byId("example-group").textContent = `${folder} /`;
  byId("example-file").textContent = `${name}.emb`;
  byId("model-file").textContent = `${name}.emb`;
  document.title = `${name}.emb · Embedding Compiler Explorer`;
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
  state.text = kept?.text ?? shown;
  state.panes = paneElements().map(({ dataset }) => ({
    stage: dataset.stage,
    at: null,
    diff: false,
    passes: false,
  }));
  if (kept?.panes.length) state.panes = kept.panes;
  state.sizes = kept?.sizes ?? {};
  state.options = kept?.options ?? {};
  state.example = kept?.example ?? "";
  byId("editor").replaceChildren();
  makeEditor(byId("editor"), shown);
  startPage();
  startPanes();
  startLink();
  startSettings();
  startClicks();
  startKeys();
  on("trouble", (wait) => {
    if (wait < 2000) return;
    showTrouble(`Connection lost; trying again in ${Math.round(wait / 1000)} s. Edits are kept.`);
    byId("status").append(h("button.btn.line.s", { type: "button", "data-act": "reconnect" }, "Try now"));
  });
  startRuns();
  startCompiling();
  fitPanes();
  activate(0);
  showOptions();
  connect();
  if (state.example.includes("/")) nameExample(...state.example.split("/"));
  // The server drew its own example; what was kept takes its place.
  if (state.text !== shown) replaceText(state.text);
  else if (kept) edited();
}

start();
