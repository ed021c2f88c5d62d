// The form: the part to predict, the other parts, the time, and the number of answers.

import { $, el } from "./dom.js";
import { Search } from "./search.js";
import { askFor, PARTS } from "./view.js";
import { TimeField } from "./time-field.js";

const TOPS = [5, 10, 20, 50, 100];
const PATHS = { subject: "api/v1/entities", relation: "api/v1/relations", object: "api/v1/entities" };
const LABELS = { subject: "Subject", relation: "Relation", object: "Object" };

export class QueryForm {
  #app;
  #searches;
  #timeField;
  #unknown;

  constructor(app) {
    this.#app = app;
    const change = (part) => (value) => app.go({ ...app.view, [part]: value, answer: "" });
    const search = (part) => new Search(part, LABELS[part], PATHS[part], () => app.run.name, change(part));
    this.#searches = Object.fromEntries(PARTS.map((part) => [part, search(part)]));
    this.#unknown = Object.fromEntries(PARTS.map((part) => [part, unknownPart(part)]));
    this.#timeField = new TimeField((time) => app.go({ ...app.view, time }));
    $("time").append(...this.#timeField.parts);
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
    for (const radio of this.#radios) radio.checked = radio.value === view.asked;
    for (const part of PARTS) {
      const asked = part === view.asked;
      const wanted = asked ? this.#unknown[part] : this.#searches[part].parts;
      $(part).classList.toggle("unknown", asked);
      if ($(part).firstChild !== wanted[0]) $(part).replaceChildren(...wanted);
      this.#searches[part].value = view[part];
    }
    this.#timeField.show(this.#app.run, view.time);
    this.#showTop(view.top);
    $("question").hidden = false;
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
