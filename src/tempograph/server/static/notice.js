// One line for what is wrong, with the way out.

import { get, Unreachable } from "./api.js";
import { $, el } from "./dom.js";
import { aboutFact, address, entityPart, readView } from "./view.js";
import { at, sentence } from "./words.js";

const AGAIN_MS = 2000;
let waiting = 0;

export function clearNotice() {
  clearTimeout(waiting);
  $("notice").replaceChildren();
}

function say(kind, ...content) {
  clearTimeout(waiting);
  $("waiting").hidden = true;
  $("notice").replaceChildren(el("p", { class: kind }, ...content));
}

export function tellWrong(words) {
  say("wrong", words);
}

/** Input that the service cannot take: each suggestion is a link that puts it right. */
export function tellProblem(problem, view) {
  const part = problem.part === "entity" ? entityPart(view) : problem.part;
  const fixed = (name) => el("a", { href: address({ ...view, [part]: name }) }, name);
  const ways = part ? problem.suggestions.flatMap((name) => [" ", fixed(name)]) : [];
  const out = ways.length
    ? [" Perhaps:", ...ways]
    : [" Choose another above, or ", el("a", { href: address({ ...readView(""), run: view.run }) }, "begin anew"), "."];
  say("wrong", sentence(problem.message), ...out);
}

/** No answer: try again by oneself while the page is open, or at once when told to. */
export function tellUnreachable(error, retry) {
  say(
    "down",
    error.message,
    " It is tried again every few seconds. ",
    el("button", { type: "button", onclick: retry }, "Retry"),
  );
  const look = async () => {
    try {
      await get("health");
      retry();
    } catch (problem) {
      if (problem instanceof Unreachable) waiting = setTimeout(look, AGAIN_MS);
    }
  };
  waiting = setTimeout(look, AGAIN_MS);
}

/** Something to begin with: questions that the data can answer. */
export function offerExamples(view, facts) {
  const link = (fact) =>
    el("a", { href: address(aboutFact(view, fact)) }, `${fact.subject} ${fact.relation} ? ${at(fact.time)}`);
  $("examples").replaceChildren("For example: ", ...facts.flatMap((fact) => [link(fact), " "]));
  $("examples").hidden = facts.length === 0;
}
