// One line that says what is wrong, and how to go on.

import { Busy, get, Unreachable } from "./api.js";
import { $, el } from "./dom.js";
import { viewOfFact, address, entityPart, newView } from "./view.js";
import { at, sentence } from "./format.js";

const RETRY_MS = 2000;
const MAX_RETRY_MS = 30_000;
const MAX_RETRIES = 5;
const MEMBERS = { relations: "relation", from: "first", to: "last" };
let timer = 0;
let retries = 0;

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
  const links = corrections(problem, view);
  const anew = address(newView(view.page, { ...view, other: "" }));
  const rest = links.length ? links : [" Choose another above, or ", el("a", { href: anew }, "start over"), "."];
  showNotice("wrong", sentence(problem.message), ...rest);
}

/** Links to the view with each suggested name in place of the wrong one. */
export function corrections(problem, view) {
  const part = wrongPart(problem, view);
  if (!part || !problem.suggestions.length) return [];
  const fixed = (name) => el("a", { href: address({ ...view, [part]: name }) }, name);
  return [" Did you mean:", ...problem.suggestions.flatMap((name) => [" ", fixed(name)])];
}

/** The member of the view that a problem is about: the asked part is wrong in the chosen answer. */
export function wrongPart({ part, index }, view) {
  // What is wrong is a fact that was added or removed, and not the question.
  if (view.page === "what-if" && index !== null) return null;
  if (view.page !== "ask") return MEMBERS[part] ?? part;
  if (part === "entity") return entityPart(view);
  return part === view.asked ? "answer" : part;
}

/** The user has acted: try again as often as at first. */
export function resetRetries() {
  retries = 0;
}

/**
 * No response, or a busy service: wait until it is up, then retry. The waits grow, and after some retries only the
 * button is left: a service that is up but never answers would be asked for ever.
 */
export function showUnavailable(error, retry) {
  const again = () => {
    resetRetries();
    retry();
  };
  const ended = retries >= MAX_RETRIES;
  showNotice(
    "down",
    error.message,
    ended ? ` ${MAX_RETRIES} retries failed. ` : " Retrying. ",
    el("button", { type: "button", onclick: again }, "Retry"),
  );
  if (ended) return;
  let wait = Math.min(MAX_RETRY_MS, RETRY_MS * 2 ** retries);
  const poll = async () => {
    try {
      await get("health");
      retries += 1;
      retry();
    } catch (problem) {
      if (!(problem instanceof Unreachable || problem instanceof Busy)) return;
      wait = Math.min(MAX_RETRY_MS, 1.5 * wait);
      timer = setTimeout(poll, wait);
    }
  };
  timer = setTimeout(poll, wait);
}

/** Example queries to start with. */
export function offerExamples(view, facts) {
  const link = (fact) =>
    el("a", { href: address(viewOfFact(view, fact)) }, `${fact.subject} ${fact.relation} ? ${at(fact.time)}`);
  $("examples").replaceChildren("For example: ", ...facts.flatMap((fact) => [link(fact), " "]));
  $("examples").hidden = facts.length === 0;
}
