// The explorer: a view is read from the address, shown by panels, and changed by whatever one does on the page.

import { answersPanel } from "./answers.js";
import { get, hasToken, keepToken, Problem, Unreachable } from "./api.js";
import { $, el } from "./dom.js";
import { evidencePanel } from "./evidence.js";
import { graphPanel } from "./graph.js";
import { clearNotice, offerExamples, tellProblem, tellUnreachable, tellWrong } from "./notice.js";
import { Question } from "./question.js";
import { listenToRuns, showRuns } from "./runs.js";
import { themeButton } from "./theme.js";
import { timelinePanel } from "./timeline.js";
import { aboutFact, address, entityOf, inWords, PARTS, readView } from "./view.js";
import { at, counted } from "./words.js";

const EXAMPLES = 4;
const NARROW = matchMedia("(max-width: 899px)");

class App {
  info = null;
  view = null;
  #question = null;
  #panels = this.#makePanels();
  #turn = 0;

  /** The run that is asked, as /api/info tells it. */
  get run() {
    return this.info.runs.find((run) => run.name === this.view.run);
  }

  /** Look at something else. */
  go(view) {
    const chosen = view.answer && view.answer !== this.view.answer;
    history.pushState(null, "", address(view));
    this.show();
    if (chosen && NARROW.matches) $("evidence").scrollIntoView();
  }

  /** Show what the address says. */
  async show() {
    const turn = ++this.#turn;
    clearNotice();
    try {
      this.info ??= await get("api/info");
      const view = readView(location.search);
      this.view = { ...view, run: view.run || this.info.runs[0].name };
      this.#checkRuns();
      this.view.time ||= this.run.last;
      const facts = PARTS.some((part) => this.view[part]) ? [] : await this.#examples();
      if (turn !== this.#turn) return;
      if (facts.length) this.#begin(facts[0]);
      offerExamples(this.view, facts.slice(1));
      this.#draw();
    } catch (error) {
      if (turn === this.#turn) this.#report(error);
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
    return (await get("api/examples", { run: this.view.run, limit: EXAMPLES })).facts;
  }

  /** The first visit shows a question and its answers rather than an empty form. */
  #begin(fact) {
    this.view = aboutFact(this.view, fact);
    history.replaceState(null, "", address(this.view));
  }

  #draw() {
    const { view } = this;
    document.title = `${inWords(view)} ${at(view.time)} \u2013 tempograph`;
    $("asking").replaceChildren(`${inWords(view)} `, el("span", { class: "nowrap" }, at(view.time)));
    $("evidence-title").textContent = view.answer ? `Why ${view.answer}?` : "Evidence";
    this.#question ??= new Question(this);
    this.#question.show(view);
    $("token").hidden = $("waiting").hidden = true;
    $("docs").hidden = hasToken();
    $("view").hidden = false;
    $("view").classList.toggle("comparing", view.other !== "");
    for (const panel of this.#panels) panel.show(view);
  }

  #makePanels() {
    const failed = (error) => this.#report(error);
    let evidence = [];
    const first = answersPanel($("first"), "run", this, () => null, answered, failed);
    const second = answersPanel($("second"), "other", this, () => first.found, nobody, failed);
    const reasons = evidencePanel($("first-evidence"), "run", heard, failed);
    const others = evidencePanel($("second-evidence"), "other", nobody, failed);
    const timeline = timelinePanel(
      $("timeline"),
      this,
      () => evidence,
      () => graph.redraw(),
      failed,
    );
    const graph = graphPanel($("graph"), this, () => timeline.found, failed);
    return [first, second, reasons, others, timeline, graph];

    function nobody() {}

    function answered(found) {
      second.redraw();
      if (found) $("said").textContent = spoken(found);
    }

    function heard(facts) {
      const acting = facts.filter((fact) => fact.effect);
      evidence = acting.length ? acting : facts;
      timeline.redraw();
    }
  }

  #report(error) {
    $("view").hidden = true;
    if (error instanceof Unreachable) {
      tellUnreachable(error, () => this.show());
    } else if (error instanceof Problem && error.status === 401) {
      askForToken();
    } else if (error instanceof Problem) {
      tellProblem(error, this.view);
    } else {
      throw error;
    }
  }
}

function spoken({ answers, run }) {
  const first = answers.length ? `, the first is ${answers[0].name}` : "";
  return `${counted(answers.length, "answer")} of ${run}${first}`;
}

function askForToken() {
  // A link cannot carry the token that the page behind it needs.
  $("waiting").hidden = $("docs").hidden = true;
  if ($("secret").value) tellWrong("That is not the token of this service.");
  $("secret").value = "";
  $("token").hidden = false;
  $("secret").focus();
}

function listenToPage(app) {
  addEventListener("popstate", () => app.show());
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
    keepToken($("secret").value);
    app.show();
  });
  $("share").hidden = !navigator.clipboard;
  $("share").addEventListener("click", async () => {
    await navigator.clipboard.writeText(location.href);
    $("said").textContent = $("share").textContent = "Link copied";
    setTimeout(() => ($("share").textContent = "Copy link"), 2000);
  });
}

const app = new App();
themeButton($("theme"));
listenToRuns(app);
listenToPage(app);
app.show();
