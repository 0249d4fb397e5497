// A graph drawn: operators as nodes in the colour of their index set, edges from what they read. A node is an
// operation like a line is: it lights up with it, and a click pins it.
import dagre from "@dagrejs/dagre";
import { h } from "./dom.js";
import { on } from "./state.js";
import { s } from "./svg.js";

const LETTER = 6.8; // the width of one, in the code font at 11 px
const NODE_HEIGHT = 24;
const LEAST_ZOOM = 0.35;
const READABLE = 0.7; // a graph opens no smaller than this; what does not fit is scrolled to
const MOST_ZOOM = 2.5;
const STEP = 1.25;

const layouts = new Map(); // drawing -> its layout in a pane of some shape: panes are swapped often, graphs change seldom
const zooms = new Map(); // pane -> the zoom that its reader chose

function layOut(drawing, rankdir) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir, nodesep: 12, ranksep: 24, marginx: 14, marginy: 14 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of drawing.nodes)
    graph.setNode(node.id, { width: node.label.length * LETTER + 16, height: NODE_HEIGHT });
  for (const [from, to] of drawing.edges) graph.setEdge(from, to);
  dagre.layout(graph);
  const { width, height } = graph.graph();
  const edges = graph.edges().map((edge) => ({ ...edge, points: graph.edge(edge).points }));
  return { width, height, edges, at: (id) => graph.node(id) };
}

const fitting = ({ width, height }, box) => Math.min(1, box.width / width, box.height / height);

// Left to right or top down, whichever fits the pane better.
function bestLayout(text, box) {
  const key = `${box.width > 1.6 * box.height} ${text}`;
  if (!layouts.has(key)) {
    const drawing = JSON.parse(text);
    const [across, down] = ["LR", "TB"].map((direction) => layOut(drawing, direction));
    if (layouts.size > 8) layouts.clear();
    layouts.set(key, { drawing, layout: fitting(across, box) >= fitting(down, box) ? across : down });
  }
  return layouts.get(key);
}

// Straight along the layers, bent only where one is crossed.
function path(points) {
  const [first, ...rest] = points;
  const last = rest.pop();
  if (!rest.length) return `M${first.x} ${first.y}L${last.x} ${last.y}`;
  const curves = rest.map((point, at) => {
    const next = rest[at + 1] ?? last;
    const middle = at + 1 < rest.length ? { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 } : next;
    return `Q${point.x} ${point.y} ${middle.x} ${middle.y}`;
  });
  return `M${first.x} ${first.y}${curves.join("")}`;
}

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

function drawInto(body) {
  const box = { width: body.clientWidth, height: body.clientHeight };
  const { drawing, layout } = bestLayout(body.dataset.drawing, box);
  if (drawing.too_many) {
    body.replaceChildren(h("p.more", `This graph has ${drawing.too_many} nodes, too many to draw; read its text.`));
    return;
  }
  const id = `arrow-${body.closest(".pane").id}`;
  const svg = s(
    "svg.gv",
    {
      viewBox: `0 0 ${layout.width} ${layout.height}`,
      role: "img",
      "aria-label": `The graph drawn: ${drawing.nodes.length} nodes, ${drawing.edges.length} edges. Its text says the same.`,
    },
    s("defs", {}, s("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, s("path.ah", { d: "M0 1 7 4 0 7z" }))),
    layout.edges.map(({ points }) => s("path.e", { d: path(points), "marker-end": `url(#${id})` })),
    drawing.nodes.map((node) => nodeOf(node, layout.at(node.id))),
  );
  body.replaceChildren(svg);
  zoomTo(body, layout, zooms.get(body.closest(".pane").id) ?? Math.max(READABLE, fitting(layout, box)));
  body.parentElement.querySelector(".zoom").onclick = ({ target }) => zoomBy(body, layout, target.dataset.zoom);
}

function zoomTo(body, layout, zoom) {
  const svg = body.querySelector("svg");
  svg.setAttribute("width", Math.round(layout.width * zoom));
  svg.setAttribute("height", Math.round(layout.height * zoom));
  body.dataset.zoom = zoom;
  body.parentElement.querySelector(".zoom output").textContent = `${Math.round(100 * zoom)} %`;
}

function zoomBy(body, layout, what) {
  if (!what) return;
  const now = Number(body.dataset.zoom);
  const fit = fitting(layout, { width: body.clientWidth, height: body.clientHeight });
  const zoom = { in: Math.min(MOST_ZOOM, now * STEP), out: Math.max(LEAST_ZOOM, now / STEP), fit }[what];
  const pane = body.closest(".pane").id;
  if (what === "fit") zooms.delete(pane);
  else zooms.set(pane, zoom);
  zoomTo(body, layout, zoom);
}

function drawAll() {
  for (const body of document.querySelectorAll("#panes .drawing")) drawInto(body);
}

// Before the links are looked up: they count the nodes too.
export function startGraphs() {
  on("painted", drawAll);
  drawAll();
}
