// The data sets that the definition in hand runs on: scores take triples, layers graphs, each op lists of its kind.
import { edited, showTrouble } from "../model/compile.js";
import { byId, h, many } from "../dom.js";
import { chooseData, emit, on, state } from "../state.js";
/** @import { Facts, Family, Offered } from "../types.d.ts" */

const PREFERRED_TRIPLES = "FB15k-237";

/** @type {Family} of the newest text that compiled */
let family = "score";
let kind = ""; // what there must be to run it on: its family, of an op with the kind of its lists
/** @type {string | null} the kind whose data stands in the list */
let listed = null;

export const familyInHand = () => family;
export const isListed = () => listed === kind;
export const chosenData = () => select().value;

const select = () => byId("run-data", HTMLSelectElement);

/** @param {Facts | null} facts */
const kindOf = (facts) => (facts?.ok ? [facts.family, facts.lists].filter(Boolean).join(" ") : "");

async function load() {
  const asked = kind;
  byId("dock").dataset.family = family;
  const answer = await fetch(`/api/data?family=${family}`);
  /** @type {Offered[]} */
  const sets = answer.ok ? await answer.json() : [];
  if (asked !== kind) return;
  const lists = asked.split(" ")[1];
  list(lists ? sets.filter((set) => "for" in set && set.for === lists) : sets);
  listed = asked;
  emit("listed", undefined);
}

/** @param {Offered[]} offered */
function list(offered) {
  select().replaceChildren(...offered.map(({ name, label }) => h("option", { value: name }, label)));
  const preferred = family === "score" ? PREFERRED_TRIPLES : state.data;
  if (offered.some(({ name }) => name === preferred)) select().value = preferred;
  const choose = () => chosen(offered.find(({ name }) => name === select().value));
  select().onchange = choose;
  choose();
}

/** @param {Offered | undefined} set */
function chosen(set) {
  const name = chosenData();
  byId("data-about").textContent = set ? counted(set) : "";
  emit("data", { name, family });
  if (family === "score" || name === state.data) return;
  chooseData(name);
  edited(); // sizes and costs depend on the data
}

/** @param {Offered} set */
function counted(set) {
  if ("edges" in set)
    return `${many(set.nodes, "node")} of ${many(set.ntypes, "type")}, ${many(set.edges, "edge")} of ${many(set.etypes, "type")}`;
  if ("triples" in set)
    return `${many(set.entities, "entity", "entities")}, ${many(set.relations, "relation")}, ${many(set.triples, "triple")}`;
  return "";
}

const reload = () => load().catch(() => showTrouble("The list of data sets did not arrive; reload the page."));

/** @param {Facts} facts */
function follow(facts) {
  if (facts.ok && kindOf(facts) !== kind) {
    family = facts.family;
    kind = kindOf(facts);
    reload();
  } else if (family !== "score" && chosenData() !== state.data) {
    select().value = state.data;
    select().dispatchEvent(new Event("change"));
  }
}

export function startData() {
  if (state.facts?.ok) family = state.facts.family;
  kind = kindOf(state.facts);
  reload();
  on("facts", follow);
}
