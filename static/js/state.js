// What the reader has chosen and what the page knows, in one place; kept in the URL's hash and in the tab's session
// so that a reload loses nothing.
/** @import { Edited, Events, Kept, Listener, Options, Pane, Schedule, Sizes, State } from "./types.d.ts" */

import { byId, queryAll } from "./dom.js";

const KEPT = "explorer";
const BEFORE = "explorer-before"; // the address before the newest, and when it was left
const RELOAD = 10_000; // ms that a reload may take
const LONGEST_HASH = 12_000;

/** @type {State} */
export const state = {
  text: "",
  edit: 1, // the sequence number of the newest edit
  good: 1, // the newest edit that compiled: the stages show it
  goodInput: null, // its text, sizes, options and data
  goodFacts: null, // what was answered to it
  sizes: {}, // set since the data was chosen: they hold over what that fixes
  defaultSizes: {}, // set before: they hold where the data fixes nothing
  options: {},
  schedule: {}, // what to choose for kernels of a GPU, by kernel and decision
  edited: {}, // texts of stages in the place of the compiler's
  scheduleBefore: {}, // the same before its last change
  data: "", // what layers and ops are compiled for and run on
  against: null, // the sizes and options of side A, where the reader compares
  panes: [], // see freshPane
  layout: {}, // the widths of columns and heights of rows, by their number: see stages/arrange.js
  story: null, // the operation whose story is told
  heat: false, // whether each line has the time of its operation beside it
  active: 0, // the pane that keys act on
  facts: null, // of the newest answer
  example: "",
};

/**
 * @param {string} stage
 * @returns {Pane}
 */
export const freshPane = (stage) => ({
  ...{ stage, at: null, diff: false, passes: false, drawn: false, decisions: true, editing: false, versus: null },
});

export const isBroken = () => !!state.facts && !state.facts.ok;
export const isCurrent = () => state.facts?.edit === state.edit;

/**
 * Other data: what was set by hand holds only where that fixes nothing.
 * @param {string} name
 */
export function chooseData(name) {
  state.data = name;
  state.defaultSizes = { ...state.defaultSizes, ...state.sizes };
  state.sizes = {};
}

// A tiny event bus: modules speak of what happened, not to each other.
/** @type {{ [K in keyof Events]?: Listener<K>[] }} */
const listeners = {};

/**
 * @template {keyof Events} K
 * @param {K} name
 * @param {Listener<K>} listener
 */
export function on(name, listener) {
  /** @type {Listener<K>[]} */
  const known = (listeners[name] ??= []);
  known.push(listener);
}

/**
 * @template {keyof Events} K
 * @param {K} name
 * @param {Events[K]} detail
 */
export function emit(name, detail) {
  for (const listener of listeners[name] ?? []) listener(detail);
}

/** @param {Kept} value */
const encode = (value) => {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
};
/**
 * @param {string} text
 * @returns {unknown}
 */
const decode = (text) => {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (c) => c.charCodeAt(0))));
};

/** @returns {Kept} */
export const snapshot = () => ({
  text: state.text,
  sizes: state.sizes,
  defaultSizes: state.defaultSizes,
  options: state.options,
  schedule: state.schedule,
  edited: state.edited,
  data: state.data,
  panes: state.panes,
  against: state.against,
  story: state.story,
  example: state.example,
  layout: state.layout,
  heat: state.heat,
});

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer; // of what is still to be kept
export function keep(wait = 150) {
  clearTimeout(timer);
  timer = setTimeout(keepNow, wait);
}
// A page that is left within that time keeps it then.
window.addEventListener("pagehide", () => timer !== undefined && keepNow());

/** @returns {Promise<string | null>} the address of a short link to what the page holds; null where none was made */
export async function shortLink() {
  const { defaultSizes, ...kept } = snapshot();
  const body = JSON.stringify({ ...kept, default_sizes: defaultSizes });
  try {
    const answer = await fetch("/api/share", { method: "POST", body });
    if (!answer.ok) return null;
    const { path } = /** @type {{ path: string }} */ (await answer.json());
    return new URL(path, location.href).href;
  } catch {
    return null;
  }
}

export function keepNow() {
  clearTimeout(timer);
  timer = undefined;
  const kept = snapshot();
  const hash = `#1.${encode(kept)}`;
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(kept));
    sessionStorage.setItem(BEFORE, JSON.stringify([location.href, Date.now()]));
    // A short link's own text is the newest no more.
    const path = location.pathname.startsWith("/s/") ? "/" : location.pathname + location.search;
    history.replaceState(null, "", hash.length <= LONGEST_HASH ? path + hash : path);
  } catch {
    // Storage may be full or forbidden: the page works without it.
  }
  return hash.length <= LONGEST_HASH;
}

/** What the page was opened with by a short link. */
const linked = () => byId("editor").dataset.kept;

// Whether the address is the one from before the newest, which the page got only when it was being reloaded.
function wasLeftNow() {
  const [address, at] = JSON.parse(sessionStorage.getItem(BEFORE) ?? "[]");
  return address === location.href && Date.now() - at < RELOAD;
}

// What was kept: the hash wins over a short link, that over the session, a link to an example over both; the session over
// all where a reload began before the address had the newest, which is still the one from before then.
export function recall(isReload = false) {
  const hash = location.hash.match(/^#1\.([\w-]+)$/);
  try {
    if (isReload && wasLeftNow()) return checked(JSON.parse(sessionStorage.getItem(KEPT) ?? "null"));
    if (hash) return checked(decode(hash[1]));
    const shared = linked();
    if (shared) return checked(JSON.parse(shared));
    if (new URLSearchParams(location.search).has("example")) return null;
    return checked(JSON.parse(sessionStorage.getItem(KEPT) ?? "null"));
  } catch {
    return null;
  }
}

/**
 * What a saved page holds, as far as it is of use.
 * @param {unknown} found
 */
export const recallFrom = (found) => checked(found);

/**
 * The fields of what is an object; of all else, none.
 * @param {unknown} value
 * @returns {Record<string, unknown>}
 */
const fieldsOf = (value) => (value && typeof value === "object" && !Array.isArray(value) ? { ...value } : {});

/**
 * @param {unknown} value
 * @returns {Sizes}
 */
const sizesIn = (value) =>
  Object.fromEntries(Object.entries(fieldsOf(value)).flatMap(([name, size]) => (isSize(size) ? [[name, size]] : [])));

/**
 * @param {unknown} value
 * @returns {Options}
 */
const optionsIn = (value) =>
  Object.fromEntries(Object.entries(fieldsOf(value)).flatMap(([name, set]) => (isOption(name, set) ? [[name, set]] : [])));

/**
 * @param {unknown} value
 * @returns {Record<string, number[]>}
 */
const layoutIn = (value) =>
  Object.fromEntries(
    Object.entries(fieldsOf(value)).flatMap(([name, sizes]) =>
      /^(columns|rows)[2-6]$/.test(name) && Array.isArray(sizes) && sizes.length <= 6 && sizes.every(isSize)
        ? [[name, sizes]]
        : [],
    ),
  );

const MOST_CHOICES = 2000;
const LARGEST_CHOICE = 2 ** 31 - 1;

/**
 * @param {unknown} value
 * @returns {Schedule}
 */
const scheduleIn = (value) =>
  Object.fromEntries(
    Object.entries(fieldsOf(value))
      .flatMap(([key, chosen]) => (isChoice(key, chosen) ? [[key, chosen]] : []))
      .slice(0, MOST_CHOICES),
  );

const LONGEST_EDIT = 131_072;

/**
 * @param {unknown} value
 * @returns {Edited}
 */
const editedIn = (value) =>
  Object.fromEntries(
    Object.entries(fieldsOf(value))
      .flatMap(([stage, text]) => (typeof text === "string" && /^[\w.]{1,40}$/.test(stage) ? [[stage, text]] : []))
      .filter(([, text]) => text.length <= LONGEST_EDIT),
  );

/**
 * @param {string} key
 * @param {unknown} value
 */
function isChoice(key, value) {
  if (!/^[^.]+\.[^.]+$/.test(key) || key.length > 200) return false;
  if (typeof value === "string") return value.length <= 200;
  return typeof value === "boolean" || (isWhole(value) && Math.abs(value) <= LARGEST_CHOICE);
}

/**
 * @param {unknown} size
 * @returns {size is number}
 */
const isSize = (size) => isWhole(size) && size >= 1;

/**
 * @param {unknown} value
 * @returns {value is number}
 */
const isWhole = (value) => Number.isSafeInteger(value);

/** @param {string} name */
const isSwitch = (name) =>
  queryAll(document, "[data-option]").some(({ dataset }) => dataset.option === name);
const NUMBERS = ["opt", "vlen"];
const CHUNKS = ["inspect_edges", "inspect_group", "inspect_block", "inspect_cached"];
const SUMS = ["split", "encoding", "chunk", "lanes", "lane_vectors", "block_rows", "block_columns", "preload"];
export const WORDS = ["edges", "pad", "precision", "inspect", ...CHUNKS, ...SUMS, "arch"]; // options that are one of a few words

/**
 * @param {string} name
 * @param {unknown} value
 * @returns {value is string | number | boolean}
 */
function isOption(name, value) {
  if (name === "inspect" && typeof value === "boolean") return true; // a link from when it was a switch
  if (["negatives", ...WORDS].includes(name)) return typeof value === "string";
  if (NUMBERS.includes(name)) return isWhole(value) && value >= 0 && value <= 64;
  return isSwitch(name) && typeof value === "boolean";
}

/**
 * A link may be damaged or made by hand: what is of no use is left out, and the rest still opens.
 * @param {unknown} found
 * @returns {Kept | null}
 */
function checked(found) {
  const { text, sizes, defaultSizes, options, schedule, edited, data, against } = fieldsOf(found);
  const { panes, example, layout, story, heat } = fieldsOf(found);
  if (typeof text !== "string") return null;
  const sides = fieldsOf(against);
  return {
    text,
    sizes: sizesIn(sizes),
    defaultSizes: sizesIn(defaultSizes),
    options: optionsIn(options),
    schedule: scheduleIn(schedule),
    edited: editedIn(edited),
    data: typeof data === "string" ? data.slice(0, 200) : "",
    against: against
      ? { sizes: sizesIn(sides.sizes), options: optionsIn(sides.options), schedule: scheduleIn(sides.schedule) }
      : null,
    story: isWhole(story) && story >= 0 ? story : null,
    panes: (Array.isArray(panes) ? panes : []).flatMap(paneIn).slice(0, 6),
    example: typeof example === "string" && /^[\w-]+\/[\w-]+$/.test(example) ? example : "",
    layout: layoutIn(layout),
    heat: heat === true,
  };
}

/**
 * @param {unknown} found
 * @returns {Pane[]}
 */
function paneIn(found) {
  const { stage, at, diff, passes, drawn, decisions, editing, versus } = fieldsOf(found);
  if (typeof stage !== "string" || stage.length > 40) return [];
  const isPass = isWhole(at) && at >= 0 && at <= 1000;
  const other = fieldsOf(versus);
  const isPoint = typeof other.stage === "string" && other.stage.length <= 40 && isWhole(other.at) && other.at >= -1 && other.at <= 1000;
  const point = isPoint ? { stage: String(other.stage), at: Number(other.at) } : null;
  const views = { diff: diff === true, passes: passes === true, drawn: drawn === true, decisions: decisions !== false };
  return [{ stage, at: isPass ? at : null, ...views, editing: editing === true, versus: point }];
}
