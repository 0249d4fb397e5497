// What the reader has chosen and what the page knows, in one place; kept in the URL's hash and in the tab's session
// so that a reload loses nothing.

const KEPT = "explorer";
const LONGEST_HASH = 12_000;

export const state = {
  text: "",
  edit: 1, // the sequence number of the newest edit
  good: 1, // the newest edit that compiled: the stages show it
  goodInput: null, // its text, sizes, options and data
  sizes: {}, // set since the data was chosen: they hold over what that fixes
  defaultSizes: {}, // set before: they hold where the data fixes nothing
  options: {},
  data: "", // what layers and ops are compiled for and run on
  against: null, // the sizes and options of side A, where the reader compares
  panes: [], // see freshPane
  active: 0, // the pane that keys act on
  facts: null, // of the newest answer
  example: "",
};

export const freshPane = (stage) => ({ stage, at: null, diff: false, passes: false, drawn: false });

export const isBroken = () => !!state.facts && !state.facts.ok;
export const isCurrent = () => state.facts?.edit === state.edit;

// Other data: what was set by hand holds only where that fixes nothing.
export function chooseData(name) {
  state.data = name;
  state.defaultSizes = { ...state.defaultSizes, ...state.sizes };
  state.sizes = {};
}

// A tiny event bus: modules speak of what happened, not to each other.
const listeners = new Map();
export function on(name, listener) {
  if (!listeners.has(name)) listeners.set(name, []);
  listeners.get(name).push(listener);
}
export function emit(name, detail) {
  for (const listener of listeners.get(name) ?? []) listener(detail);
}

const encode = (value) => {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
};
const decode = (text) => {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(binary, (c) => c.charCodeAt(0))));
};

const snapshot = () => ({
  text: state.text,
  sizes: state.sizes,
  defaultSizes: state.defaultSizes,
  options: state.options,
  data: state.data,
  panes: state.panes,
  against: state.against,
  example: state.example,
});

let timer = 0;
export function keep() {
  clearTimeout(timer);
  timer = setTimeout(keepNow, 150);
}

export function keepNow() {
  const kept = snapshot();
  const hash = `#1.${encode(kept)}`;
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(kept));
    if (hash.length <= LONGEST_HASH) history.replaceState(null, "", hash);
    else history.replaceState(null, "", location.pathname + location.search);
  } catch {
    // Storage may be full or forbidden: the page works without it.
  }
  return hash.length <= LONGEST_HASH;
}

// What was kept: the hash wins over the session, a link to an example over both.
export function recall() {
  const hash = location.hash.match(/^#1\.([\w-]+)$/);
  try {
    if (hash) return checked(decode(hash[1]));
    if (new URLSearchParams(location.search).has("example")) return null;
    return checked(JSON.parse(sessionStorage.getItem(KEPT)));
  } catch {
    return null;
  }
}

// The entries of a plain object whose values are good ones.
function entriesOf(value, isGood) {
  if (!value || typeof value !== "object" || Array.isArray(value)) return {};
  return Object.fromEntries(Object.entries(value).filter(isGood));
}

const isSize = ([, size]) => Number.isSafeInteger(size) && size >= 1;
const isSwitch = (name) =>
  [...document.querySelectorAll("[data-option]")].some(({ dataset }) => dataset.option === name);
const NUMBERS = ["opt", "vlen"];
const CHUNKS = ["inspect_edges", "inspect_group", "inspect_block", "inspect_cached"];
export const SUMS = ["split", "chunk", "lanes", "lane_vectors", "block_rows", "block_columns", "preload"];
export const WORDS = ["precision", "inspect", ...CHUNKS, ...SUMS, "arch"]; // options that are one of a few words
function isOption([name, value]) {
  if (name === "inspect" && typeof value === "boolean") return true; // a link from when it was a switch
  if (["negatives", ...WORDS].includes(name)) return typeof value === "string";
  if (NUMBERS.includes(name)) return Number.isSafeInteger(value) && value >= 0 && value <= 64;
  return isSwitch(name) && typeof value === "boolean";
}

// A link may be damaged or made by hand: what is of no use is left out, and the rest still opens.
function checked(kept) {
  if (typeof kept?.text !== "string") return null;
  const panes = (Array.isArray(kept.panes) ? kept.panes : [])
    .filter((pane) => typeof pane?.stage === "string" && pane.stage.length <= 40)
    .slice(0, 6)
    .map(({ stage, at, diff, passes, drawn }) => ({
      stage,
      at: Number.isInteger(at) && at >= 0 && at <= 1000 ? at : null,
      diff: diff === true,
      passes: passes === true,
      drawn: drawn === true,
    }));
  const example = /^[\w-]+\/[\w-]+$/.test(kept.example) ? kept.example : "";
  const sizes = entriesOf(kept.sizes, isSize);
  const data = typeof kept.data === "string" ? kept.data.slice(0, 200) : "";
  const options = entriesOf(kept.options, isOption);
  const against = kept.against
    ? { sizes: entriesOf(kept.against.sizes, isSize), options: entriesOf(kept.against.options, isOption) }
    : null;
  const defaultSizes = entriesOf(kept.defaultSizes, isSize);
  return { text: kept.text, sizes, defaultSizes, options, data, against, panes, example };
}
