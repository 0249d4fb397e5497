// The text of a stage, edited in its pane: an editor that outlives the answers which draw the pane anew, and what was
// found of the text beneath the line that it is about.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { indentUnit } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, keymap, lineNumbers } from "@codemirror/view";
import { compileNow, edited } from "../model/compile.js";
import { diagnostics, offsetOf, showDiagnostics } from "../model/diagnostics.js";
import { isFree, nonce } from "../model/editor.js";
import { queryAll } from "../dom.js";
import { emit, on, state } from "../state.js";
import { say } from "../page.js";
import { changePane, wholeText } from "./panes.js";
/** @import { StateEffectType } from "@codemirror/state" */
/** @import { EditedFact } from "../types.d.ts" */

/** @type {Map<string, { view: EditorView, top: number, left: number }>} by stage its editor, and where it is scrolled to */
const editors = new Map();
const external = "set.text"; // a change that no hand made in the editor
let wanted = ""; // the stage whose editor is to have the focus once it is there

/** @param {string} stage */
const fact = (stage) => state.goodFacts?.edited.find((entry) => entry.stage === stage);

/**
 * Unlocks the text of a pane's stage, or shows what was made of it.
 * @param {number} index
 */
export async function toggleEditing(index) {
  const { stage, editing } = state.panes[index];
  if (editing && stage in state.edited) return close(index);
  wanted = stage;
  const views = { editing: true, at: null, diff: false, passes: false, drawn: false };
  if (stage in state.edited) return changePane(index, views);
  const text = await wholeText(index);
  if (!text) return say(`There is no ${stage} to edit yet.`);
  state.panes[index] = { ...state.panes[index], ...views };
  state.edited = { ...state.edited, [stage]: text };
  edited();
  compileNow();
}

/** @param {number} index */
function close(index) {
  wanted = "";
  const { stage } = state.panes[index];
  if (fact(stage)?.status === "same") return undo(index);
  changePane(index, { editing: false });
}

/**
 * Back to what the compiler makes.
 * @param {number} index
 */
export function undo(index) {
  wanted = "";
  const { stage } = state.panes[index];
  state.edited = Object.fromEntries(Object.entries(state.edited).filter(([name]) => name !== stage));
  state.panes = state.panes.map((pane) => (pane.stage === stage ? { ...pane, editing: false } : pane));
  editors.delete(stage);
  edited();
  compileNow();
}

/**
 * The edited text beside what the compiler made.
 * @param {number} index
 */
export const compareEdited = (index) =>
  changePane(index, { editing: false, at: null, diff: true, passes: false, drawn: false });

/**
 * @param {number} index
 * @param {{ line: number, column: number }} place
 */
export function goToEdited(index, place) {
  const { stage, editing } = state.panes[index];
  const known = editors.get(stage);
  if (!editing || !known) return void toggleEditing(index);
  const at = offsetOf(known.view.state.doc, place.line, place.column);
  known.view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
  known.view.focus();
}

/**
 * The operation under the pointer is lit everywhere, as in a text that is not edited.
 * @param {string} stage
 */
const pointing = (stage) =>
  EditorView.domEventHandlers({
    mousemove(event, view) {
      const line = view.state.doc.lineAt(view.posAtCoords({ x: event.clientX, y: event.clientY }, false)).number;
      const id = fact(stage)?.lines[line - 1] ?? null;
      emit("point", id === null ? [] : [id]);
    },
    mouseleave: () => emit("point", []),
  });

/** @type {StateEffectType<number[]>} the numbers of the lines that are lit */
const setLit = StateEffect.define();
const litLine = Decoration.line({ class: "lit-line" });
const litLines = StateField.define({
  create: () => Decoration.none,
  update(value, { changes, effects, newDoc }) {
    for (const effect of effects) {
      if (!effect.is(setLit)) continue;
      const lines = effect.value.filter((number) => number <= newDoc.lines);
      return Decoration.set(lines.map((number) => litLine.range(newDoc.line(number).from)));
    }
    return value.map(changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

/** @param {number[]} ids */
function light(ids) {
  for (const [stage, { view }] of editors) {
    const lines = (fact(stage)?.lines ?? []).flatMap((id, at) => (id !== null && ids.includes(id) ? [at + 1] : []));
    view.dispatch({ effects: setLit.of(lines) });
  }
}

/** @param {string} stage */
function make(stage) {
  const listener = EditorView.updateListener.of(({ docChanged, transactions, state: { doc } }) => {
    if (!docChanged || transactions.every((each) => each.isUserEvent(external))) return;
    state.edited = { ...state.edited, [stage]: doc.toString() };
    edited();
  });
  return new EditorView({
    state: EditorState.create({
      doc: state.edited[stage],
      extensions: [
        EditorView.cspNonce.of(nonce()),
        EditorView.contentAttributes.of({ "aria-label": `Text of ${stage}`, spellcheck: "false", tabindex: "0" }),
        indentUnit.of("  "),
        lineNumbers(),
        history(),
        drawSelection(),
        diagnostics,
        litLines,
        pointing(stage),
        listener,
        keymap.of([...defaultKeymap.filter(isFree), ...historyKeymap]), // Tab leaves it
      ],
    }),
  });
}

/** @param {string} stage its editor, with the text that the page has */
function editorOf(stage) {
  const known = editors.get(stage) ?? { view: make(stage), top: 0, left: 0 };
  editors.set(stage, known);
  const { doc } = known.view.state;
  if (doc.toString() !== state.edited[stage]) {
    const changes = { from: 0, to: doc.length, insert: state.edited[stage] };
    known.view.dispatch({ changes, userEvent: external });
  }
  return known;
}

/** @param {EditedFact} found */
function placed({ status, message, line, column }) {
  if (status !== "refused" && status !== "wrong") return [];
  const place = { line, column, end_line: line, end_column: column + 1 };
  return [{ ...place, message, detail: "", source: "", fixes: [], severity: "error" }];
}

// The editors back in their places, once the panes have been drawn anew.
function attach() {
  for (const host of queryAll(document, "[data-editing]")) {
    const stage = host.dataset.editing ?? "";
    if (!(stage in state.edited) || host.firstChild) continue;
    const { view, top, left } = editorOf(stage);
    host.append(view.dom);
    view.requestMeasure();
    view.scrollDOM.scrollTo(left, top);
    const found = fact(stage);
    showDiagnostics(view, found ? placed(found) : []);
    if (wanted !== stage) continue;
    view.focus();
    wanted = "";
  }
}

function remember() {
  for (const [stage, known] of editors) {
    known.top = known.view.scrollDOM.scrollTop;
    known.left = known.view.scrollDOM.scrollLeft;
    if (known.view.hasFocus) wanted = stage;
  }
}

export function startEditing() {
  on("before-swap", remember);
  on("swapped", attach);
  on("marks", ({ lit, pin }) => light(pin === null ? lit : [...lit, pin]));
}
