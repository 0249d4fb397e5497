// The model language's colours in the editor: weight and grey for syntax, hue for the names of index sets.
/** @import { StreamParser } from "@codemirror/language" */
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { Tag } from "@lezer/highlight";

const tags = {
  keyword: Tag.define(),
  comment: Tag.define(),
  many: Tag.define(),
  vertex: Tag.define(),
  kind: Tag.define(), // "type" would be taken for a standard tag of that name
  uniq: Tag.define(),
};

const KEYWORDS = /^(?:(?:dim|score|layer|op|def|param|input|return|for|in)\b|map(?=\s+[A-Za-z_]\w*\s*:))/;
const STORED = /^(?:f16|bf16|i8|f32|half|float16|bfloat16|int8|float32)\b/;
/** @type {[RegExp, string][]} */
const SETS = [
  [/^(?:batch|edge|entry|nonzero|negatives(?=\s+of\b))\b/, "many"],
  [/^(?:entity|node)\b/, "vertex"],
  [/^(?:relation|etype|ntype)\b/, "kind"],
  [/^(?:bag|query)\b/, "uniq"],
];

/** @type {StreamParser<object>} */
const parser = {
  name: "embedding-model",
  tokenTable: tags,
  languageData: { commentTokens: { line: "#" }, closeBrackets: { brackets: ["(", "["] } },
  startState: () => ({}),
  token(stream) {
    if (stream.eatSpace()) return null;
    if (stream.match(/^#.*/) || stream.match(/^"[^"]*"?/)) return "comment";
    if (stream.match(KEYWORDS)) return "keyword";
    // `T[row, D]: bf16`, what elements are stored in.
    if (/:\s*$/.test(stream.string.slice(0, stream.pos)) && stream.match(STORED)) return "keyword";
    // `e.etype` is the type of an edge, not the set of types.
    const isAttribute = stream.string[stream.pos - 1] === ".";
    for (const [pattern, tag] of SETS) if (!isAttribute && stream.match(pattern)) return tag;
    if (!stream.match(/^[A-Za-z_]\w*/)) stream.next();
    return null;
  },
};

export const modelLanguage = [
  StreamLanguage.define(parser),
  syntaxHighlighting(
    HighlightStyle.define([
      { tag: tags.keyword, class: "k" },
      { tag: tags.comment, class: "c" },
      { tag: tags.many, class: "set many" },
      { tag: tags.vertex, class: "set vertex" },
      { tag: tags.kind, class: "set type" },
      { tag: tags.uniq, class: "set uniq" },
    ]),
  ),
];
