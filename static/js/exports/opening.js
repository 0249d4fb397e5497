// Files that are dropped onto the page, or chosen: a model's text, data, or a page that was saved with everything.
import { around, byId } from "../dom.js";
import { say } from "../page.js";

const LARGEST = 8 << 20; // bytes: a saved page with the longest panes has two

/**
 * @param {{ is: (file: File) => Promise<boolean>, send: (file: File) => void }} data what to do with a file of data
 * @param {(kept: unknown) => boolean} openSaved whether that is something to open
 * @param {(name: string, text: string) => void} openText
 */
export function startOpening(data, openSaved, openText) {
  /** @param {File | undefined} file */
  const open = async (file) => {
    if (!file) return;
    if (await data.is(file)) return data.send(file);
    if (file.size > LARGEST) return say(`${file.name} is larger than 8 MB: no model, and no page that was saved here.`);
    const text = await file.text();
    if (!/\.html?$/i.test(file.name)) return openText(file.name.slice(0, 80), text);
    const { savedIn } = await import("./offline.js");
    if (!openSaved(savedIn(text))) say(`${file.name} was not saved by this page.`);
  };
  // Over the editor the editor takes what is dragged, but for files.
  document.addEventListener("dragover", (event) => event.dataTransfer?.types.includes("Files") && event.preventDefault());
  document.addEventListener(
    "drop",
    (event) => {
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      event.stopPropagation();
      open(event.dataTransfer.files[0]);
    },
    { capture: true },
  );
  byId("open-file", HTMLInputElement).addEventListener("change", ({ target }) => {
    const input = around(target, "input", HTMLInputElement);
    if (!input) return;
    open(input.files?.[0]);
    input.value = "";
  });
}
