// Numbers, names and times as people read them.

const PERCENT = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const NUMBER = new Intl.NumberFormat("en", { minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
const EFFECT = new Intl.NumberFormat("en", { minimumSignificantDigits: 2, maximumSignificantDigits: 2 });
const DATE = /^\d{4}-\d{2}-\d{2}$/;

export const percent = (share) => (share > 0 && share < 0.001 ? "< 0.1%" : PERCENT.format(share));
export const number = (value) => NUMBER.format(value);

export function signed(value) {
  const size = Math.abs(value);
  if (value === 0) return "0";
  if (size < 0.001) return "< 0.001";
  return `${value < 0 ? "\u2212" : "+"}${size < 0.01 ? size.toFixed(3) : EFFECT.format(size)}`;
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
export const isDate = (label) => DATE.test(label);
const OPEN = "..";

/** The time of a fact, or since when until when it holds, in the words of the command line. */
export function whenText({ time, start, end }) {
  if (start === undefined || start === null || end === undefined || end === null) return time;
  if (start === end && start !== OPEN && start !== "") return start;
  if (start === OPEN && end === OPEN) return "always";
  if (end === OPEN) return `since ${start || "?"}`;
  if (start === OPEN) return `until ${end || "?"}`;
  return `${start || "?"} to ${end || "?"}`;
}

export const factText = (fact) => `${fact.subject} ${fact.relation} ${fact.object}`;
export const shortened = (name, max) => (name.length <= max ? name : `${name.slice(0, max - 1).trimEnd()}\u2026`);

/** A name in at most `max` lines of `letters` characters, broken at spaces. */
export function wrapped(name, letters, max) {
  const space = name.lastIndexOf(" ", letters);
  if (name.length <= letters || space < 1 || max === 1) return [shortened(name, letters)];
  return [name.slice(0, space), ...wrapped(name.slice(space + 1), letters, max - 1)];
}

export const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1).replace(/\.?$/, ".")}`;
export const at = (time) => `${isDate(time) ? "on" : "at"} ${time}`;

/** The distance between two dates in words; empty if they are not dates. */
export function distance(time, from) {
  if (!isDate(time) || !isDate(from)) return "";
  const days = Math.round((Date.parse(time) - Date.parse(from)) / 86_400_000);
  if (days === 0) return "same day";
  return `${plural(Math.abs(days), "day")} ${days < 0 ? "before" : "after"}`;
}
