// The selected run, and the run to compare it with.

import { $, el } from "./dom.js";
import { plural } from "./format.js";

export function bindRuns(app) {
  $("run").addEventListener("change", () => {
    const run = $("run").value;
    const other = run === app.view.other ? app.view.run : app.view.other;
    app.go({ ...app.view, run, other });
  });
  $("other").addEventListener("change", () => app.go({ ...app.view, other: $("other").value }));
}

export function showRuns(runs, view) {
  const option = (name) => el("option", { value: name, selected: name === view.run || name === view.other }, name);
  const names = runs.map((run) => run.name);
  const others = names.filter((name) => name !== view.run);
  $("run").replaceChildren(...names.map(option));
  $("run").value = view.run;
  $("other").replaceChildren(el("option", { value: "" }, "no other run"), ...others.map(option));
  $("other").value = view.other;
  document.querySelector(".runs").hidden = false;
  document.querySelector(".versus").hidden = others.length === 0;
  const run = runs.find(({ name }) => name === view.run);
  $("about").textContent = run ? described(run) : "";
}

/** The parts of a fact whose candidates a run ranks; for a missing time, intervals are no candidates. */
export const rankedParts = ({ asked, intervals }) => asked.filter((part) => part !== "time" || !intervals);

/** The figure of a run by its name, after a comma; empty if it was not measured. */
export function figureText(runs, name) {
  const figure = mrrText(runs.find((run) => run.name === name));
  return figure && `, ${figure}`;
}

function mrrText({ metrics }) {
  const mrr = metrics.test?.mrr ?? metrics.valid?.mrr;
  return mrr === undefined ? "" : `MRR ${mrr.toFixed(3)} on ${metrics.test ? "test" : "valid"}`;
}

function described(run) {
  const facts = Object.values(run.facts).reduce((sum, count) => sum + count, 0);
  const figure = mrrText(run) && ` ${mrrText(run)}.`;
  const sizes = [
    plural(run.entities, "entity", "entities"),
    plural(run.relations, "relation"),
    plural(facts, "fact"),
    `${run.first} to ${run.last}`,
  ];
  return `${run.name}: ${run.model} on ${run.dataset}, protocol ${run.protocol}; ${sizes.join(", ")}.${figure}`;
}
