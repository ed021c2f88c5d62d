// The page that shows how answers move when facts are added or removed. The service keeps nothing of it.

import { post } from "./api.js";
import { el } from "./dom.js";
import { probabilityCell } from "./cells.js";
import { changesForm } from "./changes-form.js";
import { changesOf, withChange } from "./changes.js";
import { choiceField, nameField, timeField, topField } from "./fields.js";
import { formPage } from "./form-page.js";
import { rankedParts } from "./runs.js";
import { member, table } from "./table.js";
import { askFor, isComplete, queryText, requestFor, timeText } from "./view.js";
import { factText, plural, whenText } from "./format.js";

const MAX_EVIDENCE = 8;
const unlessAsked = (part) => ({ hidden: (view) => view.asked === part });

export const whatIfPage = formPage({
  name: "what-if",
  label: "What if",
  timed: true,
  about: "How answers move if facts are added or removed. Only you see it, and nothing is stored.",
  start: ({ asked, subject, relation, object, time }) => ({ asked, subject, relation, object, time }),
  title: (view) => `What if: ${queryText(view)} ${timeText(view)}`,
  fields: [
    choiceField("asked", "Look for", (app) => rankedParts(app.run), askFor),
    nameField("subject", "Subject", "entity", unlessAsked("subject")),
    nameField("relation", "Relation", "relation", unlessAsked("relation")),
    nameField("object", "Object", "entity", unlessAsked("object")),
    timeField("time", "Time", { optional: false, ...unlessAsked("time") }),
    topField("Answers", [5, 10, 20, 50, 100], "top"),
  ],
  extra: changesForm,
  request: (view, app) =>
    isComplete(view) ? { ...requestFor(view, app.run.name), top: Number(view.top), ...changesOf(view) } : null,
  load: ask,
  hint: () => [el("p", { class: "empty" }, "Complete the question above.")],
  draw: (data, view, app) => [answersTable(data), ...evidence(data, view, app)],
  announce: ({ answers, changed }) =>
    changed ? movesText(answers) : `${plural(answers.length, "answer")}; add or remove a fact to see them move`,
});

async function ask({ added, removed, ...question }, signal) {
  const changed = added.length + removed.length > 0;
  const shown = { ...question, top: 1, evidence: MAX_EVIDENCE };
  const [moves, best] = await Promise.all([
    changed
      ? post("api/v1/what-if", { ...question, added, removed }, signal)
      : post("api/v1/complete", question, signal),
    post("api/v1/complete", shown, signal),
  ]);
  return { ...moves, answers: changed ? moves.answers : moves.answers.map(unmoved), changed, best: best.answers[0] };
}

const unmoved = ({ name, rank, probability }) => ({
  name,
  rank_before: rank,
  rank_after: rank,
  probability_before: probability,
  probability_after: probability,
});

function movesText(answers) {
  const moved = answers.filter((answer) => answer.rank_before !== answer.rank_after).length;
  return `${moved ? plural(moved, "answer") : "No answer"} changed rank; the best is ${answers[0]?.name ?? "none"}`;
}

function answersTable({ answers, changed, run }) {
  if (!answers.length) return el("p", { class: "empty" }, `${run} has no answer.`);
  const columns = [
    member("rank_before", "Rank", { number: true }),
    member("name", "Answer", { wide: true }),
    probability("probability_before", "Probability"),
  ];
  const after = [
    member("rank_after", "Rank after", { number: true, cell: rankAfter }),
    probability("probability_after", "Probability after"),
  ];
  const words = changed ? `${movesText(answers)}.` : "Add or remove a fact to see ranks move.";
  const note = el("p", { class: "fine" }, words);
  return table({
    label: "Answers before and after",
    file: "what-if",
    columns: changed ? [...columns, ...after] : columns,
    rows: answers,
    note,
  });
}

const probability = (name, label) =>
  member(name, label, { number: true, cell: (row) => probabilityCell(row[name]) });

/** The new rank, and how far the answer moved. */
function rankAfter({ rank_before: before, rank_after: after }) {
  const by = before - after;
  const words = by ? `${plural(Math.abs(by), "place")} ${by > 0 ? "up" : "down"}` : "same rank";
  const sign = by ? `${by > 0 ? "\u25b2" : "\u25bc"}${Math.abs(by)}` : "=";
  return el(
    "span",
    { class: by > 0 ? "move up" : by < 0 ? "move down" : "move" },
    `${after} `,
    el("small", { title: words, "aria-hidden": "true" }, sign),
    el("span", { class: "visually-hidden" }, words),
  );
}

/** The facts behind the best answer, each with a button that removes it. */
function evidence({ best }, view, app) {
  const gone = changesOf(view).removed.map(factLine);
  const left = (best?.evidence ?? []).filter((fact) => !gone.includes(factLine(fact)));
  if (!left.length) return [];
  const item = (fact) =>
    el(
      "li",
      {},
      el("span", { class: "fact-text" }, factLine(fact)),
      " ",
      el(
        "button",
        {
          type: "button",
          class: "small",
          "aria-label": `Remove ${factText(fact)} ${whenText(fact)}`,
          onclick: () => app.go(withChange(app.view, "removed", fact)),
        },
        "Remove",
      ),
    );
  const title = `Facts behind ${best.name}, the best answer before`;
  return [el("h3", {}, title), el("ul", { class: "plain-facts" }, ...left.map(item))];
}

const factLine = (fact) => `${whenText(fact)} ${factText(fact)}`;
