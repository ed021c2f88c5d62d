// A part of the page that shows an answer of the service.

const PATIENCE_MS = 150;

/** Draw anew when the room for it has changed. */
export function redrawOnResize(panel, body) {
  let width = 0;
  new ResizeObserver(() => {
    if (body.clientWidth !== width && panel.found) panel.redraw();
    width = body.clientWidth;
  }).observe(body);
}

/**
 * `question(view)` is what must be asked to show a view, null for nothing; `ask(question, signal)` asks it;
 * `draw(found, view)` shows it, `found` being null where nothing was asked or it went wrong.
 * A newer question ends an older one, whose answer is never shown; the same question is not asked twice.
 */
export class Panel {
  #root;
  #parts;
  #failed;
  #key = "";
  #view = null;
  #drawn = null;
  #ending = new AbortController();
  found = null;

  constructor(root, parts, failed) {
    this.#root = root;
    this.#parts = parts;
    this.#failed = failed;
  }

  async show(view) {
    this.#view = view;
    const question = this.#parts.question(view);
    const key = JSON.stringify(question);
    if (key === this.#key) {
      if (this.#ending.signal.aborted) this.#take(this.found);
      return;
    }
    this.#key = key;
    this.#ending.abort();
    if (question === null) this.#take(null);
    else await this.#load(question, (this.#ending = new AbortController()));
  }

  async #load(question, ending) {
    const late = setTimeout(() => this.#root.setAttribute("aria-busy", "true"), PATIENCE_MS);
    try {
      const found = await this.#parts.ask(question, ending.signal);
      if (!ending.signal.aborted) this.#end(ending, found);
    } catch (error) {
      if (ending.signal.aborted) return;
      this.forget();
      this.#end(ending, null);
      this.#failed(error);
    } finally {
      clearTimeout(late);
    }
  }

  #end(ending, found) {
    ending.abort();
    this.#take(found);
  }

  #take(found) {
    this.found = found;
    this.#drawn = this.#view;
    this.#root.removeAttribute("aria-busy");
    this.redraw();
  }

  /** Show the same answer again: what stands beside it has changed. */
  redraw() {
    if (this.#drawn !== null) this.#parts.draw(this.found, this.#drawn);
  }

  /** Ask again the next time. */
  forget() {
    this.#key = "";
  }
}
