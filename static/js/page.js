// The page itself: theme, help, tabs on a phone, the width of the model column, short announcements.
import { byId } from "./dom.js";
import { emit, keepNow } from "./state.js";

let timer = 0;
export function say(sentence) {
  byId("said").textContent = sentence;
  clearTimeout(timer);
  timer = setTimeout(() => (byId("said").textContent = ""), 4000);
}

// For those who hear the page: what those who see it read in its place.
export const tell = (sentence) => (byId("told").textContent = sentence);

export function toggleTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  // The server draws the next page in this theme from the start.
  document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
  emit("theme");
}

export const showHelp = () => byId("help").showModal();

export async function share() {
  const fits = keepNow();
  if (!fits) return say("The model is too long for a link; export it instead.");
  try {
    await navigator.clipboard.writeText(location.href);
    say("Link copied: it holds the model, its settings and the panes.");
  } catch {
    say("Copying was refused; the address bar has the link.");
  }
}

export function showTab(name) {
  byId("screen").dataset.tab = name;
  for (const tab of document.querySelectorAll("[data-tab-to]")) {
    tab.setAttribute("aria-pressed", String(tab.dataset.tabTo === name));
  }
  emit("tab", name);
}

const LEAST = 340;
const MOST = 640;

function setWidth(width) {
  const held = Math.max(LEAST, Math.min(MOST, width));
  document.documentElement.style.setProperty("--editor", `${held}px`);
  document.querySelector(".drag").setAttribute("aria-valuenow", String(held));
}

function startDrag() {
  const drag = document.querySelector(".drag");
  drag.addEventListener("pointerdown", (event) => {
    drag.setPointerCapture(event.pointerId);
    const move = ({ clientX }) => setWidth(clientX);
    drag.addEventListener("pointermove", move);
    drag.addEventListener("pointerup", () => drag.removeEventListener("pointermove", move), { once: true });
    event.preventDefault();
  });
  drag.addEventListener("keydown", ({ key }) => {
    const step = { ArrowLeft: -16, ArrowRight: 16 }[key];
    if (step) setWidth(document.querySelector(".model").offsetWidth + step);
  });
}

export function startPage() {
  startDrag();
  // Small screens start with sizes and options folded.
  const isSmall = matchMedia(
    "(min-width: 700px) and (max-width: 1199px), (min-width: 700px) and (max-height: 820px)",
  );
  if (isSmall.matches) for (const part of document.querySelectorAll(".model > details")) part.open = false;
}
