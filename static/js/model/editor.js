// The model's editor: CodeMirror with the language's colours, the problems of the text, and marks on the operations
// that are lit or pinned.
import { closeBrackets } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { bracketMatching, indentUnit } from "@codemirror/language";
import { EditorState, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, drawSelection, keymap, lineNumbers } from "@codemirror/view";
import { diagnostics, offsetOf, rangeOf, showDiagnostics } from "./diagnostics.js";
import { need } from "../dom.js";
import { modelLanguage } from "./language.js";
import { emit, on, state } from "../state.js";
/** @import { Range, StateEffectType } from "@codemirror/state" */
/** @import { KeyBinding, ViewUpdate } from "@codemirror/view" */
/** @import { Place, Events, Operation } from "../types.d.ts" */

/** @typedef {[from: number, to: number]} Span offsets in the text */
/** @typedef {{ id: number, label: string, op: string, span: Span, extent: Span }} Placed an operation in the text */

/** @type {StateEffectType<Placed[]>} */

const setOperations = StateEffect.define();
/** @type {StateEffectType<Events["marks"]>} */
const setMarks = StateEffect.define();
const external = "set.text"; // a change that no hand made in the editor

// Where the operations stand, moved along with the text as it changes.
const operations = StateField.define({
  create: () => /** @type {Placed[]} */ ([]),
  update(value, transaction) {
    for (const effect of transaction.effects) if (effect.is(setOperations)) return effect.value;
    if (!transaction.docChanged) return value;
    // What is typed at an edge is not part of it; what is deleted or replaced ends up empty.
    /** @type {(span: Span) => Span} */
    const move = ([from, to]) => [transaction.changes.mapPos(from, 1), transaction.changes.mapPos(to, -1)];
    return value.map((entry) => ({ ...entry, span: move(entry.span), extent: move(entry.extent) }));
  },
});

const marks = StateField.define({
  create: () => /** @type {Events["marks"]} */ ({ lit: [], pin: null }),
  update(value, transaction) {
    for (const effect of transaction.effects) if (effect.is(setMarks)) return effect.value;
    return value;
  },
});

const litMark = Decoration.mark({ class: "o-lit" });
const pinMark = Decoration.mark({ class: "o-pin" });
const extentMark = Decoration.mark({ class: "x-lit" });

const operationMarks = EditorView.decorations.compute([operations, marks], (editor) => {
  const { lit, pin } = editor.field(marks);
  /** @type {Range<Decoration>[]} */
  const ranges = [];
  /** @type {(mark: Decoration, span: Span) => void} */
  const add = (mark, [from, to]) => {
    if (to > from) ranges.push(mark.range(from, to));
  };
  for (const operation of editor.field(operations)) {
    const isLit = lit.includes(operation.id);
    if (isLit) add(litMark, operation.span);
    else if (operation.id === pin) add(pinMark, operation.span);
    // Several operations at once would underline everything: only one alone shows its whole expression.
    if (isLit && lit.length === 1) add(extentMark, operation.extent);
  }
  return Decoration.set(ranges, true);
});

/**
 * The operation at a position: that of the token there, else the innermost expression around it.
 * @param {EditorState} editor
 * @param {number} position
 */
function operationAt(editor, position) {
  /** @type {(span: Span) => boolean} */
  const inside = ([from, to]) => from <= position && position < to;
  const all = editor.field(operations);
  /** @type {(operation: Placed) => number} */
  const width = ({ extent }) => extent[1] - extent[0];
  const token = all
    .filter(({ span }) => inside(span))
    .sort((a, b) => a.span[1] - a.span[0] - (b.span[1] - b.span[0]));
  if (token.length) return token[0].id;
  const around = all.filter(({ extent }) => inside(extent)).sort((a, b) => width(a) - width(b));
  return around.length ? around[0].id : null;
}

const pointer = EditorView.domEventHandlers({
  mousemove(event, view) {
    const position = view.posAtCoords({ x: event.clientX, y: event.clientY }, false);
    const box = view.coordsAtPos(position);
    const line = view.state.doc.lineAt(position);
    // Right of a line's end, or below the text, there is nothing to point at.
    const isOn = box && event.clientY >= box.top && event.clientY <= box.bottom && position < line.to;
    const id = isOn ? operationAt(view.state, position) : null;
    emit("point", id === null ? [] : [id]);
  },
  mouseleave: () => emit("point", []),
});

/** @param {ViewUpdate} update whether all of a text has made way for another */
function isWhole({ changes, startState: { doc } }) {
  let isAll = false;
  changes.iterChangedRanges((from, to) => (isAll ||= from === 0 && to === doc.length && to > 0));
  return isAll;
}

let wasPasted = false;
const listener = EditorView.updateListener.of((update) => {
  if (update.docChanged) {
    wasPasted = update.transactions.some((t) => t.isUserEvent("input.paste"));
    const text = update.state.doc.toString();
    emit("text", text);
    if (isWhole(update)) emit("replaced", text);
  } else if (update.selectionSet && update.transactions.some((t) => t.isUserEvent("select"))) {
    const id = operationAt(update.state, update.state.selection.main.head);
    if (id !== null) emit("point", [id]);
  }
});

export const nonce = () => need(document, 'meta[name="csp-nonce"]', HTMLMetaElement).content;

/** @type {EditorView} there from the start of the page on */
let view;

/**
 * @param {HTMLElement} parent
 * @param {string} text
 */
export function makeEditor(parent, text) {
  view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce()),
        EditorView.contentAttributes.of({ "aria-label": "Model text", "aria-description": "Escape, then Tab, leaves the editor", spellcheck: "false", tabindex: "0" }),
        EditorView.lineWrapping,
        EditorState.tabSize.of(4),
        indentUnit.of("    "),
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        modelLanguage,
        operations,
        marks,
        operationMarks,
        diagnostics,
        pointer,
        listener,
        keymap.of([indentWithTab, ...defaultKeymap.filter(isFree), ...historyKeymap]),
      ],
    }),
  });
}

// Keys that the page gives a meaning everywhere: moving over operations and passes, running.
/** @param {KeyBinding} binding */
export const isFree = ({ key = "" }) => !/^(Alt-Arrow(Up|Down|Left|Right)|Mod-Enter)$/.test(key);

/** @param {string} text */
export function replaceText(text) {
  view.dispatch({
    changes: { from: 0, to: view.state.doc.length, insert: text },
    effects: setOperations.of([]),
    userEvent: external,
    selection: { anchor: 0 },
  });
}

/** @param {{ line: number, column: number }} place */
export function goTo(place) {
  const at = offsetOf(view.state.doc, place.line, place.column);
  view.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
  view.focus();
}

const ROOM = 80; // px, of what stands below a problem's line

/**
 * A problem's place in view. Who types keeps the line of the cursor in view, so that nothing moves that far away.
 * @param {Place} place
 */
export function showPlace(place) {
  const at = offsetOf(view.state.doc, place.line, place.column);
  const [top, cursor] = [at, view.state.selection.main.head].map((where) => view.lineBlockAt(where).top);
  const isFar = Math.abs(top - cursor) + ROOM > view.scrollDOM.clientHeight;
  if (isFar && view.hasFocus && !wasPasted) return;
  view.dispatch({ effects: EditorView.scrollIntoView(at, { y: "nearest", yMargin: ROOM }) });
}

/**
 * Numbers of operations are places in the text. Those of a newer text by the older numbers: the operation that stands
 * where the older one has moved to, if it is still of its kind.
 * @param {Placed[]} before
 * @param {Placed[]} after
 */
function successors(before, after) {
  const found = new Map();
  for (const { id, label, op, span } of before) {
    const next = after.find(
      (other) =>
        Math.max(other.span[0], span[0]) < Math.min(other.span[1], span[1]) &&
        (other.label === label || other.op === op),
    );
    if (next) found.set(id, next.id);
  }
  return found;
}

on("facts", (facts) => {
  // An answer to an older text would mark the wrong places.
  if (facts.edit !== state.edit) return;
  const doc = view.state.doc;
  /** @type {(operation: Operation) => Placed} */
  const place = ({ id, label, op, extent, ...span }) => ({
    id,
    label,
    op,
    span: rangeOf(doc, span),
    extent: rangeOf(doc, extent),
  });
  showDiagnostics(view, facts.diagnostics);
  if (!facts.ok) return;
  const fresh = facts.operations.map(place);
  emit("renumbered", successors(view.state.field(operations), fresh));
  view.dispatch({ effects: setOperations.of(fresh) });
});

on("marks", (value) => view.dispatch({ effects: setMarks.of(value) }));
