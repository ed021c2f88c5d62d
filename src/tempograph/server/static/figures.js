// Numbers side by side, each with what it counts.

import { el } from "./dom.js";

/** `entries` are [words, number, remark]; a remark is optional. */
export const figures = (entries) =>
  el(
    "dl",
    { class: "figures" },
    ...entries.map(([words, value, remark]) =>
      el("div", {}, el("dt", {}, words), el("dd", {}, value, remark ? el("small", {}, ` ${remark}`) : null)),
    ),
  );
