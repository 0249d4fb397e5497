// A graph drawn: operators as nodes in the colour of their index set, edges from what they read. A node is an
// operation like a line is: it lights up with it, and a click pins it.
import { around, byId, h, need, queryAll, short, whole } from "../dom.js";
import { batchSize } from "../run/setup.js";
import { emit, on } from "../state.js";
import { s } from "../svg.js";
/** @import { Drawing, DrawnNode } from "../types.d.ts" */

/**
 * @typedef {{ x: number, y: number }} Point
 * @typedef {{ width: number, height: number }} Box
 * @typedef {Point & Box} Node
 * @typedef {Box & { edges: { points: Point[], from: string, to: string }[], at(id: string): Node }} Layout
 */

const LETTER = 6.8; // the width of one, in the code font at 11 px
const NODE_HEIGHT = 24;
const LEAST_ZOOM = 0.35;
const READABLE = 0.7; // a graph opens no smaller than this; what does not fit is scrolled to
const MOST_ZOOM = 2.5;
const STEP = 1.25;

/** @type {typeof import("@dagrejs/dagre").default | null} */
let dagre = null;
/** @type {Map<string, { drawing: Drawing, layout: Layout }>} by drawing and a pane's shape: panes are swapped often, graphs change seldom */
const layouts = new Map();
/** @type {Map<string, number>} by pane the zoom that its reader chose */
const zooms = new Map();

/** @param {string} kernel its box among the nodes */
const boxOf = (kernel) => `kernel ${kernel}`;

/**
 * @param {Drawing} drawing
 * @param {"LR" | "TB"} rankdir
 * @returns {Layout}
 */
function layOut(drawing, rankdir) {
  if (!dagre) throw new Error("A graph is laid out before what does that has come.");
  const graph = new dagre.graphlib.Graph({ compound: true });
  graph.setGraph({ rankdir, nodesep: 12, ranksep: 24, marginx: 14, marginy: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of drawing.nodes)
    graph.setNode(node.id, { width: node.label.length * LETTER + 16, height: NODE_HEIGHT });
  for (const { id, nodes } of drawing.kernels ?? []) {
    if (!nodes.length) continue;
    graph.setNode(boxOf(id), {});
    for (const node of nodes) graph.setParent(node, boxOf(id));
  }
  for (const [from, to] of drawing.edges) graph.setEdge(from, to);
  dagre.layout(graph);
  const { width, height } = graph.graph();
  const edges = graph.edges().map((edge) => ({ points: graph.edge(edge).points, from: edge.v, to: edge.w }));
  return { width, height, edges, at: (id) => graph.node(id) };
}

/**
 * @param {Box} layout
 * @param {Box} box
 */
const fitting = ({ width, height }, box) => Math.min(1, box.width / width, box.height / height);

/**
 * Of both directions the one that leaves it larger; with boxes around kernels a layout takes too long to try both.
 * @param {Drawing} drawing
 * @param {Box} box
 */
function better(drawing, box) {
  const [across, down] = [layOut(drawing, "LR"), layOut(drawing, "TB")];
  return fitting(across, box) >= fitting(down, box) ? across : down;
}

/**
 * Left to right or top down, whichever fits the pane better.
 * @param {string} text of a drawing
 * @param {Box} box
 */
function bestLayout(text, box) {
  const key = `${box.width > 1.6 * box.height} ${text}`;
  const known = layouts.get(key);
  if (known) return known;
  /** @type {Drawing} */
  const drawing = JSON.parse(text);
  const made = { drawing, layout: drawing.kernels ? layOut(drawing, box.width > 1.6 * box.height ? "LR" : "TB") : better(drawing, box) };
  if (layouts.size > 8) layouts.clear();
  layouts.set(key, made);
  return made;
}

/**
 * Straight along the layers, bent only where one is crossed.
 * @param {Point[]} points at least both ends
 */
function path(points) {
  const [first, ...rest] = points.slice(0, -1);
  const last = points[points.length - 1];
  if (!rest.length) return `M${first.x} ${first.y}L${last.x} ${last.y}`;
  const curves = rest.map((point, at) => {
    const next = rest[at + 1] ?? last;
    const middle = at + 1 < rest.length ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : next;
    return `Q${point.x} ${point.y} ${middle.x} ${middle.y}`;
  });
  return `M${first.x} ${first.y}${curves.join("")}`;
}

/**
 * @param {DrawnNode} node
 * @param {Node} place
 */
function nodeOf(node, { x, y, width, height }) {
  const group = s(
    `g.nd.${node.kind}${node.hue ? `.${node.hue}` : ""}`,
    { transform: `translate(${x - width / 2} ${y - height / 2})` },
    s("title", {}, `${node.label}: ${node.about}`),
    s("rect", { width, height, rx: 3 }),
    s("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, node.label),
  );
  if (node.operations.length) group.dataset.operations = node.operations.join(" ");
  return group;
}

/**
 * A kernel around what it fuses, with its name in the corner.
 * @param {{ id: string, backward: boolean }} kernel
 * @param {Node} place
 */
function kernelOf({ id, backward }, { x, y, width, height }) {
  const label = `${id}${backward ? ", backward" : ""}`;
  return s(
    `g.kn${backward ? ".back" : ""}`,
    { transform: `translate(${x - width / 2} ${y - height / 2})` },
    s("title", {}, `The kernel ${label}: what is inside is computed in one nest, and only what is stored leaves it`),
    s("rect", { width, height, rx: 4 }),
    s("text", { x: 2, y: -6 }, label),
  );
}

/**
 * An edge; where it stands between two kernels, with the reason why these are not one.
 * @param {Layout["edges"][number]} edge
 * @param {Map<string, string>} barriers
 * @param {string} arrow
 */
function edgeOf({ points, from, to }, barriers, arrow) {
  const why = barriers.get(`${from} ${to}`);
  const line = { d: path(points), "marker-end": `url(#${arrow})` };
  if (!why) return s("path.e", line);
  const link = { tabindex: 0, role: "link", "aria-label": `${why}. The story of its operation.`, "data-from": from, "data-to": to };
  return s("g.cut", link, s("title", {}, why), s("path.e", line), s("path.hit", { d: line.d }));
}

/** @param {HTMLElement} pane */
function drawIn(pane) {
  const body = need(pane, ".drawing");
  const box = { width: body.clientWidth, height: body.clientHeight };
  const { drawing, layout } = bestLayout(body.dataset.drawing ?? "", box);
  if (drawing.too_many) {
    body.replaceChildren(h("p.more", `This graph has ${drawing.too_many} nodes, too many to draw; read its text.`));
    return;
  }
  const id = `arrow-${pane.id}`;
  const kernels = (drawing.kernels ?? []).filter(({ nodes }) => nodes.length);
  const barriers = new Map((drawing.barriers ?? []).map(({ from, to, why }) => [`${from} ${to}`, why]));
  const svg = s(
    "svg.gv",
    {
      viewBox: `0 0 ${layout.width} ${layout.height}`,
      role: "group",
      "aria-label": `The graph drawn: ${drawing.nodes.length} nodes, ${drawing.edges.length} edges. Its text says the same.`,
    },
    s("defs", {}, s("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path.ah", { d: "M0 1 7 4 0 7z" }))),
    kernels.map((kernel) => kernelOf(kernel, layout.at(boxOf(kernel.id)))),
    layout.edges.map((edge) => edgeOf(edge, barriers, id)),
    drawing.nodes.map((node) => nodeOf(node, layout.at(node.id))),
  );
  body.replaceChildren(svg);
  zoomTo(pane, layout, zooms.get(pane.id) ?? Math.max(READABLE, fitting(layout, box)));
  body.scrollLeft = (body.scrollWidth - body.clientWidth) / 2;
  need(pane, ".zoom").onclick = ({ target }) => zoomBy(pane, layout, around(target, "[data-zoom]")?.dataset.zoom);
}

/**
 * @param {HTMLElement} pane
 * @param {Layout} layout
 * @param {number} zoom
 */
function zoomTo(pane, layout, zoom) {
  const body = need(pane, ".drawing");
  const svg = need(body, "svg", SVGElement);
  svg.setAttribute("width", String(Math.round(layout.width * zoom)));
  svg.setAttribute("height", String(Math.round(layout.height * zoom)));
  body.dataset.zoom = String(zoom);
  need(pane, ".zoom output").textContent = `${Math.round(100 * zoom)} %`;
}

/**
 * @param {HTMLElement} pane
 * @param {Layout} layout
 * @param {string | undefined} what in, out or fit
 */
function zoomBy(pane, layout, what) {
  const body = need(pane, ".drawing");
  const now = Number(body.dataset.zoom);
  const fit = fitting(layout, { width: body.clientWidth, height: body.clientHeight });
  const zoom = new Map([["in", Math.min(MOST_ZOOM, now * STEP)], ["out", Math.max(LEAST_ZOOM, now / STEP)], ["fit", fit]]).get(what ?? "");
  if (zoom === undefined) return;
  if (what === "fit") zooms.delete(pane.id);
  else zooms.set(pane.id, zoom);
  zoomTo(pane, layout, zoom);
}

// Bytes of what is drawn: those of a triple times as many as a run takes.
function showBytes() {
  const batch = batchSize();
  for (const place of queryAll(document, "#panes [data-batch]")) place.textContent = whole(batch);
  for (const place of queryAll(document, "#panes [data-bytes]")) {
    const bytes = Number(place.dataset.bytes) * (place.dataset.aTriple === undefined ? 1 : batch);
    place.textContent = `${short(bytes)}B`;
  }
}

// A barrier's edge leads where its line in the list does: to the story of its operation.
/** @param {Element} edge */
function openBarrier(edge) {
  const { from, to } = /** @type {SVGElement} */ (edge).dataset;
  const item = queryAll(around(edge, ".pane") ?? document, ".barriers li").find((each) => need(each, "code").textContent === `${from} → ${to}`);
  item?.querySelector("button")?.click();
}

function drawAll() {
  showBytes();
  for (const pane of queryAll(document, "#panes .pane:has(.drawing)")) drawIn(pane);
}

// Before the links are looked up: they count the nodes too.
export function startGraphs() {
  on("painted", draw);
  byId("run-batch").addEventListener("input", showBytes);
  for (const name of ["click", "keydown"])
    byId("panes").addEventListener(name, (event) => {
      const edge = event.target instanceof Element ? event.target.closest(".cut") : null;
      if (!edge || (event instanceof KeyboardEvent && event.key !== "Enter")) return;
      openBarrier(edge);
    });
  draw();
}

// What lays a graph out is fetched with the first one that is drawn.
async function draw() {
  if (dagre) return drawAll();
  if (!document.querySelector(".drawing")) return;
  dagre = (await import("@dagrejs/dagre")).default;
  emit("painted", undefined);
}
