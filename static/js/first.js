// The one script that the page begins with: it fetches all others once what the server drew is seen. They take as long
// to compile as the page takes to paint, and with two cores either waits for the other.
import { need } from "./dom.js";

const begin = () => import(need(document, "link[data-rest]", HTMLLinkElement).href);

// A tab out of sight has no frames. htmx begins by itself only where the document has been loaded.
const afterFrame = () => (document.hidden ? begin() : requestAnimationFrame(() => setTimeout(begin)));

if (document.readyState === "complete") afterFrame();
else window.addEventListener("load", afterFrame);
