// The facts behind the chosen answer, each with its effect.

import { post } from "./api.js";
import { el, refill } from "./dom.js";
import { Panel } from "./panel.js";
import { aboutFact, address, isWhole, questionOf } from "./view.js";
import { counted, distance, signed, told } from "./words.js";

const MOST = 12;

/** Evidence from the run that a view names under `which`; `heard(facts)` is told what there is. */
export function evidencePanel(root, which, heard, failed) {
  return new Panel(
    root,
    {
      question: (view) =>
        isWhole(view) && view[which] && view.answer
          ? { ...questionOf(view, view[which]), [view.asked]: view.answer, asked: view.asked, most: MOST }
          : null,
      ask: (question, signal) => post("api/evidence", question, signal),
      draw: (found, view) => {
        root.hidden = which === "other" && !view.other;
        refill(root, ...(found === null ? hint(view) : shown(found, view)));
        heard(found?.evidence ?? []);
      },
    },
    failed,
  );
}

const hint = (view) =>
  view.answer ? [] : [el("p", { class: "empty" }, "Choose an answer to see which facts speak for it, and which against.")];

function shown(found, view) {
  const run = el("h3", { hidden: !view.other }, found.run);
  if (!found.evidence.length) {
    return [run, el("p", { class: "empty" }, `${found.run} names no fact behind this answer: ${found.why}.`)];
  }
  const largest = Math.max(...found.evidence.map((fact) => Math.abs(fact.effect ?? fact.share ?? 0)));
  const rest = found.evidence_count - found.evidence.length;
  return [
    run,
    el("p", {}, reason(found)),
    el("ol", { class: "facts" }, ...found.evidence.map((fact) => row(fact, view, largest))),
    rest > 0 ? el("p", { class: "fine" }, `and ${counted(rest, "fact")} more.`) : null,
  ].filter(Boolean);
}

function reason(found) {
  const measured = found.evidence.some((fact) => fact.effect);
  const how = measured
    ? "Each number tells how much the score of the answer falls without that fact; below zero it would rise."
    : "The model does not look at facts when it answers; these are the nearest ones it learnt from.";
  const known = found.known ? ` The data hold the answer itself, in ${found.known}.` : "";
  return `${found.run} rests on: ${found.why}. ${how}${known}`;
}

function row(fact, view, largest) {
  const weight = fact.effect ?? fact.share ?? 0;
  const fill = el("span", { class: weight < 0 ? "fill against" : "fill for" });
  fill.style.width = `${largest ? Math.max(2, (100 * Math.abs(weight)) / largest) : 0}%`;
  const sign = weight < 0 ? "\u25bc" : weight > 0 ? "\u25b2" : "\u25cf";
  return el(
    "li",
    {},
    el("span", { class: `effect ${weight < 0 ? "against" : "for"}` }, `${sign} ${signed(weight)}`),
    el("a", { class: "told", href: address(aboutFact(view, fact)) }, told(fact)),
    el("span", { class: "fine" }, [fact.time, distance(fact.time, view.time)].filter(Boolean).join(" \u00b7 ")),
    el("span", { class: "bar" }, fill),
  );
}
