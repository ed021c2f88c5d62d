// The page that asks one question at every step of a period.

import { post } from "./api.js";
import { bars } from "./bars.js";
import { probabilityCell } from "./cells.js";
import { el } from "./dom.js";
import { choiceField, nameField, timeField, topField } from "./fields.js";
import { formPage } from "./form-page.js";
import { member, table } from "./table.js";
import { address, askFor, newView, PARTS, periodText, queryText } from "./view.js";
import { at, percent, plural } from "./format.js";

const MAX_STEPS = 60;
const MAX_ANSWERS = 100;
const unlessAsked = (part) => ({ hidden: (view) => view.asked === part });

export const periodPage = formPage({
  name: "period",
  label: "Over time",
  about: `One question at each step of a period, at ${MAX_STEPS} steps at most.`,
  start: ({ asked, subject, relation, object, first, last, answer }) => {
    const query = { asked, subject, relation, object, answer };
    const { answer: _, ...given } = asked === "time" ? askFor(query, "object") : query;
    return { ...given, first, last };
  },
  title: (view) => [queryText(view), periodText(view) || "over time"].join(" "),
  fields: [
    choiceField("asked", "Look for", (app) => PARTS.filter((part) => app.run.asked.includes(part)), askFor),
    nameField("subject", "Subject", "entity", unlessAsked("subject")),
    nameField("relation", "Relation", "relation", unlessAsked("relation")),
    nameField("object", "Object", "entity", unlessAsked("object")),
    timeField("first", "Not before"),
    timeField("last", "Not after"),
    topField("Answers", [5, 10, 20, 50], "top"),
  ],
  request: (view, app) => {
    const given = PARTS.filter((part) => part !== view.asked);
    const steps = stepsOf(view, app.run);
    if (!given.every((part) => view[part]) || !steps.length) return null;
    const question = Object.fromEntries(given.map((part) => [part, view[part]]));
    const top = Math.min(MAX_ANSWERS, app.info.limits.top);
    return { run: app.run.name, questions: steps.map((time) => ({ ...question, time })), top };
  },
  load: async (request, signal) => {
    const { results } = await post("api/v1/complete/batch", request, signal);
    return { top: request.top, completions: results.map(({ completion }) => completion) };
  },
  hint: (view, app) => {
    const missing = PARTS.filter((part) => part !== view.asked && !view[part]);
    const words = missing.length ? `Choose the ${missing.join(" and the ")} above.` : noSteps(view, app.run);
    return [el("p", { class: "empty" }, words)];
  },
  draw: (data, view) => {
    const rows = answersOver(data.completions).slice(0, Number(view.top));
    if (!rows.length) return [el("p", { class: "empty" }, "The run has no answer at any of these steps.")];
    return [answersTable(rows, data, view), ...byStep(data.completions, view)];
  },
  announce: ({ completions }) => `Answers at ${plural(completions.length, "step")}`,
});

const noSteps = ({ first, last }, run) =>
  run.times === null ? "This run has too many steps to list." : `No step is ${periodText({ first, last })}.`;

/** The steps of the period, or as many of them, evenly spaced, as can be asked. */
function stepsOf({ first, last }, { times }) {
  const start = first ? times?.indexOf(first) : 0;
  const end = last ? times?.indexOf(last) : times?.length - 1;
  if (!times || start < 0 || end < start) return [];
  const steps = times.slice(start, end + 1);
  const every = Math.ceil(steps.length / MAX_STEPS);
  return steps.filter((_, index) => index % every === 0);
}

/** Answers with their probability at each step, the highest mean first. */
function answersOver(completions) {
  const found = new Map();
  completions.forEach(({ answers }, step) => {
    for (const { name, probability } of answers) {
      if (!found.has(name)) found.set(name, completions.map(() => 0));
      found.get(name)[step] = probability;
    }
  });
  const rows = [...found].map(([name, probabilities]) => {
    const highest = Math.max(...probabilities);
    const mean = probabilities.reduce((sum, each) => sum + each, 0) / probabilities.length;
    return { name, probabilities, highest, mean, time: completions[probabilities.indexOf(highest)].time };
  });
  return rows.toSorted((one, other) => other.mean - one.mean);
}

function answersTable(rows, { completions, top }, view) {
  const ask = ({ name, time }) =>
    el("a", { href: address(newView("ask", view, { ...partsOf(view), time, answer: name })) }, time);
  const chart = ({ name, probabilities, highest, time }) =>
    bars(probabilities, 1, `${name}: highest ${percent(highest)} ${at(time)}`);
  const columns = [
    member("name", "Answer", { wide: true }),
    member("mean", "Mean", { number: true, cell: (row) => probabilityCell(row.mean) }),
    { name: "probabilities", label: "Over time", value: (row) => row.probabilities.join(" "), cell: chart },
    member("highest", "Highest", { number: true, cell: (row) => percent(row.highest) }),
    member("time", "At", { cell: ask }),
  ];
  const note = el(
    "p",
    { class: "fine" },
    `The bars over time go from ${completions[0].time} to ${completions.at(-1).time}, on a scale from 0 to 100%. `,
    `An answer counts as 0 where it is not among the first ${top}.`,
  );
  return table({ label: "Answers over time", file: "answers-over-time", columns, rows, note });
}

const partsOf = ({ asked, subject, relation, object }) => ({ asked, subject, relation, object });

/** The best answer at each step. */
function byStep(completions, view) {
  const rows = completions.flatMap(({ time, answers }) => answers.slice(0, 1).map((answer) => ({ ...answer, time })));
  const ask = ({ name, time }) =>
    el("a", { href: address(newView("ask", view, { ...partsOf(view), time, answer: name })) }, time);
  const columns = [
    member("time", "Time", { cell: ask }),
    member("name", "Best answer", { wide: true }),
    member("probability", "Probability", { number: true, cell: (row) => probabilityCell(row.probability) }),
    { name: "known", label: "Known", value: (row) => row.known ?? "new" },
  ];
  const title = "Best answer at each step";
  return [el("h3", {}, title), table({ label: title, file: "best-answers", columns, rows })];
}
