// What can be taken away as a file. What makes one is fetched when it is first asked for.
import { say } from "../page.js";
import { save } from "../stages/panes.js";
import { snapshot, state } from "../state.js";

/** @param {"html" | "py"} kind */
export async function exportAs(kind) {
  const { goodInput: input, goodFacts: facts } = state;
  if (!input || !facts) return say("There is nothing to export yet.");
  const name = facts.name || "model";
  if (kind === "py") {
    const { pythonFile } = await import("./python.js");
    return save(`${name.toLowerCase()}.py`, pythonFile(input, name), "text/x-python");
  }
  const { offlinePage } = await import("./offline.js");
  save(`${name}.html`, offlinePage({ ...snapshot(), ...input }), "text/html");
}
