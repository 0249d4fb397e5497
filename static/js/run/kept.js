// What the server's store has of this student's runs, for a page that does not have them: of another tab or browser of
// the same session, or from before the browser forgot.
/** @import { KeptRun, Result, RunOrder, Failed } from "../types.d.ts" */

/** @param {string | undefined} at where a run has got to in a store or a queue, whose first part is its name there */
export const nameIn = (at) => (at ?? "").replace(/^kept-/, "").split("/", 1)[0];

/** @returns {Promise<{ id: string, at: string, order: RunOrder, outcome: Result | Failed }[]>} those that have ended */
export async function keptRuns() {
  try {
    const answer = await fetch("/api/runs");
    if (!answer.ok) return [];
    /** @type {{ entries: KeptRun[] }} */
    const { entries } = await answer.json();
    return entries.flatMap(runOf);
  } catch {
    return []; // the page has its own
  }
}

/** @param {KeptRun} kept */
function runOf({ id, at, state, text, body: { asked, last } }) {
  if (state !== "ended" || !asked || !last) return [];
  const { peers, against, ...settings } = asked;
  /** @type {RunOrder} */
  const order = { ...settings, type: "run", run: 0, edit: 0, compiled: null, text, ...(peers ? { peers } : {}), ...(against ? { against } : {}) };
  return [{ id, at: new Date(1000 * at).toISOString(), order, outcome: last }];
}
