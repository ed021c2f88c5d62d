// A field for a time: a date picker, a list of steps, or plain text if there are too many.

import { el } from "./dom.js";
import { isDate } from "./format.js";

const MAX_LISTED = 2000;

export class TimeField {
  #choose;
  #id;
  #optional;
  #slot = el("span", { class: "slot" });
  #back = el("button", { type: "button", "aria-label": "One step back", onclick: () => this.#step(-1) }, "\u2039");
  #ahead = el("button", { type: "button", "aria-label": "One step ahead", onclick: () => this.#step(1) }, "\u203a");
  #field = null;
  #run = null;
  #value = "";

  /** `choose(time)` is called with the chosen time. An optional field may be empty, and has no buttons for steps. */
  constructor(choose, id = "time-step", label = "Time", optional = false) {
    this.#choose = choose;
    this.#id = id;
    this.#optional = optional;
    const parts = optional ? [this.#slot] : [this.#back, this.#slot, this.#ahead];
    this.parts = [el("label", { for: id }, label), el("div", { class: "when" }, ...parts)];
  }

  /** Offer the steps of a run, by default all, with one selected. */
  show(run, time, first = run.first) {
    if (this.#run !== run) {
      this.#run = run;
      this.#field = fieldFor(run, this.#id, this.#optional);
      this.#field.addEventListener("change", () => this.#changed());
      this.#slot.replaceChildren(this.#field);
    }
    if (this.#field.type === "date") this.#field.min = first;
    this.#value = time;
    this.#field.value = time;
    const index = run.times?.indexOf(time) ?? -1;
    this.#back.disabled = index <= 0;
    this.#ahead.disabled = index < 0 || index === run.times.length - 1;
  }

  #step(by) {
    this.#choose(this.#run.times[this.#run.times.indexOf(this.#value) + by]);
  }

  #changed() {
    const time = this.#field.value.trim();
    if ((time || this.#optional) && time !== this.#value) this.#choose(time);
  }
}

function fieldFor({ times, first, last }, id, optional) {
  const limits = { min: first, max: last };
  if (isDate(first) && isDate(last)) return el("input", { id, type: "date", ...limits, required: !optional });
  if (times !== null && times.length <= MAX_LISTED) {
    const any = optional ? [el("option", { value: "" }, "any")] : [];
    return el("select", { id }, ...any, ...times.map((time) => el("option", {}, time)));
  }
  return el("input", { id, type: "text", title: `From ${first} to ${last}` });
}
