// The view: what the page shows. It is stored in the URL, so that a link restores it.

import { at } from "./format.js";

export const PARTS = ["subject", "relation", "object"];
export const ASKED = [...PARTS, "time"];
const DEFAULTS = {
  page: "ask",
  run: "",
  other: "",
  asked: "object",
  subject: "",
  relation: "",
  object: "",
  time: "",
  first: "",
  last: "",
  until: "",
  days: "1",
  answer: "",
  top: "10",
  reach: "",
  span: "7",
  expanded: "",
  entity: "",
  splits: "",
  kind: "entity",
  added: "",
  removed: "",
  search: "",
};

export function readView(query) {
  const given = new URLSearchParams(query);
  const view = Object.fromEntries(Object.keys(DEFAULTS).map((name) => [name, given.get(name) ?? DEFAULTS[name]]));
  if (!ASKED.includes(view.asked)) view.asked = DEFAULTS.asked;
  return { ...view, [view.asked]: "" };
}

export function address(view) {
  const parts = Object.keys(DEFAULTS).filter((name) => view[name] !== DEFAULTS[name]);
  return `?${new URLSearchParams(parts.map((name) => [name, view[name]]))}`;
}

/** A view of a page with the runs of another view, and some members. */
export const newView = (page, { run, other }, members = {}) => ({ ...DEFAULTS, run, other, ...members, page });

/** The part with the entity whose timeline and neighbors are shown. */
export const entityPart = (view) => (view.asked === "subject" ? "object" : "subject");

export const entityOf = (view) => view[entityPart(view)];

export const isComplete = (view) =>
  PARTS.every((part) => part === view.asked || view[part]) && (view.asked === "time" || view.time !== "");

/** The query as text, without its time. */
export const queryText = (view) => PARTS.map((part) => view[part] || "?").join(" ");

/** The time of the query as text. */
export function timeText(view) {
  if (view.asked === "time") return `when${periodText(view) && `, ${periodText(view)}`}?`;
  return untilOf(view) ? `at any time from ${view.time} to ${view.until}` : at(view.time);
}

/** The last step of the period that is asked about, if the question can have one. */
export const untilOf = ({ asked, until }) => (["subject", "object"].includes(asked) ? until : "");

/** The period of a view as text; empty if it has none. */
export const periodText = ({ first, last }) =>
  [first && `from ${first}`, last && `to ${last}`].filter(Boolean).join(" ");

/** The query as a request to a run. */
export function requestFor(view, run) {
  const given = ASKED.filter((part) => part !== view.asked).map((part) => [part, view[part]]);
  return { ...Object.fromEntries(given), run };
}

/** The chosen answer as a step: of an interval such as "1926 to 1929", the first one. */
export const answeredStep = ({ answer, intervals }) => (intervals ? answer.split(" to ")[0] : answer);

/** The view with the time around which facts are shown: that of the query, or the chosen answer. */
export const focused = (view, run) =>
  view.asked === "time" ? { ...view, time: answeredStep(view) || view.last || run.last } : view;

/** The query at another time alone, or with this time as the chosen answer. */
export const withTime = (view, time) =>
  view.asked === "time" ? { ...view, answer: time } : { ...view, time, until: "" };

/** The same query about another entity. */
export const aboutEntity = (view, name) => ({
  ...view,
  [entityPart(view)]: name,
  answer: view.asked === "time" ? view.answer : "",
  expanded: "",
});

/** The entities whose neighbors the graph shows: that of the query, and those that were expanded. */
export const centersOf = (view) => [entityOf(view), ...view.expanded.split("\n").filter(Boolean)];

/** The view with an entity of the graph expanded, or collapsed if it was. */
export function withExpanded(view, name) {
  const [, ...expanded] = centersOf(view);
  const others = expanded.filter((other) => other !== name);
  return { ...view, expanded: (others.length < expanded.length ? others : [...expanded, name]).join("\n") };
}

/** The query completed by the chosen answer, or null. */
export const guessOf = (view) => (view.answer && isComplete(view) ? { ...view, [view.asked]: view.answer } : null);

/** The query that follows from an answer: about that entity, with that relation, or at that time. */
export function nextQuery(view, answer) {
  if (view.asked === "relation") return { ...view, asked: "object", relation: answer, object: "", answer: "" };
  if (view.asked === "time") return askFor({ ...view, answer }, "object");
  return aboutEntity(view, answer);
}

/** A query for another part: the entity stays, and the chosen answer becomes a given part. */
export function askFor(view, asked) {
  const chosen = view.answer;
  const entity = entityOf(view);
  if (asked === "time" || view.asked === "time") {
    const whole = { ...view, [view.asked]: view.asked === "time" ? answeredStep(view) : chosen };
    return { ...whole, asked, [asked]: "", answer: whole[asked] };
  }
  if (asked === "relation") {
    const [subject, object] = view.asked === "object" ? [entity, chosen] : [chosen, entity];
    return { ...view, asked, subject, relation: "", object, answer: "" };
  }
  const other = asked === "object" ? "subject" : "object";
  const relation = view.asked === "relation" ? chosen : view.relation;
  return { ...view, asked, relation, [other]: entity, [asked]: "", answer: "" };
}

/** A fact as a query for its object, with that object chosen. */
export function viewOfFact(view, fact) {
  const { subject, relation, object, time } = fact;
  const { top, reach, span } = view.page === "ask" ? view : DEFAULTS;
  return newView("ask", view, { subject, relation, time, answer: object, top, reach, span });
}
