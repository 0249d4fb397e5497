// What a run shows while it goes and when it has ended.
import { showLimits, showMachine } from "./breakdown.js";
import { lane, quantile, timesChart } from "./charts.js";
import { byId, h, icon, many, message, ms, short, whole } from "./dom.js";
import { on } from "./state.js";

let charts = []; // those on the page now, redrawn with the theme
let live = null; // what the running run draws into
let frame = 0;

const area = { stroke: "wait", fill: "wait-2" };

export function showBlank(run) {
  charts = [];
  live = null;
  byId("run-detail").replaceChildren();
  byId("run-check").replaceChildren(h("span"), h("span.dim", "checked when the run ends"));
  byId("run-main").replaceChildren(
    message("spin", `Run ${run.number} is on its way`, "It starts as soon as a worker is free."),
  );
}

export function showQueued(run, { position, message: sentence }) {
  byId("run-main").replaceChildren(
    message(
      "spin",
      sentence || `Waiting, number ${position} in the queue`,
      "One run at a time, so that times can be trusted.",
    ),
  );
}

export function showStarted(run) {
  live = run.target === "cpu" ? timesPanel(run) : queuesPanel(run);
}

function timesPanel(run) {
  const figures = { median: h("span.big", "–"), spread: h("span.v", "–"), least: h("span.v", "–") };
  const canvas = h("div.chart", { role: "img", "aria-label": "Milliseconds of each repeat" });
  byId("run-main").replaceChildren(
    h("div.ch", h("h3", "Time per repeat")),
    h(
      "div.stat",
      h("div", figures.median),
      h("div", h("span.label", "p5 to p95"), figures.spread),
      h("div", h("span.label", "least"), figures.least),
    ),
    h("span.label", "ms"),
    canvas,
  );
  const chart = timesChart(canvas, run.settings.repeat);
  charts = [chart];
  return {
    draw() {
      const samples = run.samples.map((sample) => sample.ms);
      if (!samples.length) return;
      const sorted = [...samples].sort((a, b) => a - b);
      figures.median.replaceChildren(ms(quantile(sorted, 0.5)), h("small", " ms median"));
      figures.spread.textContent = `${ms(quantile(sorted, 0.05))} – ${ms(quantile(sorted, 0.95))}`;
      figures.least.textContent = ms(sorted[0]);
      chart.set(samples);
    },
  };
}

function queuesPanel(run) {
  const rows = h("div");
  const headline = h("div.stat", h("div", h("span.big", "–")));
  byId("run-main").replaceChildren(h("div.ch", h("h3", "Queues over time")), headline, rows);
  const row = (name, options) => {
    const canvas = h("div.chart", { role: "img", "aria-label": `${name} over the cycles of the run` });
    const value = h("span");
    rows.append(h("div.chart-row", h("span", name), canvas, value));
    return { ...lane(canvas, options), value };
  };
  const capacity = run.settings.queue;
  const lanes = {
    queue_bytes: row("data queue bytes", { height: 66, fill: area, cap: capacity }),
    control_tokens: row("control tokens", { height: 34, fill: area }),
    access_busy: row("A access busy", { height: 26, fill: { stroke: "access", fill: "access-f" }, most: 1 }),
    execute_busy: row("X execute busy", {
      height: 26,
      fill: { stroke: "execute", fill: "execute-f" },
      most: 1,
      isLast: true,
    }),
  };
  charts = Object.values(lanes);
  const words = {
    queue_bytes: (value) => `${whole(value)} B`,
    control_tokens: (value) => `${whole(value)} tokens`,
    access_busy: (value) => `${Math.round(value * 100)} %`,
    execute_busy: (value) => `${Math.round(value * 100)} %`,
  };
  return {
    headline,
    draw(samples = run.samples) {
      if (!samples.length) return;
      const cycles = samples.map((sample) => sample.cycle);
      for (const [name, chart] of Object.entries(lanes)) {
        chart.set(
          cycles,
          samples.map((sample) => sample[name]),
        );
        chart.value.textContent = words[name](samples.at(-1)[name]);
      }
      headline.replaceChildren(h("div", h("span.big", whole(cycles.at(-1)), h("small", " cycles so far"))));
    },
  };
}

// Samples may come faster than the screen draws.
export function showSample() {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(() => live?.draw());
}

export function showFailure(run) {
  const { kind, title, message: sentence, hint } = run.outcome;
  const titles = {
    timeout: "Stopped: it took too long",
    memory: "Too large to run",
    cancelled: "Stopped",
    superseded: "Superseded by a newer run",
    refused: "This cannot run",
    crashed: "The run crashed",
    error: "The run failed",
  };
  const sign = kind === "cancelled" || kind === "superseded" ? "info" : kind === "timeout" ? "clock" : "err";
  cancelAnimationFrame(frame);
  byId("run-main").replaceChildren(
    message(sign, title ?? titles[kind] ?? titles.error, [sentence, hint].filter(Boolean).join(" ")),
  );
  byId("run-detail").replaceChildren();
  byId("run-check").replaceChildren(h("span"), h("span.dim", "no result to check"));
}

export function showResult(run) {
  const result = run.outcome;
  cancelAnimationFrame(frame);
  showCheck(result);
  if (!result.matches_reference) {
    byId("run-main").replaceChildren(
      message("err", "Does not match the reference", result.message || "Its time is not shown."),
    );
    byId("run-detail").replaceChildren();
    return;
  }
  if (!live) live = run.target === "cpu" ? timesPanel(run) : queuesPanel(run);
  live.draw();
  if (run.target === "cpu") showLimits(result);
  else showMachine(result, live.headline);
}

function showCheck(result) {
  // A hyphen that no line breaks after keeps an exponent together.
  const power = (value, digits) => value.toExponential(digits).replace("-", "\u2011");
  const error = result.max_relative_error === null ? "not a number" : power(result.max_relative_error, 1);
  const tolerance = power(result.tolerance, 0);
  const text = h(
    "span",
    result.matches_reference ? "Matches the float64 reference" : "Does not match the float64 reference",
  );
  const sub = h(
    "span.sub",
    `all ${whole(result.rows_checked)} rows; worst relative error ${error}, allowed ${tolerance}`,
  );
  const sign = h(
    result.matches_reference ? "span.good" : "span.bad",
    icon(result.matches_reference ? "check" : "err"),
  );
  const { data: set } = result;
  const held =
    "edges" in set
      ? `${many(set.nodes, "node")}, ${many(set.edges, "edge")} of ${many(set.etypes, "type")}`
      : `${many(set.entities, "entity", "entities")}, ${many(set.relations, "relation")}; batch ${whole(result.batch)}`;
  const data = `${set.name} (${set.source}): ${held}`;
  byId("run-check").replaceChildren(sign, text, h("span"), sub, h("span"), h("span.dim", data));
}

export function showHistory(history) {
  const rows = history.map((run, at) => {
    const { outcome } = run;
    const isGood = outcome.event === "result" && outcome.matches_reference;
    const figure = !isGood
      ? outcome.event === "result"
        ? "wrong"
        : outcome.kind
      : run.target === "cpu"
        ? `${ms(outcome.median_ms)} ms`
        : `${short(outcome.cycles)} cycles`;
    return h(
      at === 0 ? "tr.me" : "tr",
      h("td", String(run.number)),
      h("td.wrap", [run.target, `edit ${run.edit}`, run.family === "score" ? `batch ${whole(run.settings.batch)}` : run.settings.data].join(", ")),
      h("td", figure),
    );
  });
  byId("run-history").tBodies[0].replaceChildren(...rows);
}

on("theme", () => charts.forEach((chart) => chart.redraw()));
