// What the reader has chosen and what the page knows, in one place; kept in the URL's hash and in the tab's session
// so that a reload loses nothing.

const KEPT = "explorer";
const LONGEST_HASH = 12_000;

export const state = {
  text: "",
  edit: 1, // the sequence number of the newest edit
  good: 1, // the newest edit that compiled: the stages show it
  goodInput: null, // its text, sizes and options
  sizes: {},
  options: {},
  panes: [], // {stage, at, diff, passes}
  active: 0, // the pane that keys act on
  facts: null, // of the newest answer
  example: "",
};

export const isBroken = () => !!state.facts && !state.facts.ok;
export const isCurrent = () => state.facts?.edit === state.edit;

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
  options: state.options,
  panes: state.panes,
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

function checked(kept) {
  if (typeof kept?.text !== "string" || !Array.isArray(kept.panes)) return null;
  const plain = (value) => (value && typeof value === "object" && !Array.isArray(value) ? value : {});
  const panes = kept.panes
    .filter((pane) => typeof pane?.stage === "string")
    .slice(0, 6)
    .map(({ stage, at, diff, passes }) => ({
      stage,
      at: Number.isInteger(at) ? at : null,
      diff: diff === true,
      passes: passes === true,
    }));
  const example = typeof kept.example === "string" ? kept.example : "";
  return { text: kept.text, sizes: plain(kept.sizes), options: plain(kept.options), panes, example };
}
