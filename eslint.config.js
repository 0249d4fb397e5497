// What `make lint` asks of the page's scripts, beside what tsc does (tsconfig.json).
import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["static/dist/"] },
  js.configs.recommended,
  {
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "no-param-reassign": "error",
      "no-shadow": "error",
      "no-unused-expressions": ["error", { allowShortCircuit: true }],
      "no-unused-vars": ["error", { argsIgnorePattern: "^_+$" }],
      "no-useless-return": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-arrow-callback": "error",
      "prefer-const": "error",
      "prefer-template": "error",
    },
  },
  { files: ["static/js/**"], languageOptions: { globals: globals.browser } },
  { files: ["*.js", "static/build.mjs"], languageOptions: { globals: globals.node } },
];
