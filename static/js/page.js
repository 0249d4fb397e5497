// The page itself: theme, help, tabs on a phone, the width of the model column, the run panel, short announcements.
import { byId, need, queryAll } from "./dom.js";
import { emit, keepNow, shortLink } from "./state.js";

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** @param {string} sentence */
export function say(sentence) {
  byId("said").textContent = sentence;
  clearTimeout(timer);
  timer = setTimeout(() => (byId("said").textContent = ""), 4000);
}

/**
 * For those who hear the page: what those who see it read in its place.
 * @param {string} sentence
 */
export const tell = (sentence) => (byId("told").textContent = sentence);

export function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  // The server draws the next page in this theme from the start.
  document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
  emit("theme", undefined);
}

export const showHelp = () => byId("help", HTMLDialogElement).showModal();

export async function share() {
  const fits = keepNow();
  const short = byId("screen").dataset.links === undefined ? null : await shortLink();
  if (!fits && !short) return say("The model is too long for a link; export it instead.");
  try {
    await navigator.clipboard.writeText(short ?? location.href);
    say("Link copied: it holds the model, its settings and the panes.");
  } catch {
    say(short ? `Copying was refused; the link is ${short}` : "Copying was refused; the address bar has the link.");
  }
}

/** @param {string} name */
export function showTab(name) {
  byId("screen").dataset.tab = name;
  for (const tab of queryAll(document, "[data-tab-to]")) {
    tab.setAttribute("aria-pressed", String(tab.dataset.tabTo === name));
  }
  emit("tab", name);
}

export function toggleDock(open = byId("dock-body").hidden === true) {
  byId("dock-body").hidden = !open;
  byId("dock").classList.toggle("open", open);
  // A class of the screen, where a rule with :has() would have the styles of all that is in it looked up at every swap.
  byId("screen").classList.toggle("docked", open);
  byId("dock-toggle").setAttribute("aria-expanded", String(open));
}

const LEAST = 340;
const MOST = 640;
/** @type {Record<string, number | undefined>} */
const STEPS = { ArrowLeft: -16, ArrowRight: 16 };

/** @param {number} width */
function setWidth(width) {
  const held = Math.max(LEAST, Math.min(MOST, width));
  document.documentElement.style.setProperty("--editor", `${held}px`);
  need(document, ".drag").setAttribute("aria-valuenow", String(held));
}

function startDrag() {
  const drag = need(document, ".drag");
  drag.addEventListener("pointerdown", (event) => {
    drag.setPointerCapture(event.pointerId);
    /** @param {PointerEvent} moved */
    const move = ({ clientX }) => setWidth(clientX);
    drag.addEventListener("pointermove", move);
    drag.addEventListener("pointerup", () => drag.removeEventListener("pointermove", move), { once: true });
    event.preventDefault();
  });
  drag.addEventListener("keydown", ({ key }) => {
    const step = STEPS[key];
    if (step) setWidth(need(document, ".model").offsetWidth + step);
  });
}

export function startPage() {
  startDrag();
  // What is drawn on a canvas has the colours that it was drawn with.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => emit("theme", undefined));
  // Small screens start with sizes and options folded.
  const isSmall = matchMedia(
    "(min-width: 700px) and (max-width: 1199px), (min-width: 700px) and (max-height: 820px)",
  );
  if (isSmall.matches) for (const part of queryAll(document, ".model > details", HTMLDetailsElement)) part.open = false;
}
