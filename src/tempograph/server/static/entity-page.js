// The page of one entity: its facts, relations, partners over time, and figures.

import { get } from "./api.js";
import { bars } from "./bars.js";
import { el } from "./dom.js";
import { nameField, timeField } from "./fields.js";
import { formPage } from "./form-page.js";
import { FACT_COLUMNS, member, table } from "./table.js";
import { figures } from "./figures.js";
import { address, answeredStep, entityOf, newView, periodText, viewOfFact } from "./view.js";
import { at, factText, plural, whenText } from "./format.js";

const MAX_ROWS = 50;

export const entityPage = formPage({
  name: "entity",
  label: "Entity",
  timed: true,
  about: "What the data says about one entity, in all steps or in a period.",
  start: (view) => ({
    entity: view.entity || entityOf(view),
    time: (view.asked === "time" && answeredStep(view)) || view.time,
  }),
  title: (view) => [view.entity || "Entity", periodText(view)].filter(Boolean).join(" "),
  fields: [
    nameField("entity", "Entity", "entity"),
    timeField("first", "Not before"),
    timeField("last", "Not after"),
    timeField("time", "Facts at", { optional: false }),
  ],
  request: (view, app) =>
    view.entity
      ? { entity: view.entity, from: view.first, to: view.last, time: view.time, run: app.run.name, limit: MAX_ROWS }
      : null,
  load: (request, signal) => get("api/v1/entity", request, signal),
  hint: () => [el("p", { class: "empty" }, "Choose an entity above.")],
  draw: (data, view) => [
    links(data, view),
    numbers(data),
    ...near(data, view),
    ...relations(data, view),
    ...partners(data, view),
  ],
  announce: (data) => `${data.entity}: ${plural(totalOf(data), "fact")}`,
});

const totalOf = ({ facts }) => Object.values(facts).reduce((sum, count) => sum + count, 0);

function links({ entity }, view) {
  const { time, first, last } = view;
  return el(
    "p",
    { class: "links" },
    el("a", { href: address(newView("ask", view, { subject: entity, time })) }, "Ask about it"),
    el("a", { href: address(newView("missing", view, { entity, first, last })) }, "Find missing facts"),
  );
}

function numbers(data) {
  const splits = Object.entries(data.facts).map(([split, count]) => [`in ${split}`, count.toLocaleString("en")]);
  const measured = Object.entries(data.figures).flatMap(([split, { queries, mrr, hits_at_10: hits }]) => [
    [`MRR on ${split}`, mrr.toFixed(3), plural(queries, "query", "queries")],
    [`Hits@10 on ${split}`, hits.toFixed(3), plural(queries, "query", "queries")],
  ]);
  return figures([
    ["facts", totalOf(data).toLocaleString("en")],
    ...splits,
    ["steps with facts", data.steps.toLocaleString("en")],
    ["partners", data.total_partners.toLocaleString("en")],
    ...measured,
  ]);
}

/** The facts at the time, or the nearest ones. */
function near({ near: facts, at_time: count, entity }, view) {
  const here = count > 0;
  const words = here
    ? `Facts ${at(view.time)}`
    : facts.length
      ? `No facts ${at(view.time)}. The nearest facts:`
      : `${entity} has no facts.`;
  const item = (fact) =>
    el(
      "li",
      {},
      here && whenText(fact) === view.time ? null : `${whenText(fact)} `,
      el("a", { class: "fact-text", href: address(viewOfFact(view, fact)) }, factText(fact)),
      " ",
      el("small", {}, fact.split),
    );
  return [el("h3", {}, words), el("ul", { class: "plain-facts" }, ...facts.map(item))];
}

function relations({ relations: rows, total_relations: total, entity }, view) {
  const query = (relation) => newView("ask", view, { subject: entity, relation, time: view.time });
  const ask = ({ relation }) => el("a", { href: address(query(relation)) }, relation);
  const columns = [
    member("relation", "Relation", { cell: ask, wide: true }),
    member("as_subject", "As subject", { number: true }),
    member("as_object", "As object", { number: true }),
    member("first", "First"),
    member("last", "Last"),
  ];
  return section(`Relations (${total.toLocaleString("en")})`, `relations-${entity}`, columns, rows, total);
}

function partners({ partners: rows, total_partners: total, parts, entity }, view) {
  const most = Math.max(1, ...rows.flatMap(({ counts }) => counts));
  const open = (row) => el("a", { href: address({ ...view, entity: row.name }) }, row.name);
  const columns = [
    member("name", "Partner", { cell: open, wide: true }),
    member("facts", "Facts", { number: true }),
    {
      name: "counts",
      label: "Over time",
      value: ({ counts }) => counts.join(" "),
      cell: (row) => chart(row, parts, most),
    },
    member("first", "First"),
    member("last", "Last"),
  ];
  return section(`Partners (${total.toLocaleString("en")})`, `partners-${entity}`, columns, rows, total);
}

function section(title, file, columns, rows, total) {
  if (!rows.length) return [];
  const note = rows.length < total ? el("p", { class: "fine" }, `The first ${rows.length}, by number of facts.`) : null;
  return [el("h3", {}, title), table({ label: title, file, columns, rows, note })];
}

/** The facts in each part of the period, as bars on the scale of the whole table. */
function chart({ name, counts }, parts, most) {
  const busiest = counts.indexOf(Math.max(...counts));
  const { from, to } = parts[busiest];
  const when = from === to ? at(from) : `from ${from} to ${to}`;
  return bars(counts, most, `${name}: most facts ${when}, ${counts[busiest]}`);
}
