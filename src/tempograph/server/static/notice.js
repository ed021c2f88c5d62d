// One line that says what is wrong, and how to go on.

import { get, Unreachable } from "./api.js";
import { $, el } from "./dom.js";
import { viewOfFact, address, entityPart, readView } from "./view.js";
import { at, sentence } from "./format.js";

const RETRY_MS = 2000;
let timer = 0;

export function clearNotice() {
  clearTimeout(timer);
  $("notice").replaceChildren();
}

function showNotice(kind, ...content) {
  clearTimeout(timer);
  $("waiting").hidden = true;
  $("notice").replaceChildren(el("p", { class: kind }, ...content));
}

export function showError(words) {
  showNotice("wrong", words);
}

/** Invalid input: each suggestion is a link that corrects it. */
export function showProblem(problem, view) {
  const part = problem.part === "entity" ? entityPart(view) : problem.part;
  const fixed = (name) => el("a", { href: address({ ...view, [part]: name }) }, name);
  const links = part ? problem.suggestions.flatMap((name) => [" ", fixed(name)]) : [];
  const rest = links.length
    ? [" Did you mean:", ...links]
    : [" Choose another above, or ", el("a", { href: address({ ...readView(""), run: view.run }) }, "start over"), "."];
  showNotice("wrong", sentence(problem.message), ...rest);
}

/** No response: retry every few seconds, or at once with the button. */
export function showUnreachable(error, retry) {
  showNotice(
    "down",
    error.message,
    " Retrying every few seconds. ",
    el("button", { type: "button", onclick: retry }, "Retry"),
  );
  const poll = async () => {
    try {
      await get("health");
      retry();
    } catch (problem) {
      if (problem instanceof Unreachable) timer = setTimeout(poll, RETRY_MS);
    }
  };
  timer = setTimeout(poll, RETRY_MS);
}

/** Example queries to start with. */
export function offerExamples(view, facts) {
  const link = (fact) =>
    el("a", { href: address(viewOfFact(view, fact)) }, `${fact.subject} ${fact.relation} ? ${at(fact.time)}`);
  $("examples").replaceChildren("For example: ", ...facts.flatMap((fact) => [link(fact), " "]));
  $("examples").hidden = facts.length === 0;
}
