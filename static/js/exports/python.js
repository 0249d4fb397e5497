// The model as a Python file that compiles and runs it.
/** @import { Input } from "../types.d.ts" */

/**
 * @param {Input} input
 * @param {string} name of the definition
 */
export function pythonFile(input, name) {
  const { text, sizes, defaultSizes, options, schedule, data } = input;
  const settings = { sizes, default_sizes: defaultSizes, options, schedule, ...(data && { data }) };
  return `"""${name}, saved by the Embedding Compiler Explorer. Needs the package \`explorer\`: python ${name.toLowerCase()}.py"""

import json

from explorer.runtime.run import RunRequest, execute

TEXT = ${literal(text)}
SETTINGS = json.loads(${literal(JSON.stringify(settings))})

if __name__ == "__main__":
    for event in execute(RunRequest(text=TEXT, on="cpu", **SETTINGS)):
        match event["event"]:
            case "progress":
                print(event["what"])
            case "sample" if "of" not in event:
                print(f"{event['ms']:.3f} ms")
            case "result":
                print(f"matches the float64 reference: {event['matches_reference']}")
            case "failed":
                raise SystemExit(event["message"])
`;
}

/**
 * A Python literal of a text: as it is where that can be, else as JSON writes it, whose escapes Python reads too.
 * @param {string} text
 */
function literal(text) {
  const isPlain = !text.includes('"""') && !text.includes("\\") && !text.endsWith('"');
  return isPlain ? `"""${text}"""` : JSON.stringify(text);
}
