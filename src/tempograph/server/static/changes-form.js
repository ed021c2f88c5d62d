// A form that makes a fact to add or remove, and the list of such changes.

import { el, replace } from "./dom.js";
import { changesOf, withChange, without } from "./changes.js";
import { Search } from "./search.js";
import { TimeField } from "./time-field.js";
import { PARTS } from "./view.js";
import { factText, plural, whenText } from "./format.js";

const LABELS = { subject: "Subject of it", relation: "Relation of it", object: "Object of it" };
const PATHS = { subject: "api/v1/entities", relation: "api/v1/relations", object: "api/v1/entities" };

export function changesForm(app) {
  const fact = { subject: "", relation: "", object: "", time: "" };
  let until = "";
  const choose = (part) => (value) => {
    fact[part] = value;
    fields[part].value = value;
    update();
  };
  const search = (part) => new Search(`change-${part}`, LABELS[part], PATHS[part], () => app.run.name, choose(part));
  const fields = Object.fromEntries(PARTS.map((part) => [part, search(part)]));
  const time = new TimeField(setTime, "change-time", "Time of it");
  const end = new TimeField(setUntil, "change-until", "Until", true);
  const endCell = el("div", { class: "part" }, ...end.parts);
  const buttons = { added: changeButton("added", "Add the fact"), removed: changeButton("removed", "Remove the fact") };
  const list = el("ul", { class: "plain-facts", tabindex: "-1", "aria-label": "Facts added and removed" });
  const cells = [...Object.values(fields).map(({ parts }) => ["part wide", parts]), ["part", time.parts]];
  const element = el(
    "form",
    { class: "card fields", "aria-label": "Changes", onsubmit: (event) => event.preventDefault() },
    el("p", { class: "fine" }, "A fact to add to those that the model uses, or to remove from them:"),
    el(
      "div",
      { class: "field-row" },
      ...cells.map(([kind, parts]) => el("div", { class: kind }, ...parts)),
      endCell,
      el("div", { class: "part buttons" }, buttons.added, buttons.removed),
    ),
    list,
  );
  return { element, show };

  function setTime(value) {
    fact.time = value;
    time.show(app.run, value);
    end.show(app.run, until, value);
    update();
  }

  function setUntil(value) {
    until = value;
    end.show(app.run, value, fact.time);
    update();
  }

  /** The fact of the form: from a time until another one, or at a moment. */
  function chosen() {
    return app.run.intervals && until ? { ...fact, start: fact.time, end: until } : fact;
  }

  function changeButton(kind, words) {
    const change = () => app.go(withChange(app.view, kind, chosen()));
    return el("button", { type: "button", disabled: true, onclick: change }, words);
  }

  function update() {
    const complete = Object.values(fact).every(Boolean);
    for (const button of Object.values(buttons)) button.disabled = !complete;
  }

  function show(view) {
    fact.time ||= view.time || app.run.last;
    time.show(app.run, fact.time);
    end.show(app.run, until, fact.time);
    endCell.hidden = !app.run.intervals;
    update();
    const { added, removed } = changesOf(view);
    const count = added.length + removed.length;
    replace(list, [
      ...added.map((each) => item("added", each)),
      ...removed.map((each) => item("removed", each)),
      count ? null : el("li", { class: "fine" }, "No fact is added or removed yet."),
      count > 1 ? el("li", {}, undoAll(count)) : null,
    ]);
  }

  function item(kind, each) {
    const undo = () => app.go(without(app.view, kind, each));
    const label = `Undo: ${kind} ${factText(each)}`;
    return el(
      "li",
      {},
      el("span", { class: `badge ${kind}` }, kind),
      " ",
      el("span", { class: "fact-text" }, `${whenText(each)} ${factText(each)}`),
      " ",
      el("button", { type: "button", class: "small", "aria-label": label, onclick: undo }, "Undo"),
    );
  }

  function undoAll(count) {
    const undo = () => app.go({ ...app.view, added: "", removed: "" });
    return el("button", { type: "button", class: "small", onclick: undo }, `Undo ${plural(count, "change")}`);
  }
}
