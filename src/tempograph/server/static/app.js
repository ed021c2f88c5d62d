// The explorer: a view is read from the URL, shown by panels, and changed by user actions.

import { answersPanel } from "./answers.js";
import { Busy, get, hasToken, storeToken, Problem, Unreachable } from "./api.js";
import { $, el } from "./dom.js";
import { evidenceAnnouncement, evidencePanel } from "./evidence.js";
import { graphPanel } from "./graph.js";
import {
  clearNotice,
  offerExamples,
  resetRetries,
  showError,
  showProblem,
  showUnavailable,
  wrongPart,
} from "./notice.js";
import { QueryForm } from "./query-form.js";
import { bindRuns, showRuns } from "./runs.js";
import { themeButton } from "./theme.js";
import { timelinePanel } from "./timeline.js";
import { viewOfFact, address, entityOf, queryText, PARTS, readView } from "./view.js";
import { at, plural, sentence } from "./format.js";

const EXAMPLES = 4;
const NARROW = matchMedia("(max-width: 899px)");

class App {
  info = null;
  view = null;
  #form = null;
  #panels = this.#makePanels();
  #turn = 0;

  /** The selected run, as described by /api/v1/info. */
  get run() {
    return this.info.runs.find((run) => run.name === this.view.run);
  }

  /** Show another view. */
  go(view) {
    const chosen = view.answer && view.answer !== this.view.answer;
    const moved = view.run !== this.view.run || entityOf(view) !== entityOf(this.view);
    history.pushState(null, "", address(moved ? { ...view, expanded: "" } : view));
    resetRetries();
    this.show();
    if (chosen && NARROW.matches) $("evidence").scrollIntoView();
  }

  /** Show the view in the URL. */
  async show() {
    const turn = ++this.#turn;
    clearNotice();
    try {
      this.info ??= await get("api/v1/info");
      const view = readView(location.search);
      this.view = { ...view, run: view.run || this.info.runs[0].name };
      this.#checkRuns();
      this.view.time ||= this.run.last;
      const facts = PARTS.some((part) => this.view[part]) ? [] : await this.#examples();
      if (turn !== this.#turn) return;
      if (facts.length) this.#openExample(facts[0]);
      offerExamples(this.view, facts.slice(1));
      this.#draw();
    } catch (error) {
      if (turn === this.#turn) this.#reportForPage(error);
    }
  }

  #checkRuns() {
    showRuns(this.info.runs, this.view);
    const names = this.info.runs.map((run) => run.name);
    for (const part of ["run", "other"]) {
      const name = this.view[part];
      if (name && !names.includes(name)) {
        throw new Problem(404, { detail: `there is no run '${name}'`, part, suggestions: names });
      }
    }
  }

  async #examples() {
    return (await get("api/v1/examples", { run: this.view.run, limit: EXAMPLES })).facts;
  }

  /** Start with an example instead of an empty form. */
  #openExample(fact) {
    this.view = viewOfFact(this.view, fact);
    history.replaceState(null, "", address(this.view));
  }

  #draw() {
    const { view } = this;
    document.title = `${queryText(view)} ${at(view.time)} \u2013 tempograph`;
    $("asking").replaceChildren(`${queryText(view)} `, el("span", { class: "nowrap" }, at(view.time)));
    $("evidence-title").textContent = view.answer ? `Why ${view.answer}?` : "Evidence";
    this.#form ??= new QueryForm(this);
    this.#form.show(view);
    $("token").hidden = $("waiting").hidden = true;
    $("docs").hidden = hasToken();
    $("view").hidden = false;
    $("view").classList.toggle("comparing", view.other !== "");
    for (const panel of this.#panels) panel.show(view);
  }

  #makePanels() {
    const onError = (error) => this.#report(error);
    const ofOther = (error) => this.#reportOfOther(error);
    const spoken = { run: "", other: "" };
    let evidence = [];
    const first = answersPanel($("first"), "run", this, () => null, answered, onError);
    const second = answersPanel($("second"), "other", this, () => first.data, noop, ofOther);
    const reasons = evidencePanel($("first-evidence"), "run", onEvidence, onError);
    const others = evidencePanel($("second-evidence"), "other", (data) => say("other", data), ofOther);
    const timeline = timelinePanel(
      $("timeline"),
      this,
      () => evidence,
      () => graph.redraw(),
      onError,
    );
    const graph = graphPanel($("graph"), this, () => timeline.data, onError);
    return [first, second, reasons, others, timeline, graph];

    function noop() {}

    function answered(data) {
      second.redraw();
      if (data) $("status").textContent = announcement(data);
    }

    function say(which, data) {
      spoken[which] = data === null ? "" : evidenceAnnouncement(data);
      const words = `${spoken.run} ${spoken.other}`.trim();
      if ($("evidence-status").textContent !== words) $("evidence-status").textContent = words;
    }

    function onEvidence(data) {
      say("run", data);
      const facts = data?.evidence ?? [];
      const acting = facts.filter((fact) => fact.effect);
      evidence = acting.length ? acting : facts;
      timeline.redraw();
    }
  }

  /** An error without which there is nothing to show. */
  #reportForPage(error) {
    $("view").hidden = true;
    if (error instanceof Problem && error.status !== 401) showProblem(error, this.view ?? readView(""));
    else this.#reportOfOther(error);
  }

  /** An error of a panel, which shows it: a wrong query is also corrected above all panels. */
  #report(error) {
    const ofQuery = error instanceof Problem && error.status < 500 && wrongPart(error, this.view) !== "answer";
    if (ofQuery && error.status !== 401) showProblem(error, this.view);
    else this.#reportOfOther(error);
  }

  /** An error of the second run, which shows it: the first may be able to answer. */
  #reportOfOther(error) {
    if (error instanceof Unreachable || error instanceof Busy) {
      showUnavailable(error, () => this.show());
    } else if (!(error instanceof Problem)) {
      throw error;
    } else if (error.status === 401) {
      $("view").hidden = true;
      askForToken();
    } else {
      $("status").textContent = sentence(error.message);
    }
  }
}

function announcement({ answers, run }) {
  const first = answers.length ? `; the best is ${answers[0].name}` : "";
  return `${plural(answers.length, "answer")} from ${run}${first}`;
}

function askForToken() {
  // The API page needs the token, which a link cannot send.
  $("waiting").hidden = $("docs").hidden = true;
  if ($("secret").value) showError("That is not the token of this service.");
  $("secret").value = "";
  $("token").hidden = false;
  $("secret").focus();
}

function bindPage(app) {
  addEventListener("popstate", () => {
    resetRetries();
    app.show();
  });
  addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='?']");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const before = app.view && entityOf(app.view);
    app.go(readView(link.getAttribute("href")));
    if (before !== entityOf(readView(location.search))) scrollTo(0, 0);
  });
  $("token").addEventListener("submit", (event) => {
    event.preventDefault();
    storeToken($("secret").value);
    app.show();
  });
  $("share").hidden = !navigator.clipboard;
  $("share").addEventListener("click", async () => {
    await navigator.clipboard.writeText(location.href);
    $("status").textContent = $("share").textContent = "Link copied";
    setTimeout(() => ($("share").textContent = "Copy link"), 2000);
  });
}

const app = new App();
themeButton($("theme"));
bindRuns(app);
bindPage(app);
app.show();
