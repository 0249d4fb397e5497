// Texts that came as what differs from those that the panes show: the rows that stay are moved, not made again.
import { byId, need, queryAll } from "../dom.js";
import { on } from "../state.js";

const panes = () => queryAll(byId("panes"), ":scope > .pane");
/** @param {HTMLElement} pane */
const bodies = (pane) => queryAll(pane, ".body");

// By pane the versions of the texts that it shows, for the server to tell what differs from them.
export const shownTexts = () => panes().map((pane) => bodies(pane).map(({ dataset }) => dataset.text ?? ""));

let isWhole = true;
// Whether the last answer's texts could all be put together.
export const allThere = () => isWhole;

/** @param {Element} [body] */
const codeOf = (body) => body?.querySelector(":scope > .code") ?? null;
/** @typedef {Map<Element, Element>} Pairs an answer's bodies that are patches, each with the shown one that it is of */

/** @param {HTMLElement} pane */
const hasTexts = (pane) => !("waiting" in pane.dataset) && pane.querySelector(".drawing, .body[data-from]:not([data-text])") === null;

/**
 * @param {ParentNode} fresh
 * @returns {Pairs}
 */
function findPatched(fresh) {
  const patches = queryAll(fresh, ".body[data-from]");
  if (!patches.length) return new Map();
  const shown = new Map(panes().flatMap((pane) => bodies(pane).map((body) => [body.dataset.text ?? "", body])));
  /** @type {Pairs} */
  const found = new Map();
  for (const body of patches) {
    const old = shown.get(body.dataset.from ?? "");
    if (old && codeOf(old)) found.set(body, old);
    else delete body.dataset.text;
  }
  isWhole = found.size === patches.length;
  return found;
}

// htmx tells events of every element that it takes out or puts in, thousands for a long text; nothing here listens.
export function startSwaps() {
  on("before-swap", () => (isWhole = true));
  on("before-piece", ({ detail }) => {
    findPatched(detail.fragment).forEach((old, body) => takeOver(body, old));
    const { target, fragment } = detail;
    // A piece that is swapped by what it holds, where it has no texts and no controls: the rail, the operations.
    if (!(fragment instanceof Element) || fragment.querySelector(`.body, ${CONTROLS}`)) return;
    setChildren(target, settledChildren(fragment, target));
    detail.shouldSwap = false;
  });
  window.htmx.defineExtension("in-one-go", {
    handleSwap(style, target, fragment) {
      if (style !== "innerHTML" || !(target instanceof Element)) return false;
      const children = [...fragment.childNodes];
      if (target === byId("panes")) swapPanes(/** @type {ParentNode} */ (fragment), children);
      else target.replaceChildren(...children);
      return [];
    },
  });
}

/**
 * An answer's bodies that stand where the page has one of the same stage: those come to hold what these hold, and stay
 * as they are scrolled. To scroll new ones there would lay the page out once more.
 * @param {HTMLElement} pane
 * @param {HTMLElement | undefined} old
 * @returns {Pairs}
 */
function pairsInPlace(pane, old) {
  const [fresh, shown] = [bodies(pane), old ? bodies(old) : []];
  const isAlike = old && pane.dataset.stage === old.dataset.stage && fresh.length === shown.length;
  return new Map(isAlike && hasTexts(pane) && hasTexts(old) ? fresh.map((body, at) => [body, shown[at]]) : []);
}

/**
 * An answer's panes in the place of those that are shown. A text stays in the document with all that it lies in, since
 * what is taken out and put in is laid out anew; what is beside it becomes the answer's.
 * @param {ParentNode} fragment
 * @param {ChildNode[]} children
 */
function swapPanes(fragment, children) {
  const patched = findPatched(fragment);
  const shown = panes();
  const fresh = children.filter((child) => child instanceof HTMLElement);
  setChildren(
    byId("panes"),
    children.map((pane) => {
      if (!(pane instanceof HTMLElement)) return pane;
      const old = shown[fresh.indexOf(pane)];
      const own = new Map([...patched].filter(([body]) => pane.contains(body)));
      const pairs = new Map([...pairsInPlace(pane, old), ...own]);
      if (pairs.size && [...pairs].every(([body, was]) => pathTo(pane, body) === pathTo(old, was)))
        return graft(pane, old, pairs);
      own.forEach((was, body) => takeOver(body, was));
      return pane;
    }),
  );
}

/**
 * What an element lies in up to its pane, `DIV/DIV`; nothing where it is in another pane.
 * @param {Element | undefined} pane
 * @param {Element} element
 */
function pathTo(pane, element) {
  if (!pane?.contains(element)) return undefined;
  const path = [];
  for (let at = element; at !== pane && at.parentElement; at = at.parentElement) path.push(at.tagName);
  return path.join("/");
}

/**
 * Make an element that is shown equal to an answer's, without moving the bodies in it, or the texts that are patched.
 * @param {Element} fresh
 * @param {Element} shown
 * @param {Pairs} pairs
 * @returns {Element} the shown one
 */
function graft(fresh, shown, pairs) {
  setAttributes(shown, fresh);
  if (pairs.get(fresh) === shown) {
    const code = fresh.hasAttribute("data-from") ? codeOf(shown) : null;
    if (code) patch(code, fresh);
    setChildren(shown, code ? [code, ...fresh.childNodes] : [...fresh.childNodes]);
    return shown;
  }
  /** @type {Map<ChildNode, Element | undefined>} */
  const held = new Map();
  for (const [body, old] of pairs) {
    const holds = [...fresh.children].find((child) => child.contains(body));
    if (holds) held.set(holds, [...shown.children].find((child) => child.contains(old)));
  }
  const others = [...shown.children].filter((child) => !child.matches(".body") && !child.querySelector(".body"));
  const children = [...fresh.childNodes].map((child) => {
    const place = held.get(child);
    if (place && child instanceof Element) return graft(child, place, pairs);
    const at = others.findIndex((other) => child instanceof Element && isOfKind(other, child));
    return at < 0 ? child : settled(child, others.splice(at, 1)[0]);
  });
  setChildren(shown, children);
  return shown;
}

/**
 * @param {Element} one
 * @param {Element} other
 */
const isOfKind = (one, other) => one.tagName === other.tagName && one.className === other.className;

/**
 * What stands for an answer's element: the shown one, changed where it differs, since what is put in is laid out anew.
 * A control is kept only as the answer has it: what a reader has set there is no attribute.
 * @template {ChildNode} T
 * @param {T} fresh
 * @param {ChildNode | undefined} shown
 * @returns {ChildNode}
 */
function settled(fresh, shown) {
  if (shown?.isEqualNode(fresh) && isAsWritten(shown)) return shown;
  if (!(fresh instanceof Element && shown instanceof Element && fresh.tagName === shown.tagName)) return fresh;
  if (fresh.matches(CONTROLS)) return fresh;
  setAttributes(shown, fresh);
  setChildren(shown, settledChildren(fresh, shown));
  return shown;
}

/**
 * @param {Element} fresh
 * @param {Element} shown
 */
function settledChildren(fresh, shown) {
  const places = shown.childNodes.length === fresh.childNodes.length ? [...shown.childNodes] : [];
  return [...fresh.childNodes].map((child, at) => settled(child, places[at]));
}

const CONTROLS = "select, input, textarea";

/** @param {ChildNode} shown */
const isAsWritten = (shown) => !(shown instanceof Element) || controlsIn(shown).every(hasItsDefault);

/** @param {Element} element */
const controlsIn = (element) => [...(element.matches(CONTROLS) ? [element] : []), ...element.querySelectorAll(CONTROLS)];

/** @param {Element} control */
function hasItsDefault(control) {
  if (control instanceof HTMLSelectElement) return control.selectedOptions[0]?.defaultSelected === true;
  if (control instanceof HTMLTextAreaElement) return control.value === control.defaultValue;
  return control instanceof HTMLInputElement && control.value === control.defaultValue && control.checked === control.defaultChecked;
}

/**
 * @param {Element} element
 * @param {Element} like
 */
function setAttributes(element, like) {
  for (const name of element.getAttributeNames()) if (!like.hasAttribute(name)) element.removeAttribute(name);
  for (const { name, value } of like.attributes) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

/**
 * Give an element these children, in order; of those that it has already, none is moved.
 * @param {Element} element
 * @param {ChildNode[]} children
 */
function setChildren(element, children) {
  const wanted = new Set(children);
  for (const child of [...element.childNodes]) if (!wanted.has(child)) child.remove();
  let at = element.firstChild;
  for (const child of children) {
    if (child === at) at = at.nextSibling;
    else element.insertBefore(child, at);
  }
}

/**
 * The text of a shown body in the one that is a patch of it.
 * @param {Element} body
 * @param {Element} old
 */
function takeOver(body, old) {
  const code = codeOf(old);
  if (!code) return;
  patch(code, body);
  body.prepend(code);
}

/**
 * @param {Element} code the text that is shown
 * @param {Element} body what differs from it
 */
function patch(code, body) {
  const hunks = queryAll(body, "template", HTMLTemplateElement);
  const rows = [...code.children].flatMap((part) => (part.matches(".behind") ? [] : queryAll(part, ".l")));
  // From the last to the first: a hunk's place counts the rows before it.
  for (const hunk of hunks.reverse()) {
    const at = Number(hunk.dataset.at);
    const cut = rows.slice(at, at + Number(hunk.dataset.cut));
    if (at < rows.length) rows[at].before(hunk.content);
    else rows[rows.length - 1].after(hunk.content);
    cut.forEach((row) => row.remove());
    hunk.remove();
  }
  const begins = body.getAttribute("data-begins");
  if (hunks.length && begins !== null) renumber(code, Number(begins));
}

/**
 * @param {Element} code
 * @param {number} begins
 */
function renumber(code, begins) {
  queryAll(code, ".l").forEach((row, at) => {
    const cell = need(row, ".g");
    const number = String(begins + at);
    if (cell.textContent !== number) cell.textContent = number;
  });
}
