// Rows as a table that can be saved as CSV or JSON.

import { el } from "./dom.js";
import { plural, whenText } from "./format.js";

const label = (name) => `${name[0].toUpperCase()}${name.slice(1)}`;

/**
 * A column has a `name`, its member in the export; a `label`; `value(row)`, what is exported; and `cell(row)`, what is
 * shown, by default the value. `number` aligns it at the right; a `wide` one may be folded. A column without a name is
 * not exported, and one that is `unseen` is only exported. `file` is the name of the export without its ending.
 */
export function table({ label: title, file, columns: all, rows, note = null }) {
  const columns = all.filter(({ unseen }) => !unseen);
  const hidden = () => el("span", { class: "visually-hidden" }, "Ask");
  const head = columns.map(({ label: words, number }) =>
    el("th", { scope: "col", class: number ? "number" : null }, words || hidden()),
  );
  const body = rows.map((row) => el("tr", {}, ...columns.map((column) => cell(column, row))));
  return el(
    "div",
    { class: "table" },
    el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
      el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...body)),
    ),
    note,
    exportButtons(file, all, rows),
  );
}

const shown = (value) => (typeof value === "object" && value !== null ? value : String(value ?? ""));

function cell({ cell: show, value, number, wide, label: words }, row) {
  const kinds = [number && "number", wide && "wide"].filter(Boolean).join(" ");
  return el("td", { class: kinds || null, "data-label": words }, ...[show ? show(row) : shown(value(row))].flat());
}

/** Buttons that save rows; `columns` are those of a table, without what is shown. */
export function exportButtons(file, all, rows) {
  const columns = all.filter(({ name }) => name);
  const button = (kind, type, text) =>
    el(
      "button",
      {
        type: "button",
        "aria-label": `Save ${plural(rows.length, "row")} as ${kind}`,
        onclick: () => save(`${safeName(file)}.${kind.toLowerCase()}`, type, text()),
      },
      kind,
    );
  return el(
    "p",
    { class: "export fine" },
    "Save as ",
    button("CSV", "text/csv", () => csv(columns, rows)),
    " ",
    button("JSON", "application/json", () => json(columns, rows)),
  );
}

/** Rows as CSV (RFC 4180). */
function csv(columns, rows) {
  const lines = [columns.map(({ name }) => name), ...rows.map((row) => columns.map(({ value }) => value(row) ?? ""))];
  return lines.map((line) => `${line.map((value) => quoted(String(value))).join(",")}\r\n`).join("");
}

const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function json(columns, rows) {
  const objects = rows.map((row) => Object.fromEntries(columns.map(({ name, value }) => [name, value(row) ?? null])));
  return `${JSON.stringify(objects, null, 2)}\n`;
}

const safeName = (file) => file.replaceAll(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80);

function save(file, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  el("a", { href: url, download: file }).click();
  // The browser reads it after this event.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A column that shows and exports a member of the rows. */
export const member = (name, label, more = {}) => ({ name, label, value: (row) => row[name], ...more });

/** The columns of a fact: its time, subject, relation and object. */
export const FACT_COLUMNS = ["time", "subject", "relation", "object"].map((name) =>
  member(name, label(name), { wide: name !== "time" }),
);

/** The columns of facts; of those that hold for a while, the time says since when until when. */
export function factColumns(facts) {
  if (!facts.some(({ start }) => start != null)) return FACT_COLUMNS;
  const [time, ...parts] = FACT_COLUMNS;
  const bounds = ["start", "end"].map((name) => member(name, name, { unseen: true }));
  return [{ ...time, cell: whenText }, ...parts, ...bounds];
}
