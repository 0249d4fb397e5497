// Elements without markup strings: text from anywhere goes in as text. What a template must have is looked up by what
// throws where it is missing or of another kind; the rest may be null.
/** @import { Attributes, Children, ElementOf, Kind } from "./types.d.ts" */

/**
 * @template {Element} T
 * @param {unknown} element
 * @param {Kind<T>} kind
 * @param {string} name what is told where it is none
 * @returns {T}
 */
function checked(element, kind, name) {
  if (!(element instanceof kind)) throw new Error(`The page has no ${kind.name} ${name}.`);
  return element;
}

/**
 * @overload
 * @param {string} id
 * @returns {HTMLElement}
 */
/**
 * @template {Element} T
 * @overload
 * @param {string} id
 * @param {Kind<T>} kind
 * @returns {T}
 */
/**
 * @param {string} id
 * @param {Kind<Element>} kind
 */
export function byId(id, kind = HTMLElement) {
  return checked(document.getElementById(id), kind, `#${id}`);
}

/**
 * The first element of a kind that a selector finds, or null.
 * @overload
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {HTMLElement | null}
 */
/**
 * @template {Element} T
 * @overload
 * @param {ParentNode} root
 * @param {string} selector
 * @param {Kind<T>} kind
 * @returns {T | null}
 */
/**
 * @param {ParentNode} root
 * @param {string} selector
 * @param {Kind<Element>} kind
 */
export function query(root, selector, kind = HTMLElement) {
  const element = root.querySelector(selector);
  return element && checked(element, kind, selector);
}

/**
 * The first element that a selector finds and that must be there.
 * @overload
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {HTMLElement}
 */
/**
 * @template {Element} T
 * @overload
 * @param {ParentNode} root
 * @param {string} selector
 * @param {Kind<T>} kind
 * @returns {T}
 */
/**
 * @param {ParentNode} root
 * @param {string} selector
 * @param {Kind<Element>} kind
 */
export function need(root, selector, kind = HTMLElement) {
  return checked(root.querySelector(selector), kind, selector);
}

/**
 * All elements that a selector finds, in order.
 * @overload
 * @param {ParentNode} root
 * @param {string} selector
 * @returns {HTMLElement[]}
 */
/**
 * @template {Element} T
 * @overload
 * @param {ParentNode} root
 * @param {string} selector
 * @param {Kind<T>} kind
 * @returns {T[]}
 */
/**
 * @param {ParentNode} root
 * @param {string} selector
 * @param {Kind<Element>} kind
 */
export function queryAll(root, selector, kind = HTMLElement) {
  return Array.from(root.querySelectorAll(selector), (element) => checked(element, kind, selector));
}

/**
 * What an event happened at, or the element around it that a selector finds; null where there is none.
 * @overload
 * @param {EventTarget | null} target
 * @param {string} selector
 * @returns {HTMLElement | null}
 */
/**
 * @template {Element} T
 * @overload
 * @param {EventTarget | null} target
 * @param {string} selector
 * @param {Kind<T>} kind
 * @returns {T | null}
 */
/**
 * @param {EventTarget | null} target
 * @param {string} selector
 * @param {Kind<Element>} kind
 */
export function around(target, selector, kind = HTMLElement) {
  const element = target instanceof Element ? target.closest(selector) : null;
  return element && checked(element, kind, selector);
}

/**
 * h("td.num", "12") or h("p", { title: "x" }, child, ...). Classes after dots.
 * @template {string} K
 * @param {K} kind
 * @param {[Attributes, ...Children[]] | Children[]} rest
 * @returns {ElementOf<K>}
 */
export function h(kind, ...rest) {
  const [tag, ...classes] = kind.split(".");
  const element = document.createElement(tag);
  element.classList.add(...classes);
  for (const part of rest) {
    if (isAttributes(part)) for (const [name, value] of Object.entries(part)) element.setAttribute(name, String(value));
    else element.append(...[part].flat(2).filter((child) => child !== null && child !== undefined));
  }
  return /** @type {ElementOf<K>} */ (element);
}

/**
 * @param {Attributes | Children} part
 * @returns {part is Attributes}
 */
const isAttributes = (part) =>
  typeof part === "object" && part !== null && Object.getPrototypeOf(part) === Object.prototype;

/** @param {string} name */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.classList.add("i");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/**
 * A sentence on what happened and one on what to do.
 * @param {string} sign
 * @param {string} title
 * @param {string} text
 */
export function message(sign, title, text) {
  const head = sign === "spin" ? h("i.spin") : icon(sign);
  const box = h("div.msg", head, h("b", title), h("p", text));
  if (sign === "err") box.classList.add("e");
  return box;
}

/** @param {number} value */
export const whole = (value) => Math.round(value).toLocaleString("en");

/**
 * "1 type", "3 types".
 * @param {number} count
 * @param {string} one
 */
export const many = (count, one, several = `${one}s`) => `${whole(count)} ${count === 1 ? one : several}`;

/** @type {[number, string][]} */
const UNITS = [
  [1e12, " T"],
  [1e9, " G"],
  [1e6, " M"],
  [1e3, " k"],
];

/**
 * Three significant digits, with the unit's prefix for large numbers.
 * @param {number} value
 */
export function short(value) {
  for (const [size, unit] of UNITS)
    if (Math.abs(value) >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  return String(Number(value.toPrecision(3)));
}

/** @param {number} value */
export const ms = (value) =>
  value >= 100 ? value.toFixed(1) : value >= 1 ? value.toFixed(2) : value.toPrecision(3);
