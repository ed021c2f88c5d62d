// A page with one form and one panel of results.

import { $, el, replace } from "./dom.js";
import { Panel } from "./panel.js";

/**
 * A page of the list in pages.js, from
 * - `name`, `label`, `start(view)`, `title(view)` and `timed`;
 * - `about`, what it shows, in a sentence;
 * - `fields`, made by fields.js, and `submit`, the words of the button that asks; without it, each change asks;
 * - `extra(app)`, if there is more to fill in than fields: `{ element, show(view) }`;
 * - `request(view, app)`, what to ask, or null; `load(request, signal, progress)`, which asks it; `counted`, the word
 *   for what its progress counts;
 * - `draw(data, view, app)`, the elements that show the answer, and `announce(data)`, what a screen reader says;
 * - `hint(view, app)`, the elements if there is nothing to ask yet.
 */
export function formPage({ name, label, timed, about, start, title, fields, submit, extra, announce, ...parts }) {
  return { name, label, timed, start, title, mount };

  function mount(app) {
    const target = `${name}-results`;
    const heading = el("h2", { id: `${name}-title` });
    const body = el("div", { class: "body" });
    const results = el("section", { class: "card", id: target, tabindex: "-1", "aria-labelledby": heading.id });
    results.append(heading, body);
    const form = makeForm(app, about, fields, submit);
    const more = extra?.(app) ?? null;
    const root = el("div", { class: "form-page", id: `${name}-page` }, form.element, more?.element, results);
    $("page").append(root);
    const panel = new Panel(
      results,
      {
        request: (view) => (submit && !view.search ? null : parts.request(view, app)),
        load: parts.load,
        counted: parts.counted,
        draw: (data, view) => {
          const shown = data === null ? (parts.hint?.(view, app) ?? []) : parts.draw(data, view, app);
          replace(body, shown, results);
          if (data !== null) app.announce(announce(data));
        },
      },
      (error) => app.report(error),
    );
    const show = (view) => {
      heading.textContent = title(view);
      form.show(view);
      more?.show(view);
      panel.show(view);
    };
    return { elements: [root], target, show, hide: () => panel.cancel() };
  }
}

function makeForm(app, about, makers, submit) {
  // A changed field is asked with the next click of the button, if there is one.
  const change = (view) => app.go({ ...view, search: "" });
  const fields = makers.map((make) => {
    const field = make(app, (value) =>
      change(field.apply?.(app.view, value) ?? { ...app.view, [field.part]: value }),
    );
    return field;
  });
  const onsubmit = (event) => {
    event.preventDefault();
    if (submit) app.go({ ...app.view, search: "yes" });
  };
  const cells = fields.map(({ parts, wide }) => el("div", { class: wide ? "part wide" : "part" }, ...parts));
  if (submit) cells.push(el("div", { class: "part" }, el("button", { class: "primary" }, submit)));
  const element = el(
    "form",
    { class: "card fields", "aria-label": "Question", onsubmit },
    el("p", { class: "fine" }, about),
    cells.length ? el("div", { class: "field-row" }, ...cells) : null,
  );
  const show = (view) =>
    fields.forEach((field, index) => {
      cells[index].hidden = field.hidden?.(view) ?? false;
      field.show(view);
    });
  return { element, show };
}
