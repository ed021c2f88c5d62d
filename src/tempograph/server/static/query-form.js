// The form: the part to predict, the other parts, the time or its period, and the number of answers.

import { $, el } from "./dom.js";
import { Search } from "./search.js";
import { askFor, ASKED, PARTS } from "./view.js";
import { TimeField } from "./time-field.js";

const TOPS = [5, 10, 20, 50, 100];
const PATHS = { subject: "api/v1/entities", relation: "api/v1/relations", object: "api/v1/entities" };
const PERIODLESS = ["relation", "time"];
const LABELS = { subject: "Subject", relation: "Relation", object: "Object", time: "Time" };

export class QueryForm {
  #app;
  #searches;
  #timeField;
  #period;
  #unknown;

  constructor(app) {
    this.#app = app;
    const change = (part) => (value) => app.go({ ...app.view, [part]: value, answer: "" });
    const search = (part) => new Search(part, LABELS[part], PATHS[part], () => app.run.name, change(part));
    this.#searches = Object.fromEntries(PARTS.map((part) => [part, search(part)]));
    this.#unknown = Object.fromEntries(ASKED.map((part) => [part, unknownPart(part)]));
    this.#timeField = new TimeField((time) => app.go({ ...app.view, time }));
    const bound = (part, label) =>
      new TimeField((time) => app.go({ ...app.view, [part]: time }), `${part}-time`, label, true);
    this.#period = {
      first: bound("first", "Not before"),
      last: bound("last", "Not after"),
      until: bound("until", "Until"),
    };
    for (const [part, field] of Object.entries(this.#period)) $(`${part}-step`).append(...field.parts);
    $("top").addEventListener("change", () => app.go({ ...app.view, top: $("top").value }));
    for (const radio of this.#radios) {
      radio.addEventListener("change", () => app.go(askFor(app.view, radio.value)));
    }
    $("question").addEventListener("submit", (event) => event.preventDefault());
  }

  get #radios() {
    return $("question").querySelectorAll("[name=asked]");
  }

  show(view) {
    for (const radio of this.#radios) {
      radio.checked = radio.value === view.asked;
      // A link may ask for a part that the run does not rank; the answers say so.
      radio.parentElement.hidden = !radio.checked && !this.#app.run.asked.includes(radio.value);
    }
    for (const part of ASKED) {
      const asked = part === view.asked;
      const field = part === "time" ? this.#timeField : this.#searches[part];
      const wanted = asked ? this.#unknown[part] : field.parts;
      $(part).classList.toggle("unknown", asked);
      if ($(part).firstChild !== wanted[0]) $(part).replaceChildren(...wanted);
      if (part !== "time") field.value = view[part];
    }
    this.#timeField.show(this.#app.run, view.time);
    for (const [part, field] of Object.entries(this.#period)) {
      $(`${part}-step`).hidden = part === "until" ? PERIODLESS.includes(view.asked) : view.asked !== "time";
      field.show(this.#app.run, view[part], part === "until" ? view.time : undefined);
    }
    this.#showTop(view.top);
  }

  #showTop(top) {
    const usual = TOPS.filter((count) => count <= this.#app.info.limits.top);
    const offered = [...new Set([...usual, Number(top) || usual[0]])].sort((one, other) => one - other);
    $("top").replaceChildren(
      ...offered.map((count) => el("option", { selected: String(count) === top }, String(count))),
    );
  }
}

const unknownPart = (part) => [
  el("span", { class: "label" }, LABELS[part]),
  el("span", { class: "wanted", role: "img", "aria-label": "to be predicted" }, "?"),
];
