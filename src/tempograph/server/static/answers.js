// Ranked answers as bars, for one run or two side by side.

import { post } from "./api.js";
import { $, el, refill } from "./dom.js";
import { Panel } from "./panel.js";
import { address, isComplete, nextQuery, PARTS, requestFor, untilOf } from "./view.js";
import { plural, percent, sentence, whenText } from "./format.js";
import { figureText } from "./runs.js";
import { exportButtons, member } from "./table.js";

/**
 * The answers of one run of a view: `which` is "run" or "other". Ranks are compared with those of `reference()`;
 * `onDraw(data)` is called with what is shown.
 */
export function answersPanel(root, which, app, reference, onDraw, onError) {
  return new Panel(
    root,
    {
      request: (view) =>
        isComplete(view) && view[which]
          ? { ...requestFor(view, view[which]), ...periodOf(view), top: Number(view.top) }
          : null,
      load: (request, signal) => post("api/v1/complete", request, signal),
      heading: (view) => (view.other ? [el("h3", {}, view[which])] : []),
      draw: (data, view) => {
        root.hidden = which === "other" && !view.other;
        refill(root, ...(data === null ? missing(view) : render(which, app, reference(), data, view)));
        onDraw(data);
      },
    },
    onError,
  );
}

/** The steps that may be the answer, or at one of which the answer is sought. */
const periodOf = ({ asked, first, last, until }) =>
  asked === "time"
    ? { ...(first && { first }), ...(last && { last }) }
    : { ...(untilOf({ asked, until }) && { until }) };

function missing(view) {
  const parts = PARTS.filter((part) => part !== view.asked && !view[part]);
  return parts.length ? [el("p", { class: "empty" }, `Choose the ${parts.join(" and the ")} above.`)] : [];
}

function render(which, app, reference, data, view) {
  const rows = data.answers.map((answer, index) => {
    const change = reference === null ? null : rankChange(reference, answer);
    return row(`${which}-${index}`, app, view, answer, change);
  });
  return [
    el("h3", { hidden: !view.other }, data.run, el("small", {}, figureText(app.info.runs, data.run))),
    rows.length ? el("ol", { class: "answers" }, ...rows) : noAnswer(data),
    view.answer && !data.answers.some(({ name }) => name === view.answer) ? notAmong(data, view.answer) : "",
    reference && rows.length ? rankChangeNote(reference, data) : "",
    ...data.notes.map((note) => el("p", { class: "fine" }, sentence(note))),
    rows.length ? exportAnswers(data) : "",
  ];
}

/** The answers, each with its whole fact. */
function exportAnswers({ answers, run, subject, relation, object, time, until, asked }) {
  const whole = { subject, relation, object, time, until, asked };
  const rows = answers.map((answer) => ({ ...answer, ...whole, [asked]: answer.name }));
  const when = until ? ["time", "until"] : ["time"];
  const names = ["rank", "subject", "relation", "object", ...when, "asked", "score", "probability", "known"];
  return exportButtons(`answers-${run}`, names.map((name) => member(name, name)), rows);
}

const noAnswer = (data) =>
  el(
    "p",
    { class: "empty" },
    `${data.run} has no answer: none of its train facts leads to one. `,
    "Try another time or relation, or another run.",
  );

const notAmong = ({ answers }, name) =>
  el("p", { class: "fine" }, `The chosen answer, ${name}, is not among the first ${answers.length}.`);

function row(id, app, view, answer, change) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${Math.max(1, 100 * answer.probability)}%`;
  const value = percent(answer.probability);
  const chosen = answer.name === view.answer;
  const next = nextQuery(view, answer.name);
  return el(
    "li",
    { class: "answer", onpointerenter: () => highlight(answer.name), onpointerleave: () => highlight(null) },
    el(
      "button",
      {
        id,
        type: "button",
        class: "choose",
        "data-name": answer.name,
        "aria-pressed": String(chosen),
        onclick: () => app.go({ ...view, answer: chosen ? "" : answer.name }),
        onfocus: () => highlight(answer.name),
        onblur: () => highlight(null),
      },
      el("span", { class: "rank" }, String(answer.rank), change),
      el("span", { class: "line" }, el("span", { class: "name" }, answer.name), el("span", { class: "value" }, value)),
      el("span", { class: "line" }, el("span", { class: "bar" }, fill), badge(answer)),
    ),
    el(
      "a",
      { class: "go", href: address(next), "aria-label": `Ask about ${answer.name}`, title: `Ask about ${answer.name}` },
      "\u2192",
    ),
  );
}

const badge = ({ known, since, until }) => {
  if (!known) return el("span", { class: "badge new" }, "new");
  const held = whenText({ time: "", start: since, end: until });
  return el("span", { class: "badge known" }, `known: ${held ? `${held}, ` : ""}${known}`);
};

/** How far the rank of an answer differs from that in the run on the left. */
function rankChange(reference, answer) {
  const there = reference.answers.find((other) => other.name === answer.name);
  const by = there ? there.rank - answer.rank : 0;
  const short = by ? `${by > 0 ? "\u25b2" : "\u25bc"}${Math.abs(by)}` : there ? "=" : "\u2013";
  const words = by ? `${plural(Math.abs(by), "place")} ${by > 0 ? "up" : "down"}` : there ? "same rank" : "not listed";
  return el(
    "small",
    { title: words },
    el("span", { "aria-hidden": "true" }, short),
    el("span", { class: "visually-hidden" }, ` (${words})`),
  );
}

function rankChangeNote(reference, { answers }) {
  const shared = answers.filter(({ name }) => reference.answers.some((other) => other.name === name)).length;
  const same = answers[0].name === reference.answers[0]?.name;
  const best = same ? "The best answer is the same" : "The best answers differ";
  return el(
    "p",
    { class: "fine" },
    `${best}; ${shared} of ${plural(answers.length, "answer")} are in both lists. Below each rank: the change from `,
    `${reference.run}; \u2013 if it does not list the answer.`,
  );
}

/** Highlight an answer in both columns. */
function highlight(name) {
  for (const button of $("answers").querySelectorAll(".choose")) {
    button.classList.toggle("highlighted", button.dataset.name === name);
  }
}
