// The page that compares two runs: their figures, and how far they agree on example questions.

import { get, post } from "./api.js";
import { el } from "./dom.js";
import { choiceField } from "./fields.js";
import { figures } from "./figures.js";
import { formPage } from "./form-page.js";
import { member, table } from "./table.js";
import { address, viewOfFact } from "./view.js";
import { percent, plural } from "./format.js";

const FIRST = 10;
const METRICS = ["mrr", "hits@1", "hits@3", "hits@10"];
const COUNTS = ["10", "20", "50", "100"];

export const comparePage = formPage({
  name: "compare",
  label: "Compare runs",
  about: "The figures of two runs, and whether they agree on the same example questions.",
  start: (view) => ({ other: view.other }),
  title: (view) => (view.other ? `${view.run} and ${view.other}` : `${view.run} and another run`),
  fields: [
    choiceField("other", "Compare with", (app) => [["", "choose a run"], ...othersOf(app)]),
    choiceField("top", "Questions", COUNTS),
  ],
  request: (view) => (view.other ? { run: view.run, other: view.other, limit: Number(view.top) } : null),
  load: answers,
  hint: (view, app) => [
    el("p", { class: "empty" }, othersOf(app).length ? "Choose a run above." : "The service has no other run."),
    figuresTable(app.info.runs),
  ],
  draw: (data, view, app) => [
    figuresTable(app.info.runs.filter(({ name }) => [view.run, view.other].includes(name))),
    ...agreement(data),
    questionsTable(data, view),
  ],
  announce: ({ rows }) => `Both runs answered ${plural(rows.length, "question")}`,
});

const othersOf = (app) => app.info.runs.map(({ name }) => name).filter((name) => name !== app.run.name);

/** Questions that both runs can answer, with their answers. */
async function answers({ run, other, limit }, signal) {
  const { facts } = await get("api/v1/examples", { run, limit }, signal);
  const questions = facts.map(({ subject, relation, time }) => ({ subject, relation, time }));
  const ask = (name) => post("api/v1/complete/batch", { run: name, questions, top: FIRST, strict: false }, signal);
  const [{ results: here }, { results: there }] = await Promise.all([run, other].map(ask));
  const rows = facts.map((fact, index) => ({ fact, here: here[index].completion, there: there[index].completion }));
  return { run, other, asked: facts.length, rows: rows.filter((row) => row.here && row.there).map(compared) };
}

function compared({ fact, here, there }) {
  const [one, two] = [here, there].map(({ answers: found }) => ({
    best: found[0] ?? null,
    rank: found.find(({ name }) => name === fact.object)?.rank ?? null,
    names: found.map(({ name }) => name),
  }));
  const same = one.best !== null && one.best.name === two.best?.name;
  return { fact, one, two, same, shared: one.names.filter((name) => two.names.includes(name)).length };
}

function figuresTable(runs) {
  const splits = [...new Set(runs.flatMap(({ metrics }) => Object.keys(metrics)))];
  const value = (split, metric) => (run) => run.metrics[split]?.[metric]?.toFixed(3) ?? "";
  const measured = splits.flatMap((split) =>
    METRICS.map((metric) => ({
      name: `${split} ${metric}`,
      label: `${metric === "mrr" ? "MRR" : metric.replace("hits", "Hits")} ${split}`,
      value: value(split, metric),
      number: true,
    })),
  );
  const columns = ["name", "model", "dataset", "protocol"].map((name) =>
    member(name, name === "name" ? "Run" : `${name[0].toUpperCase()}${name.slice(1)}`, { wide: true }),
  );
  return table({ label: "Figures of the runs", file: "figures", columns: [...columns, ...measured], rows: runs });
}

function agreement({ run, other, asked, rows }) {
  if (!rows.length) {
    const words = `${other} knows none of the names in ${plural(asked, "question")} about ${run}.`;
    return [el("p", { class: "empty" }, words)];
  }
  const share = (test) => `${rows.filter(test).length} of ${rows.length}`;
  const mean = rows.reduce((sum, { shared }) => sum + shared, 0) / rows.length;
  return [
    el("h3", {}, `Agreement on ${plural(rows.length, "question")}`),
    figures([
      ["same best answer", share(({ same }) => same)],
      [`shared among the first ${FIRST}`, mean.toFixed(1), "on average"],
      [`object of the data is first, ${run}`, share(({ one }) => one.rank === 1)],
      [`object of the data is first, ${other}`, share(({ two }) => two.rank === 1)],
    ]),
  ];
}

function questionsTable({ run, other, rows }, view) {
  const bestText = ({ best }) => (best ? `${best.name} (${percent(best.probability)})` : "none");
  const best = (side) => (row) => bestText(row[side]);
  const question = ({ fact }) => `${fact.subject} ${fact.relation} ? ${fact.time}`;
  const rank = (side) => (row) => row[side].rank ?? "";
  const columns = [
    {
      name: "question",
      label: "Question",
      value: question,
      cell: (row) => el("a", { href: address(viewOfFact(view, row.fact)) }, question(row)),
      wide: true,
    },
    { name: "object", label: "In the data", value: ({ fact }) => fact.object, wide: true },
    { name: `best ${run}`, label: `Best, ${run}`, value: best("one"), wide: true },
    { name: `rank ${run}`, label: `Rank, ${run}`, value: rank("one"), number: true },
    { name: `best ${other}`, label: `Best, ${other}`, value: best("two"), wide: true },
    { name: `rank ${other}`, label: `Rank, ${other}`, value: rank("two"), number: true },
    { name: "shared", label: `Shared of ${FIRST}`, value: ({ shared }) => shared, number: true },
    { name: "same", label: "Same best", value: ({ same }) => (same ? "yes" : "no") },
  ];
  const words = `The rank is that of the object in the data; empty if it is not among the first ${FIRST}.`;
  const note = el("p", { class: "fine" }, words);
  return rows.length ? table({ label: "Questions to both runs", file: "agreement", columns, rows, note }) : null;
}
