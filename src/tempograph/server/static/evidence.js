// The evidence for the chosen answer: whole facts, each with its time and its effect.

import { post } from "./api.js";
import { el, refill } from "./dom.js";
import { Panel } from "./panel.js";
import { viewOfFact, address, isComplete, PARTS, requestFor, untilOf } from "./view.js";
import { exportButtons, factColumns, member } from "./table.js";
import { at, distance, factText, percent, plural, signed, whenText } from "./format.js";

const MAX_FACTS = 20;
const SHOWN_FACTS = 6;

/** Evidence from one run of a view, "run" or "other"; `onEvidence(data)` is called with it, or with null. */
export function evidencePanel(root, which, app, onEvidence, onError) {
  const runOf = (view) => app.info.runs.find(({ name }) => name === view[which]);
  return new Panel(
    root,
    {
      request: (view) =>
        isComplete(view) && view[which] && view.answer
          ? {
              ...requestFor(view, view[which]),
              ...(untilOf(view) && { until: view.until }),
              ...answerOf(view, runOf(view)),
              most: MAX_FACTS,
            }
          : null,
      load: (request, signal) => post("api/v1/evidence", request, signal),
      heading: (view) => (view.other ? [el("h3", {}, view[which])] : []),
      draw: (data, view) => {
        root.hidden = which === "other" && !view.other;
        refill(root, ...(data === null ? hint(view, which) : render(data, view)));
        onEvidence(data);
      },
    },
    onError,
  );
}

/** The chosen answer, and what to explain: of an interval, the object at its middle step. */
function answerOf({ asked, answer }, { intervals, times }) {
  if (asked !== "time" || !intervals) return { [asked]: answer, asked };
  const bounds = answer.split(" to ");
  const [first, last] = [bounds[0], bounds.at(-1)].map((step) => times?.indexOf(step) ?? -1);
  return { time: first < 0 || last < 0 ? bounds[0] : times[(first + last) >> 1], asked: "object" };
}

/** What a screen reader says when evidence has been loaded. */
export function evidenceAnnouncement({ run, asked, evidence, evidence_count: count, ...fact }) {
  const about = `evidence from ${run} for ${fact[asked]}`;
  if (!evidence.length) return `No ${about}.`;
  return `${plural(count, "fact")} of ${about}; the strongest is ${factText(evidence[0])} ${at(evidence[0].time)}.`;
}

const hint = (view, which) =>
  view.answer || which === "other"
    ? []
    : [el("p", { class: "empty" }, "Choose an answer to see the facts for and against it.")];

function render(data, view) {
  const run = el("h3", { hidden: !view.other }, data.run);
  if (!data.evidence.length) return [run, el("p", { class: "empty" }, `${data.run} has no evidence for this answer.`)];
  // A share is a part of a whole, so its bar is too; effects have no limit and are compared with the largest.
  const effects = data.evidence.map((fact) => Math.abs(fact.effect ?? 0));
  const largest = data.evidence.some((fact) => fact.effect !== null) ? Math.max(...effects) : 1;
  const rows = data.evidence.map((fact) => row(fact, view, data, largest));
  const columns = [...factColumns(data.evidence), member("effect"), member("share")];
  return [
    run,
    reason(data, view),
    el("ol", { class: "facts" }, ...rows.slice(0, SHOWN_FACTS)),
    el("p", { class: "fine meaning" }, data.legend),
    rows.length > SHOWN_FACTS ? moreFacts(rows.slice(SHOWN_FACTS), data.evidence_count - rows.length) : "",
    exportButtons(`evidence-${data.run}`, columns, data.evidence),
  ];
}

const moreFacts = (rows, hidden) =>
  el(
    "details",
    {},
    el("summary", {}, `${plural(rows.length, "more fact")}`),
    el("ol", { class: "facts" }, ...rows),
    hidden > 0 ? el("p", { class: "fine" }, `${plural(hidden, "fact")} with less effect are not shown.`) : null,
  );

const MEASURED = "facts with an effect";

function reason(data, view) {
  const when = untilOf(view) ? `The answer is most likely ${at(data.time)}. ` : "";
  const why = data.why === MEASURED ? "" : `Reason given by ${data.run}: ${data.why}. `;
  const known = data.known ? `The answer itself is in the data (${data.known}).` : "";
  return when || why || known ? el("p", {}, when, why, known) : null;
}

/** A fact in the order of the command line: time, effect, subject, relation, object. */
function row(fact, view, data, largest) {
  const weight = fact.effect ?? fact.share ?? 0;
  const kind = weight < 0 ? "against" : "for";
  const fill = el("span", { class: `fill ${kind}` });
  fill.style.width = `${largest ? (100 * Math.abs(weight)) / largest : 0}%`;
  const sign = weight < 0 ? "\u25bc" : weight > 0 ? "\u25b2" : "\u25cf";
  const value = fact.effect === null ? (fact.share === null ? "" : percent(fact.share)) : signed(fact.effect);
  return el(
    "li",
    {},
    el("span", { class: "time" }, whenText(fact)),
    el("span", { class: "fine" }, distance(fact.time, view.asked === "time" ? view.answer : data.time)),
    el("span", { class: `effect ${kind}` }, `${sign} ${value}`),
    el("span", { class: "bar" }, fill),
    el(
      "a",
      { class: "fact-text", href: address(viewOfFact(view, fact)) },
      ...PARTS.flatMap((part, index) => [index ? " " : "", el("span", { class: part }, fact[part])]),
    ),
  );
}
