// What helps in the first minutes: its parts, and what their buttons do.
import { showMore, startEffects } from "./effects.js";
import { copySnippet, showLanguage, showPapers, showWords, startExplaining } from "./explain.js";
import { startProjector, toggleProjector } from "./projector.js";
import { repaint } from "../model/compile.js";
import { backToText, close, startStops, startTour, step } from "./tour.js";
/** @import { Kept } from "../types.d.ts" */

/** @type {Record<string, (element: HTMLElement) => unknown>} */
export const guideActions = {
  "about-close": close,
  "copy-snippet": copySnippet,
  language: showLanguage,
  more: showMore,
  papers: showPapers,
  projector: toggleProjector,
  retry: repaint,
  tour: startStops,
  "tour-back": backToText,
  "tour-before": () => step(-1),
  "tour-next": () => step(1),
  words: showWords,
};

/** @param {(kept: Kept) => void} adopt */
export function startGuide(adopt) {
  startEffects();
  startExplaining();
  startProjector();
  startTour(adopt);
}
