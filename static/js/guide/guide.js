// What helps in the first minutes: its parts, and what their buttons do.
import { showMore, startEffects } from "./effects.js";
import { copySnippet, showImported, showLanguage, showPapers, showWords, startExplaining } from "./explain.js";
import { startProjector, toggleProjector } from "./projector.js";
import { repaint } from "../model/compile.js";
import { byId } from "../dom.js";
import { say } from "../page.js";
import { leadTo } from "../stages/link.js";
import { on, state } from "../state.js";
import { backToText, leave, startStops, startTour, step } from "./tour.js";
/** @import { Kept } from "../types.d.ts" */

/** @type {Record<string, (element: HTMLElement) => unknown>} */
export const guideActions = {
  "about-close": leave,
  "copy-snippet": copySnippet,
  imported: showImported,
  language: showLanguage,
  more: showMore,
  papers: showPapers,
  projector: toggleProjector,
  retry: repaint,
  "source-close": async () => (await source()).closeSource(),
  "source-line": leadToLine,
  tour: startStops,
  "tour-back": backToText,
  "tour-before": () => step(-1),
  "tour-next": () => step(1),
  words: showWords,
};

// Fetched for the first model that has a source.
const source = () => import("./imported.js");

/** @param {HTMLElement} line of the source */
async function leadToLine(line) {
  const [first] = (await source()).operationsOf(line);
  if (first === undefined) say("The text no longer has what this line asks for.");
  else leadTo(first);
}

/** @param {string} example */
async function followSource(example) {
  if (!example.startsWith("pytorch/") && byId("imported").hidden) return;
  if (!(await (await source()).showSource(example))) say("The source did not arrive. Open the model again.");
}

/** @param {(kept: Kept) => void} adopt */
export function startGuide(adopt) {
  startEffects();
  startExplaining();
  startProjector();
  startTour(adopt);
  on("named", followSource);
  followSource(state.example);
}
