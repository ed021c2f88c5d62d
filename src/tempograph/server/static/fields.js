// The fields of forms: each is made for the app, and shows its member of a view.

import { el } from "./dom.js";
import { Search } from "./search.js";
import { TimeField } from "./time-field.js";

const NAMES = { entity: "api/v1/entities", relation: "api/v1/relations" };

/**
 * A field for an entity or relation; `part` is the member of the view. It may stay empty if it is optional, and is not
 * shown for a view that is `hidden`.
 */
export const nameField =
  (part, label, kind, { optional = false, hidden } = {}) =>
  (app, change) => {
    const search = new Search(`${app.view.page}-${part}`, label, NAMES[kind], () => app.run.name, change, optional);
    return { part, parts: search.parts, wide: true, hidden, show: (view) => (search.value = view[part]) };
  };

export const timeField =
  (part, label, { optional = true, hidden } = {}) =>
  (app, change) => {
    const field = new TimeField(change, `${app.view.page}-${part}`, label, optional);
    return { part, parts: field.parts, hidden, show: (view) => field.show(app.run, view[part]) };
  };

/** A list of choices: values, or pairs of a value and its words. `apply(view, value)` is the view with a choice. */
export const choiceField =
  (part, label, choices, apply) =>
  (app, change) => {
    const id = `${app.view.page}-${part}`;
    const select = el("select", { id, onchange: () => change(select.value) });
    const show = (view) => {
      const offered = (typeof choices === "function" ? choices(app) : choices).map((choice) => [choice].flat());
      if (!offered.some(([value]) => value === view[part])) offered.push([view[part]]);
      select.replaceChildren(...offered.map(([value, words = value]) => el("option", { value }, words)));
      select.value = view[part];
    };
    return { part, parts: [el("label", { for: id }, label), select], apply, show };
  };

/** How many results; the most is a limit of the service. */
export const topField = (label, counts, limit) =>
  choiceField("top", label, (app) => counts.filter((count) => count <= app.info.limits[limit]).map(String));
