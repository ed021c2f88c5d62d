// The facts behind the chosen answer, each with its effect.

import { post, postIfPossible } from "./api.js";
import { el, refill } from "./dom.js";
import { Panel } from "./panel.js";
import { aboutFact, address, isWhole, questionOf } from "./view.js";
import { counted, distance, percent, sentence, signed, told } from "./words.js";

const MOST = 20;
const FIRST = 6;

/** Evidence from the run that a view names under `which`; `heard(facts)` is told what there is. */
export function evidencePanel(root, which, heard, failed) {
  return new Panel(
    root,
    {
      question: (view) =>
        isWhole(view) && view[which] && view.answer
          ? { ...questionOf(view, view[which]), [view.asked]: view.answer, asked: view.asked, most: MOST }
          : null,
      ask: (question, signal) => (which === "other" ? postIfPossible : post)("api/evidence", question, signal),
      draw: (found, view) => {
        root.hidden = which === "other" && !view.other;
        refill(root, ...(found === null ? hint(view, which) : shown(found, view)));
        heard(found?.evidence ?? []);
      },
    },
    failed,
  );
}

const hint = (view, which) =>
  view.answer || which === "other"
    ? []
    : [el("p", { class: "empty" }, "Choose an answer to see which facts speak for it, and which against.")];

function shown(found, view) {
  const run = el("h3", { hidden: !view.other }, found.run);
  if (!found.evidence?.length) {
    const words = found.refused ? sentence(found.refused) : `${found.run} names no fact that speaks for this answer.`;
    return [run, el("p", { class: "empty" }, words)];
  }
  const largest = Math.max(...found.evidence.map((fact) => Math.abs(fact.effect ?? fact.share ?? 0)));
  const rows = found.evidence.map((fact) => row(fact, view, largest));
  return [
    run,
    el("p", {}, reason(found)),
    el("ol", { class: "facts" }, ...rows.slice(0, FIRST)),
    rows.length > FIRST ? others(rows.slice(FIRST), found.evidence_count - rows.length) : "",
  ];
}

const others = (rows, untold) =>
  el(
    "details",
    {},
    el("summary", {}, `${counted(rows.length, "more fact")}`),
    el("ol", { class: "facts" }, ...rows),
    untold > 0 ? el("p", { class: "fine" }, `${counted(untold, "fact")} with less effect are not shown.`) : null,
  );

const MEASURED = "facts with an effect";

function reason(found) {
  const why = found.why === MEASURED ? "" : `${found.run} calls this \u201c${found.why}\u201d. `;
  return `${why}${meaning(found.evidence)}${found.known ? ` The data hold the answer itself, in ${found.known}.` : ""}`;
}

function meaning(facts) {
  if (facts.some((fact) => fact.effect)) {
    return "Without a fact marked \u25b2 the score of this answer falls by its number; without one marked \u25bc it rises.";
  }
  if (facts.some((fact) => fact.effect === 0))
    return "Without any one of these facts the score of this answer stays as it is.";
  return "How much each of these facts does is not measured here.";
}

function row(fact, view, largest) {
  const weight = fact.effect ?? fact.share ?? 0;
  const kind = weight < 0 ? "against" : "for";
  const fill = el("span", { class: `fill ${kind}` });
  fill.style.width = `${largest ? (100 * Math.abs(weight)) / largest : 0}%`;
  const sign = weight < 0 ? "\u25bc" : weight > 0 ? "\u25b2" : "\u25cf";
  const value = fact.effect === null ? (fact.share === null ? "" : percent(fact.share)) : signed(fact.effect);
  return el(
    "li",
    {},
    el("span", { class: `effect ${kind}` }, `${sign} ${value}`),
    el("span", { class: "bar" }, fill),
    el("a", { class: "told", href: address(aboutFact(view, fact)) }, told(fact)),
    el("span", { class: "fine" }, [fact.time, distance(fact.time, view.time)].filter(Boolean).join(" \u00b7 ")),
  );
}
