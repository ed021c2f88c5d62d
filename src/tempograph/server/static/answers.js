// Ranked answers as bars, of one run or of two side by side.

import { post, postIfPossible } from "./api.js";
import { $, el, refill } from "./dom.js";
import { Panel } from "./panel.js";
import { address, isWhole, nextQuestion, PARTS, questionOf } from "./view.js";
import { counted, number, percent, sentence } from "./words.js";

/**
 * The answers of the run that a view names under `which`: "run" or "other". `beside()` are those that ranks are
 * compared with; `drawn(found)` is told what is shown.
 */
export function answersPanel(root, which, app, beside, drawn, failed) {
  return new Panel(
    root,
    {
      question: (view) =>
        isWhole(view) && view[which] ? { ...questionOf(view, view[which]), top: Number(view.top) } : null,
      ask: (question, signal) => (which === "other" ? postIfPossible : post)("api/complete", question, signal),
      draw: (found, view) => {
        root.hidden = which === "other" && !view.other;
        refill(root, ...(found === null ? missing(view) : shown(which, app, beside(), found, view)));
        drawn(found);
      },
    },
    failed,
  );
}

function missing(view) {
  const parts = PARTS.filter((part) => part !== view.asked && !view[part]);
  return parts.length ? [el("p", { class: "empty" }, `Choose the ${parts.join(" and the ")} above.`)] : [];
}

function shown(which, app, beside, found, view) {
  if (found.refused) return [el("h3", {}, found.run), el("p", { class: "empty" }, sentence(found.refused))];
  const width = barWidths(found.answers);
  const rows = found.answers.map((answer, place) => {
    const change = beside === null ? null : moved(beside, answer);
    return row(`${which}-${place}`, app, view, answer, width(answer), change);
  });
  return [
    el("h3", { hidden: !view.other }, found.run),
    rows.length ? el("ol", { class: "answers" }, ...rows) : nothing(found),
    view.answer && !found.answers.some(({ name }) => name === view.answer) ? notAmong(found, view.answer) : "",
    beside && rows.length ? movesTold(beside) : "",
    ...found.notes.map((note) => el("p", { class: "fine" }, sentence(note))),
  ];
}

const nothing = (found) =>
  el(
    "p",
    { class: "empty" },
    `${found.run} has no answer: no fact that it learnt from leads to one for this question. `,
    "Try another time or relation, or another run.",
  );

const notAmong = ({ answers }, name) =>
  el("p", { class: "fine" }, `${name}, which is chosen, is not among the first ${answers.length}.`);

function row(id, app, view, answer, width, change) {
  const fill = el("span", { class: "fill" });
  fill.style.width = `${Math.max(1, 100 * width)}%`;
  const value = answer.probability === null ? `score ${number(answer.score)}` : percent(answer.probability);
  const chosen = answer.name === view.answer;
  const next = nextQuestion(view, answer.name);
  return el(
    "li",
    { class: "answer", onpointerenter: () => alight(answer.name), onpointerleave: () => alight(null) },
    el(
      "button",
      {
        id,
        type: "button",
        class: "choose",
        "data-name": answer.name,
        "aria-pressed": String(chosen),
        onclick: () => app.go({ ...view, answer: chosen ? "" : answer.name }),
        onfocus: () => alight(answer.name),
        onblur: () => alight(null),
      },
      el("span", { class: "rank" }, String(answer.rank), change),
      el("span", { class: "line" }, el("span", { class: "name" }, answer.name), el("span", { class: "value" }, value)),
      el("span", { class: "line" }, el("span", { class: "bar" }, fill), badge(answer.known)),
    ),
    el(
      "a",
      { class: "go", href: address(next), "aria-label": `Ask about ${answer.name}`, title: `Ask about ${answer.name}` },
      "\u2192",
    ),
  );
}

const badge = (known) =>
  known ? el("span", { class: "badge known" }, `known: ${known}`) : el("span", { class: "badge new" }, "new");

/** How far an answer has moved from its rank in the run on the left. */
function moved(beside, answer) {
  const there = beside.answers.find((other) => other.name === answer.name);
  const by = there ? there.rank - answer.rank : 0;
  const short = by ? `${by > 0 ? "\u25b2" : "\u25bc"}${Math.abs(by)}` : there ? "=" : "\u2013";
  const words = by ? `${counted(Math.abs(by), "place")} ${by > 0 ? "up" : "down"}` : there ? "same rank" : "not there";
  return el(
    "small",
    { title: words },
    el("span", { "aria-hidden": "true" }, short),
    el("span", { class: "unseen" }, ` (${words})`),
  );
}

const movesTold = (beside) =>
  el("p", { class: "fine" }, `Below a rank: how far it is from that of ${beside.run}; \u2013 where that has it not.`);

/** The part of the longest bar that an answer's bar takes. */
function barWidths(answers) {
  const value = (answer) => answer.probability ?? answer.score;
  const least = Math.min(0, ...answers.map(value));
  const most = Math.max(...answers.map(value));
  return (answer) => (most > least ? (value(answer) - least) / (most - least) : 0);
}

/** The same answer, wherever it stands. */
function alight(name) {
  for (const button of $("answers").querySelectorAll(".choose")) {
    button.classList.toggle("alight", button.dataset.name === name);
  }
}
