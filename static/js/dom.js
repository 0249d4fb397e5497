// Elements without markup strings: text from anywhere goes in as text.

export const byId = (id) => document.getElementById(id);

// h("td.num", "12") or h("p", { title: "x" }, child, ...). Classes after dots.
export function h(kind, ...rest) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  const isPlain = rest[0] && Object.getPrototypeOf(rest[0]) === Object.prototype;
  for (const [name, value] of Object.entries(isPlain ? rest.shift() : {})) element.setAttribute(name, value);
  element.append(...rest.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.classList.add("i");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

// A sentence on what happened and one on what to do.
export function message(sign, title, text, ...buttons) {
  const head = sign === "spin" ? h("i.spin") : icon(sign);
  const box = h("div.msg", head, h("b", title), h("p", text));
  if (sign === "err") box.classList.add("e");
  if (buttons.length) box.append(h("div.act", buttons));
  return box;
}

export const whole = (value) => Math.round(value).toLocaleString("en");

// "1 type", "3 types".
export const many = (count, one, several = `${one}s`) => `${whole(count)} ${count === 1 ? one : several}`;

// Three significant digits, with the unit's prefix for large numbers.
export function short(value) {
  const units = [
    [1e12, " T"],
    [1e9, " G"],
    [1e6, " M"],
    [1e3, " k"],
  ];
  for (const [size, unit] of units)
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  return String(Number(value.toPrecision(3)));
}

export const ms = (value) =>
  value >= 100 ? value.toFixed(1) : value >= 1 ? value.toFixed(2) : value.toPrecision(3);
