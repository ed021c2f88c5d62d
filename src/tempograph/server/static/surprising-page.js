// The page that searches for known facts that the model finds implausible.

import { scan } from "./api.js";
import { el } from "./dom.js";
import { choiceField, topField } from "./fields.js";
import { formPage } from "./form-page.js";
import { factLink, probabilityCell } from "./cells.js";
import { factColumns, member, table } from "./table.js";
import { number, plural } from "./format.js";

const SPLITS = ["train", "valid", "test"];

export const surprisingPage = formPage({
  name: "surprising",
  label: "Surprising",
  about: "Known facts that the model finds least plausible: errors in the data, or real news.",
  start: () => ({}),
  title: (view) => `Surprising facts of ${view.splits || "all splits"}`,
  fields: [
    choiceField("splits", "Split", [["", "all splits"], ...SPLITS]),
    topField("Facts", [10, 20, 50, 100, 500, 1000], "facts"),
  ],
  submit: "Search",
  request: (view, app) => ({
    run: app.run.name,
    top: Number(view.top),
    splits: view.splits ? [view.splits] : SPLITS,
  }),
  counted: "fact",
  load: async (request, signal, progress) => (await scan("api/v1/surprising", request, signal, progress)).facts,
  hint: () => [el("p", { class: "empty" }, "The search scores every fact. It can take a while; you can cancel it.")],
  draw: (facts, view) =>
    facts.length
      ? [
          table({
            label: "Surprising facts",
            file: "surprising-facts",
            rows: facts,
            columns: [
              member("surprise", "Surprise", { cell: (fact) => number(fact.surprise), number: true }),
              ...factColumns(facts),
              member("known", "Split"),
              side("object_probability", "Object"),
              rank("object_rank", "Rank"),
              side("subject_probability", "Subject"),
              rank("subject_rank", "Rank"),
              factLink(view),
            ],
            note: el(
              "p",
              { class: "fine" },
              "Surprise is the mean of \u2212log p over both sides: how unlikely the object is, given the rest, and ",
              "the subject. Train facts surprise less, because the model was trained on them.",
            ),
          }),
        ]
      : [el("p", { class: "empty" }, "This split has no facts.")],
  announce: (facts) => `${plural(facts.length, "surprising fact")} found`,
});

const side = (name, label) =>
  member(name, `${label} probability`, { cell: (fact) => probabilityCell(fact[name]), number: true });

/** A rank, which is a mean over the steps of a fact that holds for a while, or over ties. */
const rank = (name, label) =>
  member(name, label, { number: true, cell: (row) => String(Number(row[name].toFixed(2))) });
