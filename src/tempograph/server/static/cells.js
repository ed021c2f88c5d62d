// Cells of tables that several pages share.

import { el } from "./dom.js";
import { factText, percent } from "./format.js";
import { address, viewOfFact } from "./view.js";

/** A probability as a number, with a bar that shows it as a part of the whole. */
export function probabilityCell(probability) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${100 * probability}%`;
  return el("span", { class: "measure" }, percent(probability), el("span", { class: "bar" }, fill));
}

/** A column with a link that asks about the fact of a row. */
export const factLink = (view) => ({
  name: null,
  label: "",
  cell: (fact) =>
    el(
      "a",
      { class: "go", href: address(viewOfFact(view, fact)), "aria-label": `Ask about ${factText(fact)} ${fact.time}` },
      "\u2192",
    ),
});
