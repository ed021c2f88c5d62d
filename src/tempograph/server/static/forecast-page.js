// The page that shows what is likely to happen next, or on any day given what was known before.

import { scan } from "./api.js";
import { el } from "./dom.js";
import { choiceField, nameField, timeField, topField } from "./fields.js";
import { formPage } from "./form-page.js";
import { factLink, probabilityCell } from "./cells.js";
import { FACT_COLUMNS, member, table } from "./table.js";
import { entityOf } from "./view.js";
import { factText, plural, sentence, signed } from "./format.js";

const EVIDENCE = 3;
const NOTHING = "Nothing is likely here. Choose other steps, or another entity.";

export const forecastPage = formPage({
  name: "forecast",
  label: "What comes next",
  about: "Facts that are likely to happen after the data, or from a day on, given only what was known before it.",
  start: (view) => ({ entity: view.entity || entityOf(view), first: view.first }),
  title: (view) =>
    [`What may happen ${view.first ? `from ${view.first} on` : "next"}`, view.entity && `to ${view.entity}`]
      .filter(Boolean)
      .join(", "),
  fields: [
    nameField("entity", "Entity", "entity", { optional: true }),
    nameField("relation", "Relation", "relation", { optional: true }),
    timeField("first", "First step"),
    choiceField("days", "Steps", ["1", "3", "7", "14", "30"]),
    topField("Facts a step", [10, 20, 50, 100], "top"),
  ],
  submit: "Forecast",
  request: (view, app) =>
    app.run.task === "forecast"
      ? {
          run: app.run.name,
          days: Number(view.days),
          top: Number(view.top),
          evidence: EVIDENCE,
          ...(view.first && { date: view.first }),
          ...(view.entity && { entity: view.entity }),
          ...(view.relation && { relations: [view.relation] }),
        }
      : null,
  counted: "step",
  load: (request, signal, progress) => scan("api/v1/forecast", request, signal, progress),
  hint: (_, app) => [
    el(
      "p",
      { class: "empty" },
      app.run.task === "forecast"
        ? "The first forecast of a run can take a while. You can cancel it."
        : `${app.run.name} completes facts inside the period of its data. Choose a run that was trained to forecast.`,
    ),
  ],
  draw: ({ facts, end }, view) => [
    ...(facts.length ? [likelyFacts(facts, view)] : [el("p", { class: "empty" }, NOTHING)]),
    ...end.notes.map((note) => el("p", { class: "fine" }, sentence(note))),
  ],
  announce: ({ facts }) => `${plural(facts.length, "likely fact")} found`,
});

function likelyFacts(facts, view) {
  return table({
    label: "Likely facts",
    file: "forecast",
    rows: facts,
    columns: [
      member("probability", "Probability", { cell: (fact) => probabilityCell(fact.probability), number: true }),
      ...FACT_COLUMNS,
      { name: "last", label: "Last", value: (fact) => fact.last ?? "never" },
      member("count", "Before", { number: true }),
      ...(facts.some((fact) => fact.happened !== null)
        ? [{ name: "happened", label: "Happened", value: (fact) => (fact.happened ? "yes" : "no") }]
        : []),
      {
        name: "evidence",
        label: "Evidence",
        value: (fact) => fact.evidence.map(evidenceText).join("; "),
        cell: evidenceCell,
        wide: true,
      },
      askLink(view),
    ],
    note: el(
      "p",
      { class: "fine" },
      "The probability is that the fact happens at this step, given what was known before the first one. Last ",
      "and Before say when and how often it happened.",
    ),
  });
}

/** A link that asks about the fact of a row; only steps of the data have facts to show beside the answers. */
function askLink(view) {
  const link = factLink(view);
  return { ...link, cell: (fact) => (fact.happened === null ? "" : link.cell(fact)) };
}

const evidenceText = (fact) =>
  [fact.time, fact.effect !== null && signed(fact.effect), factText(fact)].filter(Boolean).join(" ");

function evidenceCell({ evidence }) {
  if (!evidence.length) return "none";
  return el(
    "details",
    {},
    el("summary", {}, plural(evidence.length, "fact")),
    el("ul", { class: "plain-facts" }, ...evidence.map((fact) => el("li", {}, evidenceText(fact)))),
  );
}
