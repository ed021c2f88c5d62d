// The page with the questions that this browser remembers.

import { $, el } from "./dom.js";
import { forget, forgetAll, keepsHistory, questions, setKeepsHistory } from "./question-store.js";
import { exportButtons, member } from "./table.js";
import { plural } from "./format.js";

const DATE = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
const COLUMNS = [member("title"), member("address"), member("date")];

export const historyPage = {
  name: "history",
  label: "History",
  start: () => ({}),
  title: () => "Saved questions and history",
  mount(app) {
    const saved = el("section", { class: "card", id: "saved", tabindex: "-1", "aria-labelledby": "saved-title" });
    const history = el("section", { class: "card", id: "history", "aria-labelledby": "history-title" });
    const root = el("div", { class: "form-page", id: "history-page" }, saved, history);
    $("page").append(root);
    const show = () => {
      const lists = [
        list("saved", "Saved questions", "Save a question with the button at the top.", show, app),
        list("history", "History", "No question is remembered.", show, app),
      ];
      saved.replaceChildren(...lists[0]);
      history.replaceChildren(...lists[1], keepField(show));
    };
    return { elements: [root], target: "saved", show };
  },
};

function list(kind, title, empty, show, app) {
  const found = questions(kind);
  const change = (action, words) => () => {
    action();
    app.announce(words);
    app.showSaved();
    show();
    $(kind).setAttribute("tabindex", "-1");
    $(kind).focus();
  };
  const item = ({ address, title: words, date }) =>
    el(
      "li",
      {},
      el("a", { class: "fact-text", href: address }, words),
      el("small", {}, dateText(date)),
      el(
        "button",
        {
          type: "button",
          class: "small",
          "aria-label": `Remove ${words}`,
          onclick: change(() => forget(kind, address), "Removed"),
        },
        "Remove",
      ),
    );
  const clear = el(
    "button",
    { type: "button", class: "small", onclick: change(() => forgetAll(kind), "Cleared") },
    `Clear ${plural(found.length, "question")}`,
  );
  return [
    el("h2", { id: `${kind}-title` }, title),
    found.length ? el("ul", { class: "questions" }, ...found.map(item)) : el("p", { class: "empty" }, empty),
    found.length ? el("div", { class: "links" }, clear, exportButtons(kind, COLUMNS, found)) : "",
  ];
}

const dateText = (date) => (Number.isNaN(Date.parse(date)) ? "" : DATE.format(new Date(date)));

function keepField(show) {
  const box = el("input", {
    type: "checkbox",
    id: "keep-history",
    checked: keepsHistory(),
    onchange: () => {
      setKeepsHistory(box.checked);
      show();
      $("keep-history").focus();
    },
  });
  return el(
    "p",
    { class: "fine" },
    el("label", { for: box.id }, box, " Remember questions in this browser. They are not sent anywhere."),
  );
}
