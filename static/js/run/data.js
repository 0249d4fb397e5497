// The data sets that the definition in hand runs on: scores take triples, layers graphs, each op lists of its kind.
import { edited, showTrouble } from "../model/compile.js";
import { byId, h, many } from "../dom.js";
import { chooseData, emit, on, state } from "../state.js";
/** @import { Dropped, Facts, Family, Offered } from "../types.d.ts" */

const PREFERRED_TRIPLES = "FB15k-237";
/** @type {Record<string, string | undefined>} what lists are for, as a reader calls several */
const PLURAL = { bag: "bags", matrix: "a matrix", query: "queries" };

/** @type {Family} of the newest text that compiled */
let family = "score";
let kind = ""; // what there must be to run it on: its family, of an op with the kind of its lists
/** @type {string | null} the kind whose data stands in the list */
let listed = null;

export const familyInHand = () => family;
export const isListed = () => listed === kind;
export const chosenData = () => select().value;

let wanted = ""; // the file that was dropped last, or the data of a run that was brought back, until others are chosen
/** @type {Map<string, string>} by name what files that were dropped are called */
const labels = new Map();

/**
 * What data are called: a file that was dropped has a name of its own on the server.
 * @param {string} name
 */
export const shownData = (name) => labels.get(name) ?? (name.startsWith("dropped-") ? "a file that was dropped" : name);

const select = () => byId("run-data", HTMLSelectElement);

/** @param {Facts | null} facts */
const kindOf = (facts) => (facts?.ok ? [facts.family, facts.lists].filter(Boolean).join(" ") : "");

async function load() {
  const asked = kind;
  byId("dock").dataset.family = family;
  const answer = await fetch(`/api/data?family=${family}`);
  if (!answer.ok) throw new Error(answer.statusText);
  /** @type {Offered[]} */
  const sets = await answer.json();
  if (asked !== kind) return;
  const lists = asked.split(" ")[1];
  list(lists ? sets.filter((set) => "for" in set && set.for === lists) : sets);
  listed = asked;
  emit("listed", undefined);
}

/** @param {Offered[]} offered */
function list(offered) {
  /** @type {(label: string, sets: Offered[]) => HTMLElement[]} */
  const group = (label, sets) =>
    sets.length ? [h("optgroup", { label }, ...sets.map(({ name, label: words }) => h("option", { value: name }, words)))] : [];
  /** @param {Offered} set */
  const isGenerated = ({ generated }) => generated;
  const real = offered.filter((set) => !isGenerated(set));
  for (const { name, label } of real) if (name.startsWith("dropped-")) labels.set(name, label.replace(/ \(.*$/, ""));
  select().replaceChildren(...group("files", real), ...group("generated, of published sizes", offered.filter(isGenerated)));
  const preferred = family === "score" ? PREFERRED_TRIPLES : state.data;
  for (const name of [preferred, wanted]) if (offered.some((set) => set.name === name)) select().value = name;
  const choose = () => chosen(offered.find(({ name }) => name === select().value));
  select().onchange = () => {
    wanted = "";
    choose();
  };
  choose();
}

/**
 * Data that the server has just been given, in place of what was chosen.
 * @param {Dropped} kept
 * @returns {Promise<string>} why it was not chosen; empty where it was
 */
export async function chooseDropped({ name, label, offers }) {
  const offer = offers[family];
  wanted = name;
  if (!offer || ("for" in offer && kind !== `${family} ${offer.for}`)) return misfit(label, offers);
  const trouble = await reload();
  return trouble && `${label} is kept, but not chosen: ${trouble}`;
}

/** @type {(label: string, offers: Dropped["offers"]) => string} */
function misfit(label, { score, op }) {
  const meant = score ? "scores, layers and ops over a matrix" : `ops over ${op && "for" in op ? PLURAL[op.for] : "lists"}`;
  return `${label} is kept, as data of ${meant}, which this definition is none of. It is chosen when one is.`;
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

/** Fetches the list; why it did not arrive, or nothing. */
async function reload() {
  try {
    await load();
    return "";
  } catch {
    const trouble = "The list of data sets did not arrive; reload the page.";
    showTrouble(trouble);
    return trouble;
  }
}

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
  on("restore", ({ data = "" }) => {
    wanted = data; // in the place of a file that was dropped before
  });
}
