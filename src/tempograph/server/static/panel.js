// A part of the page that shows a response of the service.

import { el, refill } from "./dom.js";
import { corrections, wrongPart } from "./notice.js";
import { plural, sentence } from "./format.js";

const BUSY_DELAY_MS = 150;

/** Redraw when the width has changed. */
export function redrawOnResize(panel, body) {
  let width = 0;
  new ResizeObserver(() => {
    if (body.clientWidth !== width && panel.data) panel.redraw();
    width = body.clientWidth;
  }).observe(body);
}

/**
 * `request(view)` is what to load for a view, or null; `load(request, signal, progress)` loads it; `draw(data, view)`
 * shows it, with null if nothing was loaded. A newer request cancels an older one; the same request is not sent twice.
 * While it loads, `progress(done, total)` shows how many of what is `counted` are done, and a button to cancel it.
 * An error is shown in the place of the data, below `heading(view)` if there is one, and passed to `onError`.
 */
export class Panel {
  #root;
  #body;
  #parts;
  #onError;
  #key = "";
  #view = null;
  #drawnView = null;
  #controller = new AbortController();
  #error = null;
  data = null;

  constructor(root, parts, onError) {
    this.#root = root;
    this.#body = root.querySelector(".body") ?? root;
    this.#parts = parts;
    this.#onError = onError;
  }

  async show(view) {
    this.#view = view;
    const request = this.#parts.request(view);
    const key = JSON.stringify(request);
    if (key === this.#key) {
      if (this.#controller.signal.aborted) this.#display(this.data);
      return;
    }
    this.#key = key;
    this.#controller.abort();
    if (request === null) this.#display(null);
    else await this.#load(request, (this.#controller = new AbortController()));
  }

  async #load(request, controller) {
    const late = setTimeout(() => this.#root.setAttribute("aria-busy", "true"), BUSY_DELAY_MS);
    let data = null;
    let failure = null;
    try {
      const progress = (done, total) => controller.signal.aborted || this.#showProgress(done, total, late);
      data = await this.#parts.load(request, controller.signal, progress);
    } catch (error) {
      failure = error;
    } finally {
      clearTimeout(late);
    }
    if (controller.signal.aborted) return;
    controller.abort();
    if (failure !== null) this.#key = "";
    this.#display(data, failure);
    if (failure !== null) this.#onError(failure);
  }

  /** Stop loading; the same view would load again. */
  cancel(focus = false) {
    if (this.#controller.signal.aborted || !this.#key) return;
    this.#controller.abort();
    this.#key = "";
    this.#root.removeAttribute("aria-busy");
    const again = el("button", { type: "button", onclick: () => this.show(this.#view) }, "Start again");
    refill(this.#body, el("p", { class: "failure" }, "Canceled. ", again));
    if (focus) again.focus();
  }

  #showProgress(done, total, late) {
    clearTimeout(late);
    this.#root.removeAttribute("aria-busy");
    const all = plural(total, this.#parts.counted ?? "candidate");
    const words = total ? `${done.toLocaleString("en")} of ${all}` : "Starting\u2026";
    const bar = this.#body.querySelector(":scope > .progress");
    if (bar) {
      bar.querySelector("progress").max = total || 1;
      if (total) bar.querySelector("progress").value = done;
      bar.querySelector("span").textContent = words;
      return;
    }
    refill(
      this.#body,
      el(
        "div",
        { class: "progress" },
        el("progress", { value: total ? done : null, max: total || 1, "aria-label": "Progress of the search" }),
        el("span", {}, words),
        el("button", { type: "button", onclick: () => this.cancel(true) }, "Cancel"),
      ),
    );
  }

  #display(data, error = null) {
    this.data = data;
    this.#error = error;
    this.#drawnView = this.#view;
    this.#root.removeAttribute("aria-busy");
    this.redraw();
  }

  /** Draw the same data again, because something around it has changed. */
  redraw() {
    if (this.#drawnView === null) return;
    this.#parts.draw(this.data, this.#drawnView);
    if (this.#error !== null) this.#showError(this.#error, this.#drawnView);
  }

  #showError(error, view) {
    const heading = this.#parts.heading?.(view) ?? [];
    // Another part of the query is corrected above all panels, once.
    const links = wrongPart(error, view) === "answer" ? corrections(error, view) : [];
    const retry = el("button", { type: "button", onclick: () => this.show(this.#view) }, "Retry");
    const failed = !(error.status < 500);
    const kind = failed || links.length ? "failure" : "empty";
    const words = [sentence(error.message), ...links, ...(failed ? [" ", retry] : [])];
    refill(this.#body, ...heading, el("p", { class: kind }, ...words));
  }
}
