// The explorer: a view is read from the URL, shown by its page, and changed by user actions.

import { Busy, get, hasToken, storeToken, Problem, Unreachable } from "./api.js";
import { $, el } from "./dom.js";
import {
  clearNotice,
  offerExamples,
  resetRetries,
  showError,
  showProblem,
  showUnavailable,
  wrongPart,
} from "./notice.js";
import { pageOf, PAGES } from "./pages.js";
import { forget, isSaved, remember } from "./question-store.js";
import { bindRuns, showRuns } from "./runs.js";
import { themeButton } from "./theme.js";
import { viewOfFact, address, entityOf, newView, PARTS, readView } from "./view.js";
import { sentence } from "./format.js";

const EXAMPLES = 4;
const NARROW = matchMedia("(max-width: 899px)");

class App {
  info = null;
  view = null;
  #mounted = new Map();
  #turn = 0;

  /** The selected run, as described by /api/v1/info. */
  get run() {
    return this.info.runs.find((run) => run.name === this.view.run);
  }

  /** Show another view. */
  go(view) {
    const chosen = view.answer && view.answer !== this.view.answer && view.page === this.view.page;
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
      this.view.intervals = this.run.intervals;
      if (pageOf(this.view).timed && this.view.asked !== "time") this.view.time ||= this.run.last;
      const empty = pageOf(this.view) === PAGES[0] && !PARTS.some((part) => this.view[part]);
      const facts = empty ? await this.#examples() : [];
      if (turn !== this.#turn) return;
      if (facts.length) this.#openExample(facts[0]);
      offerExamples(this.view, facts.slice(1));
      this.#draw();
    } catch (error) {
      if (turn === this.#turn) this.#reportForPage(error);
    }
  }

  /** Let screen readers say something. */
  announce(words) {
    $("status").textContent = words;
  }

  /** An error of a panel, which shows it: a wrong query is also corrected above all panels. */
  report(error) {
    const ofQuery = error instanceof Problem && error.status < 500 && wrongPart(error, this.view) !== "answer";
    if (ofQuery && error.status !== 401) showProblem(error, this.view);
    else this.reportOfOther(error);
  }

  /** An error of the second run, which shows it: the first may be able to answer. */
  reportOfOther(error) {
    if (error instanceof Unreachable || error instanceof Busy) {
      showUnavailable(error, () => this.show());
    } else if (!(error instanceof Problem)) {
      throw error;
    } else if (error.status === 401) {
      this.#present([]);
      askForToken();
    } else {
      this.announce(sentence(error.message));
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
    const page = pageOf(view);
    document.title = `${page.title(view)} \u2013 tempograph`;
    if (!this.#mounted.has(page)) this.#mounted.set(page, page.mount(this));
    const { elements, target, show } = this.#mounted.get(page);
    for (const [other, { hide }] of this.#mounted) if (other !== page) hide?.();
    $("token").hidden = $("waiting").hidden = true;
    $("docs").hidden = hasToken();
    $("skip").href = `#${target}`;
    this.#showLinks(view, page);
    this.#present(elements);
    if (page.name !== "history") remember("history", address(view), page.title(view));
    this.showSaved();
    show(view);
  }

  /** Save the question in this browser, or forget it if it is saved. */
  toggleSaved() {
    const place = address(this.view);
    if (isSaved(place)) forget("saved", place);
    else remember("saved", place, pageOf(this.view).title(this.view));
    this.showSaved();
    this.announce(isSaved(place) ? "Question saved" : "Question no longer saved");
  }

  /** Show whether the question is saved. */
  showSaved() {
    const saved = isSaved(address(this.view));
    $("save").hidden = pageOf(this.view).name === "history";
    $("save").setAttribute("aria-pressed", String(saved));
    $("save").textContent = saved ? "\u2605 Saved" : "\u2606 Save";
  }

  #showLinks(view, current) {
    const link = (page) =>
      el(
        "a",
        {
          href: address(page === current ? view : newView(page.name, view, page.start(view))),
          "aria-current": page === current ? "page" : null,
        },
        page.label,
      );
    const focused = [...$("pages").children].indexOf(document.activeElement);
    $("pages").replaceChildren(...PAGES.map(link));
    $("pages").children[focused]?.focus();
    const { offsetLeft, offsetWidth } = $("pages").querySelector("[aria-current]");
    $("pages").scrollLeft = offsetLeft - $("pages").offsetLeft - ($("pages").clientWidth - offsetWidth) / 2;
  }

  /** Show these parts of the page, and no others. */
  #present(elements) {
    const all = [...this.#mounted.values()].flatMap((page) => page.elements);
    for (const element of all) element.hidden = !elements.includes(element);
    $("page").hidden = !elements.some((element) => $("page").contains(element));
  }

  /** An error without which there is nothing to show. */
  #reportForPage(error) {
    this.#present([]);
    if (error instanceof Problem && error.status !== 401) showProblem(error, this.view ?? readView(""));
    else this.reportOfOther(error);
  }
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
    const before = app.view && placeOf(app.view);
    app.go(readView(link.getAttribute("href")));
    if (before !== placeOf(readView(location.search))) scrollTo(0, 0);
  });
  $("token").addEventListener("submit", (event) => {
    event.preventDefault();
    storeToken($("secret").value);
    app.show();
  });
  $("save").addEventListener("click", () => app.view && app.toggleSaved());
  $("share").hidden = !navigator.clipboard;
  $("share").addEventListener("click", async () => {
    await navigator.clipboard.writeText(location.href);
    $("status").textContent = $("share").textContent = "Link copied";
    setTimeout(() => ($("share").textContent = "Copy link"), 2000);
  });
}

/** What a view is about: another one is read from its top. */
const placeOf = (view) => JSON.stringify([view.page, view.entity, entityOf(view)]);

const app = new App();
themeButton($("theme"));
bindRuns(app);
bindPage(app);
app.show();
