// The field for the time: a date picker, a list of steps, or plain text if there are too many.

import { el } from "./dom.js";
import { isDate } from "./format.js";

const MAX_LISTED = 2000;

export class TimeField {
  #choose;
  #slot = el("span", { class: "slot" });
  #back = el("button", { type: "button", "aria-label": "One step back", onclick: () => this.#step(-1) }, "\u2039");
  #ahead = el("button", { type: "button", "aria-label": "One step ahead", onclick: () => this.#step(1) }, "\u203a");
  #field = null;
  #run = null;
  #value = "";

  constructor(choose) {
    this.#choose = choose;
    this.parts = [
      el("label", { for: "time-step" }, "Time"),
      el("div", { class: "when" }, this.#back, this.#slot, this.#ahead),
    ];
  }

  /** Offer the steps of a run, with one selected. */
  show(run, time) {
    if (this.#run !== run) {
      this.#run = run;
      this.#field = fieldFor(run);
      this.#field.addEventListener("change", () => this.#changed());
      this.#slot.replaceChildren(this.#field);
    }
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
    const time = this.#field.value;
    if (time && time !== this.#value) this.#choose(time);
  }
}

function fieldFor({ times, first, last }) {
  const id = "time-step";
  if (isDate(first) && isDate(last)) return el("input", { id, type: "date", min: first, max: last, required: true });
  if (times !== null && times.length <= MAX_LISTED) {
    return el("select", { id }, ...times.map((time) => el("option", {}, time)));
  }
  return el("input", { id, type: "text", title: `From ${first} to ${last}` });
}
