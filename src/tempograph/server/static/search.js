// A field that suggests names while typing: the combobox pattern of the ARIA practices.

import { get } from "./api.js";
import { el } from "./dom.js";
import { plural } from "./format.js";

const PAUSE_MS = 120;
const MAX_NAMES = 12;

export class Search {
  #path;
  #run;
  #choose;
  #optional;
  #input;
  #list;
  #value = "";
  // Text whose names have not been shown yet, or null.
  #typed = null;
  #active = -1;
  #pause = 0;
  #controller = new AbortController();

  /** `run()` is the run to search; `choose(name)` is called with the chosen name. An optional field may be emptied. */
  constructor(id, label, path, run, choose, optional = false) {
    this.#optional = optional;
    this.#path = path;
    this.#run = run;
    this.#choose = choose;
    this.#list = el("ul", { id: `${id}-names`, role: "listbox", "aria-label": `${label}: names found`, hidden: true });
    this.#input = el("input", {
      id: `${id}-name`,
      role: "combobox",
      autocomplete: "off",
      autocapitalize: "off",
      spellcheck: "false",
      placeholder: optional ? "Any" : "Type a name",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": this.#list.id,
      oninput: () => this.#later(this.#input.value),
      onkeydown: (event) => this.#key(event),
      onclick: () => this.#open || this.#find(""),
      onfocus: () => this.#input.select(),
      onblur: () => (this.#optional && this.#input.value === "" ? this.#select("") : this.#leave()),
    });
    this.parts = [el("label", { for: this.#input.id }, label), el("div", { class: "search" }, this.#input, this.#list)];
  }

  set value(name) {
    this.#value = name;
    this.#input.value = name;
    this.#input.title = name;
  }

  focus() {
    this.#input.focus();
  }

  get #open() {
    return !this.#list.hidden;
  }

  get #options() {
    return [...this.#list.querySelectorAll("[role=option]")];
  }

  /** The highlighted name. */
  get #marked() {
    return this.#list.querySelector("[aria-selected=true] span")?.textContent;
  }

  #later(text) {
    this.#typed = text;
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => this.#find(text), PAUSE_MS);
  }

  async #find(text) {
    this.#controller.abort();
    const { signal } = (this.#controller = new AbortController());
    try {
      const { names } = await get(this.#path, { q: text, limit: MAX_NAMES, run: this.#run() }, signal);
      if (document.activeElement === this.#input) this.#offer(names, text);
    } catch (error) {
      if (!signal.aborted) this.#offer([], "", error.message);
    }
  }

  #offer(names, text, message = `No name contains \u201c${text}\u201d.`) {
    const options = names.map(({ name, facts }, index) =>
      el(
        "li",
        {
          id: `${this.#list.id}-${index}`,
          role: "option",
          "aria-selected": "false",
          // Keep the focus in the field: losing it would close the list.
          onpointerdown: (event) => event.preventDefault(),
          onclick: () => this.#select(name),
        },
        el("span", {}, name),
        el("small", {}, plural(facts, "fact")),
      ),
    );
    const nothing = el("li", { class: "nothing", role: "option", "aria-disabled": "true", "aria-selected": "false" });
    nothing.textContent = message;
    this.#typed = null;
    this.#list.replaceChildren(...(options.length ? options : [nothing]));
    this.#list.hidden = false;
    this.#input.setAttribute("aria-expanded", "true");
    this.#mark(text && names.length ? 0 : -1);
  }

  #mark(index) {
    this.#active = index;
    this.#options.forEach((option, other) => option.setAttribute("aria-selected", String(other === index)));
    const option = this.#options[index];
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.#input.setAttribute("aria-activedescendant", option.id);
    else this.#input.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    const count = this.#options.length;
    const moves = { ArrowDown: (this.#active + 1) % count, ArrowUp: (this.#active - 1 + count) % count };
    if (event.key in moves) {
      event.preventDefault();
      if (this.#open) this.#mark(moves[event.key]);
      else this.#find("");
    } else if (event.key === "Enter") {
      event.preventDefault();
      this.#enter();
    } else if (event.key === "Tab") {
      if (this.#marked) this.#select(this.#marked);
    } else if (event.key === "Escape") {
      this.#leave();
    }
  }

  /** Choose the marked name; if the names of the text are still to come, wait for them first. */
  async #enter() {
    if (this.#typed !== null) {
      const text = this.#typed;
      clearTimeout(this.#pause);
      await this.#find(text);
      if (this.#typed !== null || this.#input.value !== text) return;
    }
    // The text may be a complete name; if it is wrong, the service says so.
    this.#select(this.#marked ?? this.#input.value.trim());
  }

  #select(name) {
    this.#close();
    if ((name || this.#optional) && name !== this.#value) this.#choose(name);
    else this.#input.value = this.#value;
  }

  #leave() {
    this.#close();
    this.#input.value = this.#value;
  }

  #close() {
    this.#typed = null;
    clearTimeout(this.#pause);
    this.#controller.abort();
    this.#list.hidden = true;
    this.#input.setAttribute("aria-expanded", "false");
    this.#mark(-1);
  }
}
