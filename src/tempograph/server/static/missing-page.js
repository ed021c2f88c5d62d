// The page that searches for facts that are missing from the data.

import { scan } from "./api.js";
import { el } from "./dom.js";
import { nameField, timeField, topField } from "./fields.js";
import { formPage } from "./form-page.js";
import { factLink, probabilityCell } from "./cells.js";
import { factColumns, member, table } from "./table.js";
import { entityOf, periodText } from "./view.js";
import { percent, plural } from "./format.js";

const SLOW = "The search can take a while. You can cancel it.";
const searches = (run) => run.task !== "forecast";
const reasonNotTo = ({ name }) =>
  `${name} does not search for missing facts, because it was trained to forecast. Choose another run.`;

export const missingPage = formPage({
  name: "missing",
  label: "Missing",
  about: "Facts that are not in the data and likely happened. Narrow the search, or search everywhere.",
  start: (view) => ({ entity: view.entity || entityOf(view), first: view.first, last: view.last }),
  title: (view) =>
    ["Missing facts", view.entity && `of ${view.entity}`, view.relation && `with ${view.relation}`, periodText(view)]
      .filter(Boolean)
      .join(" "),
  fields: [
    nameField("entity", "Entity", "entity", { optional: true }),
    nameField("relation", "Relation", "relation", { optional: true }),
    timeField("first", "Not before"),
    timeField("last", "Not after"),
    topField("Facts", [10, 20, 50, 100, 500, 1000], "facts"),
  ],
  submit: "Search",
  request: (view, app) =>
    searches(app.run)
      ? {
          run: app.run.name,
          top: Number(view.top),
          ...(view.entity && { entity: view.entity }),
          ...(view.relation && { relations: [view.relation] }),
          ...(view.first && { first: view.first }),
          ...(view.last && { last: view.last }),
        }
      : null,
  load: async (request, signal, progress) => (await scan("api/v1/missing", request, signal, progress)).facts,
  hint: (_, app) => [el("p", { class: "empty" }, searches(app.run) ? SLOW : reasonNotTo(app.run))],
  draw: (facts, view) =>
    facts.length
      ? [
          table({
            label: "Missing facts",
            file: "missing-facts",
            rows: facts,
            columns: [
              member("probability", "Probability", { cell: (fact) => probabilityCell(fact.probability), number: true }),
              ...factColumns(facts),
              ...(facts.some(({ start }) => start != null) ? [] : [OTHER_TIMES]),
              factLink(view),
            ],
            note: el(
              "p",
              { class: "fine" },
              "The probability is that the fact happened, if as many facts are missing as were held out for ",
              "validation. One row for each subject, relation and object, at its best time.",
            ),
          }),
        ]
      : [el("p", { class: "empty" }, "No fact was found here. Search more steps, or for another entity.")],
  announce: (facts) => `${plural(facts.length, "missing fact")} found`,
});

/** The next best steps of events; facts that hold for a while have one interval. */
const OTHER_TIMES = {
  name: "other_times",
  label: "Other times",
  value: (fact) => fact.other_times.join("; "),
  cell: (fact) => otherTimes(fact),
  wide: true,
};

const otherTimes = ({ other_times: times, other_probabilities: probabilities }) =>
  times.flatMap((time, index) => [
    index ? ", " : "",
    el("span", { class: "nowrap" }, `${time} (${percent(probabilities[index])})`),
  ]);
