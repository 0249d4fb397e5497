// Drawings that are made of elements: they take their colours from classes, so both themes share one drawing.

const SVG = "http://www.w3.org/2000/svg";

// s("circle.me", { cx: 4, cy: 4, r: 4 }) or s("text", { x: 0, y: 10 }, "words").
export function s(kind, attributes = {}, ...children) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElementNS(SVG, tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return element;
}

// Round numbers from 0 to at least `most`, about `count` of them.
export function roundSteps(most, count = 5) {
  const rough = Math.max(most, 1e-9) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const last = Math.ceil(most / step - 1e-9);
  return Array.from({ length: last + 1 }, (_, at) => Number((at * step).toPrecision(6)));
}
