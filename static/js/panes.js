// The panes and the rail: which stage stands where, at which pass, and what can be taken away from it.
import { repaint } from "./compile.js";
import { emit, freshPane, isBroken, on, state } from "./state.js";
import { say } from "./page.js";

const root = () => document.getElementById("panes");
export const paneElements = () => [...root().querySelectorAll(":scope > .pane")];
export const activePane = () => paneElements()[state.active] ?? null;
const mostShown = () =>
  matchMedia("(max-width: 699px)").matches ? 1 : matchMedia("(max-width: 1199px)").matches ? 2 : 6;

export function activate(index) {
  state.active = Math.max(0, Math.min(index, state.panes.length - 1));
  paneElements().forEach((pane, at) =>
    pane.classList.toggle("active", at === state.active && state.panes.length > 1),
  );
}

function change(index, values) {
  state.panes[index] = { ...state.panes[index], ...values };
  repaint();
}

export function openStage(stage) {
  const shown = state.panes.findIndex((pane) => pane.stage === stage);
  if (shown >= 0) {
    activate(shown);
    activePane()?.querySelector(".body")?.focus({ preventScroll: true });
    return;
  }
  change(state.active, { stage, at: null, diff: false });
}

export function addPane() {
  const shown = new Set(state.panes.map((pane) => pane.stage));
  const all = [...root().querySelector('select[data-act="stage"]').options].map((option) => option.value);
  if (state.panes.length >= mostShown())
    return say(`At most ${mostShown()} panes fit here; close one first.`);
  state.panes.push(freshPane(all.find((name) => !shown.has(name)) ?? all[0]));
  state.active = state.panes.length - 1;
  repaint();
}

export function closePane(index = state.active) {
  if (state.panes.length === 1) return say("The last pane stays open.");
  state.panes.splice(index, 1);
  state.active = Math.min(state.active, state.panes.length - 1);
  repaint();
}

export function movePane(step) {
  const count = state.panes.length;
  activate((state.active + step + count) % count);
  activePane()?.querySelector(".body")?.focus({ preventScroll: true });
}

export function step(by, index = state.active) {
  const pane = paneElements()[index];
  const last = Number(pane?.dataset.last ?? -1);
  if (last < 0) return;
  const at = Math.max(0, Math.min(last, Number(pane.dataset.at) + by));
  change(index, { at: at === last ? null : at });
}

export const toggle = (what, index = state.active) => {
  if (Number(paneElements()[index]?.dataset.last) < 0) return;
  change(index, { [what]: !state.panes[index][what], ...(what === "diff" && { drawn: false }) });
};

export function toggleChangedOnly() {
  root().classList.toggle("changed-only");
  showChangedOnly();
}
function showChangedOnly() {
  const checked = root().classList.contains("changed-only");
  for (const box of root().querySelectorAll('[data-act="changed-only"]')) box.checked = checked;
}

const textOf = (pane) => {
  const lines = (pane.querySelector(".side:last-child") ?? pane).querySelectorAll(".l:not(.fill) > .t");
  return [...lines].map((line) => line.textContent).join("\n") + "\n";
};

export async function copy(index) {
  try {
    await navigator.clipboard.writeText(await shownText(index));
    say(`Copied ${state.panes[index].stage}.`);
  } catch {
    say("The browser refused to copy; download the text instead.");
  }
}

// The whole text, also where the page shows only its beginning.
export async function download(index) {
  const { stage, at } = state.panes[index];
  const text = at === null ? await wholeText(index) : await shownText(index);
  save(`${state.facts.name || "model"}.${stage}`, text.endsWith("\n") ? text : `${text}\n`, "text/plain");
}

const shownText = (index) =>
  paneElements()[index].querySelector(".drawing") ? wholeText(index) : textOf(paneElements()[index]);

async function wholeText(index) {
  const { stage, at } = state.panes[index];
  const { stages } = await fetchCompiled([stage]);
  if (at === null) return stages[0].text;
  return stages[0].passes[at].after.map(({ text }) => `${text}\n`).join("");
}

export async function exportJson() {
  if (!state.goodInput) return say("There is nothing to export yet.");
  const compiled = await fetchCompiled(null);
  save(`${compiled.name || "model"}.json`, JSON.stringify(compiled, null, 1), "application/json");
}

async function fetchCompiled(stages) {
  const { text, sizes, defaultSizes, options } = state.goodInput;
  const data = state.facts.data;
  const answer = await fetch("/api/compile", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ text, sizes, default_sizes: defaultSizes, options, stages, data }),
  });
  return answer.json();
}

export function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

export const bodiesOf = (pane) => [...pane.querySelectorAll(".body")];

// Where each pane was scrolled to, and what stood in it: a swap must not make anything jump or flash.
let before = [];
let focused = ""; // a selector for what had the focus
function remember() {
  const element = document.activeElement;
  const pane = element?.closest(".pane");
  const { act, pass, open } = element?.dataset ?? {};
  const data = Object.entries({ act, pass, open }).map(([name, value]) =>
    value ? `[data-${name}="${CSS.escape(value)}"]` : "",
  );
  focused = pane ? `#${pane.id} ${act ? data.join("") : ".body"}` : open ? data.join("") : "";
  before = paneElements().map((pane) => ({
    stage: pane.dataset.stage,
    isDifference: pane.querySelector(".diff") !== null,
    bodies: bodiesOf(pane).map((body) => ({ body, top: body.scrollTop, left: body.scrollLeft })),
  }));
}

export const ROW = 20; // the height of a line
const ABOVE = 4; // the room above the first one
const NEARLY = 5; // lines too many that are no reason to scroll

// A text that does not nearly fit starts at the line before the first that computes something, not at its
// declarations; one side of a difference at the line before the first that differs. Always at a whole line.
function skipDeclarations(body) {
  const lines = body ? [...body.querySelectorAll(".l")] : [];
  const hidden = body ? Math.floor((body.scrollHeight - body.clientHeight - ABOVE) / ROW) : 0;
  const isChanged = body?.closest(".diff") ? (line) => line.matches(".add, .cut, .fill") : null;
  const first = lines.findIndex(isChanged ?? ((line) => "operations" in line.dataset));
  if (first > 1 && hidden > (isChanged ? 0 : NEARLY)) body.scrollTop = ABOVE + ROW * Math.min(first - 1, hidden);
}

function restore() {
  paneElements().forEach((pane, index) => {
    const old = before.find((entry, at) => at === index && entry.stage === pane.dataset.stage);
    const body = pane.querySelector(".body");
    const isOther = old?.isDifference !== (pane.querySelector(".diff") !== null);
    if (isOther || !old.bodies[0]?.body.querySelector(".l, .gv") || !body) return skipDeclarations(body);
    if ("waiting" in pane.dataset) {
      body.replaceWith(old.bodies[0].body);
      pane.classList.add("stale");
    }
    bodiesOf(pane).forEach((fresh, at) =>
      fresh.scrollTo(old.bodies[at]?.left ?? 0, old.bodies[at]?.top ?? 0),
    );
  });
  // What was swapped took the focus with it.
  if (focused && document.activeElement === document.body)
    document.querySelector(focused)?.focus({ preventScroll: true });
}

function showStale(isStale) {
  root().classList.toggle("stale", isStale);
  for (const pill of root().querySelectorAll("[data-old]")) {
    pill.textContent = isStale ? `stale, from edit ${state.good}` : "";
  }
}

// A narrow screen has room for fewer panes than were open.
export function fitPanes() {
  const extra = state.panes.length - mostShown();
  if (extra > 0) {
    const kept = state.panes.slice(0, mostShown());
    if (state.active >= kept.length) state.active = 0;
    state.panes = kept;
    paneElements()
      .slice(kept.length)
      .forEach((pane) => pane.remove());
  }
  root().dataset.count = state.panes.length;
}

export function startPanes() {
  on("before-swap", remember);
  on("busy", () => showStale(true));
  for (const pane of paneElements()) skipDeclarations(pane.querySelector(".body"));
  on("swapped", () => {
    restore();
    root().dataset.count = state.panes.length;
    activate(state.active);
    showChangedOnly();
    showStale(isBroken());
    emit("painted");
  });
  // On a phone the passes are a tab of their own, over the same pane.
  on("tab", (name) => {
    if (name === "passes" || name === "stages") change(state.active, { passes: name === "passes" });
  });
  root().addEventListener("focusin", ({ target }) =>
    activate(paneElements().indexOf(target.closest(".pane"))),
  );
  // Both sides of a difference scroll together. Scroll events do not bubble, but they can be captured.
  root().addEventListener(
    "scroll",
    ({ target }) => {
      for (const other of target.closest(".diff")?.querySelectorAll(".body") ?? []) {
        if (other !== target) other.scrollTo(target.scrollLeft, target.scrollTop);
      }
    },
    { capture: true, passive: true },
  );
  root().addEventListener("pointerdown", ({ target }) => {
    const index = paneElements().indexOf(target.closest(".pane"));
    if (index >= 0) activate(index);
  });
}
export { change as changePane };
