// Runs in a saved page, as text: it may use nothing but what stands in it.
export function linking() {
  /** @type {number | null} */
  let pinned = null;
  const lines = [...document.querySelectorAll("[data-operations]")];
  /** @param {Element} line */
  const ids = (line) => (line.getAttribute("data-operations") ?? "").split(" ").map(Number);
  /** @param {number | null} id */
  const show = (id) => {
    for (const line of lines) {
      const own = ids(line);
      line.classList.toggle("lit", id !== null && own.includes(id));
      line.classList.toggle("part", id !== null && own.includes(id) && own[0] !== id);
    }
  };
  /** @param {EventTarget | null} target */
  const operationAt = (target) => {
    const line = target instanceof Element ? target.closest("[data-operations]:not([data-made])") : null;
    return line ? ids(line)[0] : null;
  };
  document.addEventListener("mouseover", ({ target }) => show(operationAt(target) ?? pinned));
  document.addEventListener("click", ({ target }) => {
    const id = operationAt(target);
    pinned = id === pinned ? null : id;
    show(pinned);
  });
}
