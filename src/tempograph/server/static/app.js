// The explorer: a view is read from the URL, shown by panels, and changed by user actions.

import { answersPanel } from "./answers.js";
import { get, hasToken, storeToken, Problem, Unreachable } from "./api.js";
import { $, el } from "./dom.js";
import { evidencePanel } from "./evidence.js";
import { graphPanel } from "./graph.js";
import { clearNotice, offerExamples, showProblem, showUnreachable, showError } from "./notice.js";
import { QueryForm } from "./query-form.js";
import { bindRuns, showRuns } from "./runs.js";
import { themeButton } from "./theme.js";
import { timelinePanel } from "./timeline.js";
import { viewOfFact, address, entityOf, queryText, PARTS, readView } from "./view.js";
import { at, plural } from "./format.js";

const EXAMPLES = 4;
const NARROW = matchMedia("(max-width: 899px)");

class App {
  info = null;
  view = null;
  #form = null;
  #panels = this.#makePanels();
  #turn = 0;

  /** The selected run, as described by /api/info. */
  get run() {
    return this.info.runs.find((run) => run.name === this.view.run);
  }

  /** Show another view. */
  go(view) {
    const chosen = view.answer && view.answer !== this.view.answer;
    history.pushState(null, "", address(view));
    this.show();
    if (chosen && NARROW.matches) $("evidence").scrollIntoView();
  }

  /** Show the view in the URL. */
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
      if (facts.length) this.#openExample(facts[0]);
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
    let evidence = [];
    const first = answersPanel($("first"), "run", this, () => null, answered, onError);
    const second = answersPanel($("second"), "other", this, () => first.data, noop, onError);
    const reasons = evidencePanel($("first-evidence"), "run", onEvidence, onError);
    const others = evidencePanel($("second-evidence"), "other", noop, onError);
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

    function onEvidence(facts) {
      const acting = facts.filter((fact) => fact.effect);
      evidence = acting.length ? acting : facts;
      timeline.redraw();
    }
  }

  #report(error) {
    $("view").hidden = true;
    if (error instanceof Unreachable) {
      showUnreachable(error, () => this.show());
    } else if (error instanceof Problem && error.status === 401) {
      askForToken();
    } else if (error instanceof Problem) {
      showProblem(error, this.view);
    } else {
      throw error;
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
