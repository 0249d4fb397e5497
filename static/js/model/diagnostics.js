// What is wrong with the text, in the editor: a squiggle, and under the line the cause with buttons that mend it.
import { RangeSet, StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView, GutterMarker, WidgetType, gutterLineClass } from "@codemirror/view";

/** @import { StateEffectType, Text, Range } from "@codemirror/state" */
/** @import { DecorationSet } from "@codemirror/view" */
/** @import { Diagnostic, Place, PlacedDiagnostic } from "../types.d.ts" */
/** @typedef {{ marks: DecorationSet, gutter: RangeSet<GutterMarker> }} Shown */

/** @type {StateEffectType<Diagnostic[]>} */
const setDiagnostics = StateEffect.define();

/**
 * An offset in the document for a line and column of a diagnostic, held inside the text.
 * @param {Text} doc
 * @param {number} line
 * @param {number} column
 */
export function offsetOf(doc, line, column) {
  if (line > doc.lines) return doc.length;
  const at = doc.line(Math.max(1, line));
  // Columns count characters; the editor counts UTF-16 units.
  const units = [...at.text].slice(0, column - 1).join("").length;
  return Math.min(at.from + units, at.to);
}

/**
 * @param {Text} doc
 * @param {Place} place
 * @returns {[from: number, to: number]}
 */
export function rangeOf(doc, place) {
  return [offsetOf(doc, place.line, place.column), offsetOf(doc, place.end_line, place.end_column)];
}

class Block extends WidgetType {
  /** @param {PlacedDiagnostic[]} diagnostics */
  constructor(diagnostics) {
    super();
    this.diagnostics = diagnostics;
  }
  /** @param {Block} other */
  eq(other) {
    return JSON.stringify(other.diagnostics) === JSON.stringify(this.diagnostics);
  }
  /** @param {EditorView} view */
  toDOM(view) {
    const block = document.createElement("div");
    block.className = "diag-room";
    const inside = document.createElement("div");
    inside.className = "diag";
    for (const diagnostic of this.diagnostics) inside.append(this.#part(view, diagnostic));
    block.append(inside);
    return block;
  }
  /**
   * @param {EditorView} view
   * @param {Diagnostic} diagnostic
   */
  #part(view, { message, detail, fixes }) {
    const part = document.createElement("div");
    part.append(paragraph("", message));
    if (detail) part.append(paragraph("sub", detail));
    if (!fixes.length) return part;
    const row = document.createElement("div");
    row.className = "fix";
    for (const fix of fixes) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "btn line";
      button.textContent = fix.label;
      button.addEventListener("click", () => {
        const [from, to] = rangeOf(view.state.doc, fix);
        view.dispatch({ changes: { from, to, insert: fix.replacement }, userEvent: "input.fix" });
        view.focus();
      });
      row.append(button);
    }
    part.append(row);
    return part;
  }
  ignoreEvent() {
    return true;
  }
}

/**
 * Text with `code` in quotes or backticks set as code; all of it as text nodes.
 * @param {string} className
 * @param {string} text
 */
function paragraph(className, text) {
  const element = document.createElement("p");
  element.className = className;
  text.split(/(`[^`]+`|'[^']+')/).forEach((piece, index) => {
    if (index % 2 === 0) return element.append(piece);
    const code = document.createElement("code");
    code.textContent = piece.slice(1, -1);
    element.append(code);
  });
  return element;
}

class ErrorLine extends GutterMarker {
  elementClass = "eline";
}
const errorLine = new ErrorLine();
const squiggle = Decoration.mark({ class: "sq" });

/**
 * @param {Diagnostic} diagnostic
 * @returns {diagnostic is PlacedDiagnostic}
 */
const hasPlace = (diagnostic) => diagnostic.line !== null;

/**
 * @param {Text} doc
 * @param {Diagnostic[]} diagnostics
 * @returns {Shown}
 */
function decorate(doc, diagnostics) {
  /** @type {Range<Decoration>[]} */
  const marks = [];
  /** @type {Range<GutterMarker>[]} */
  const gutter = [];
  /** @type {Map<number, PlacedDiagnostic[]>} */
  const byLine = new Map();
  for (const diagnostic of diagnostics.filter(hasPlace)) {
    let [from, to] = rangeOf(doc, diagnostic);
    if (to <= from) {
      const line = doc.lineAt(from);
      to = Math.min(from + 1, line.to);
      if (to === from) from = Math.max(line.from, from - 1);
    }
    if (to > from) marks.push(squiggle.range(from, to));
    const last = doc.lineAt(from).number;
    byLine.set(last, [...(byLine.get(last) ?? []), diagnostic]);
  }
  for (const [number, ofLine] of byLine) {
    const line = doc.line(number);
    gutter.push(errorLine.range(line.from));
    marks.push(Decoration.widget({ widget: new Block(ofLine), block: true, side: 1 }).range(line.to));
  }
  return { marks: Decoration.set(marks, true), gutter: RangeSet.of(gutter, true) };
}

/** @type {StateField<Shown>} */
const field = StateField.define({
  create: () => ({ marks: Decoration.none, gutter: RangeSet.empty }),
  update(value, transaction) {
    for (const effect of transaction.effects) {
      if (effect.is(setDiagnostics)) return decorate(transaction.state.doc, effect.value);
    }
    if (!transaction.docChanged) return value;
    return { marks: value.marks.map(transaction.changes), gutter: value.gutter.map(transaction.changes) };
  },
  provide: (self) => [
    EditorView.decorations.from(self, (value) => value.marks),
    gutterLineClass.from(self, (value) => value.gutter),
  ],
});

export const diagnostics = field;
/**
 * @param {EditorView} view
 * @param {Diagnostic[]} list
 */
export const showDiagnostics = (view, list) => view.dispatch({ effects: setDiagnostics.of(list) });
