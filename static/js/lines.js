// Where the lines of each operation stand, looked up once after every swap: pointing must not search the page.
import { ROW, bodiesOf, paneElements } from "./panes.js";

let linesOf = new Map(); // operation -> its line elements, over all panes and the model's line on a phone
let places = new Map(); // line -> {pane, text, row}
let panes = []; // {pill, ruler, texts}
let stages = []; // {button, counter, total, combinations}

const numbers = (words) => words.split(" ").map(Number);

export function indexLines() {
  linesOf = new Map();
  places = new Map();
  heights.disconnect();
  panes = paneElements().map(indexPane);
  for (const line of document.querySelectorAll("#panes [data-operations], #source [data-operations]")) {
    for (const id of numbers(line.dataset.operations)) {
      if (!linesOf.has(id)) linesOf.set(id, []);
      linesOf.get(id).push(line);
    }
  }
  stages = [...document.querySelectorAll(".st[data-combinations]")].map((button) => ({
    button,
    counter: button.lastElementChild,
    total: button.dataset.total,
    combinations: Object.entries(JSON.parse(button.dataset.combinations)).map(([key, lines]) => ({
      ids: numbers(key),
      lines,
    })),
  }));
}

// Of a difference only the newer side is counted and marked at the edge; of two units, both are counted.
function indexPane(element) {
  const bodies = bodiesOf(element);
  const isDifference = element.querySelector(".diff") !== null;
  const pane = {
    pill: element.querySelector("[data-lit]"),
    ruler: element.querySelector(".ruler"),
    texts: [],
    counted: isDifference ? bodies.slice(-1) : bodies,
  };
  // A narrow screen does not show the rows that only fill a difference up.
  const shown = matchMedia("(max-width: 699px)").matches ? ".l:not(.fill)" : ".l";
  pane.texts = bodies.map((body) => {
    const lines = body.querySelectorAll(shown);
    const text = { body, height: 0, rows: lines.length, isCounted: pane.counted.includes(body) };
    lines.forEach((line, row) => places.set(line, { pane, text, row }));
    return text;
  });
  for (const body of bodies) heights.observe(body);
  for (const node of element.querySelectorAll(".drawing [data-operations]"))
    places.set(node, { pane, text: { ...pane.texts[0], isDrawn: true }, row: 0 });
  return pane;
}

// The heights of the bodies are told, not asked for: asking would lay the page out.
const heights = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const text = panes.flatMap((pane) => pane.texts).find(({ body }) => body === target);
    if (text) text.height = contentRect.height;
  }
});

export const linesOfOperations = (ids) => new Set(ids.flatMap((id) => linesOf.get(id) ?? []));

// The count in each pane's header, and ticks at its right edge where the text is longer than the pane.
export function paintCounts(lines) {
  const found = new Map(panes.map((pane) => [pane, []]));
  for (const line of lines) {
    const place = places.get(line);
    if (place?.text.isCounted) found.get(place.pane).push(place);
  }
  for (const [{ pill, ruler, counted }, ofPane] of found) {
    const count = ofPane.length;
    const what = ofPane[0]?.text.isDrawn ? "node" : "line";
    setText(pill, count ? `${count} ${what}${count > 1 ? "s" : ""}` : "");
    // Two texts side by side have no one height to mark places on.
    paintRuler(ruler, counted.length === 1 ? ofPane : []);
  }
}

function paintRuler(ruler, found) {
  const ticks = found.slice(0, 400).flatMap(({ text, row }) => {
    const height = text.rows * ROW + 12;
    if (height <= text.height + 1) return [];
    const tick = document.createElement("i");
    tick.style.top = `${((row * ROW + 14) / height) * 100}%`;
    return [tick];
  });
  if (ticks.length || ruler.firstChild) ruler.replaceChildren(...ticks);
}

export function paintRail(ids) {
  for (const { button, counter, total, combinations } of stages) {
    const touched = combinations.filter((combination) => combination.ids.some((id) => ids.includes(id)));
    const count = touched.reduce((sum, { lines }) => sum + lines, 0);
    button.classList.toggle("lit", count > 0);
    const words = count > 0 ? count : total === "" ? "…" : Number(total).toLocaleString("en");
    setText(counter, String(words));
  }
}

const setText = (element, text) => element.textContent !== text && (element.textContent = text);

// How each body is scrolled; asked for before anything is painted, when the layout is still good.
export const scrolled = () =>
  new Map(panes.flatMap(({ texts }) => texts.map(({ body }) => [body, body.scrollTop])));

// Bring a lit line into sight in every text that shows none; one of its own rather than one shared with others.
export function reveal(lines, tops) {
  const byText = new Map();
  for (const line of lines) {
    const { text, row } = places.get(line) ?? {};
    if (!text || text.isDrawn) continue;
    if (!byText.has(text)) byText.set(text, []);
    byText.get(text).push({ row, isShared: line.classList.contains("shared") });
  }
  for (const [{ body, height }, rows] of byText) {
    const top = tops.get(body) ?? 0;
    if (rows.some(({ row }) => row * ROW + 4 >= top && (row + 1) * ROW + 4 <= top + height)) continue;
    const { row } = rows.find(({ isShared }) => !isShared) ?? rows[0];
    body.scrollTop = Math.max(0, (row - Math.floor(height / 3 / ROW)) * ROW + 4);
  }
}
