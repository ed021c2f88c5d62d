// Numbers, names and times as people read them.

const PERCENT = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const NUMBER = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const SIGNED = new Intl.NumberFormat("en", { maximumSignificantDigits: 2, signDisplay: "exceptZero" });
const DATE = /^\d{4}-\d{2}-\d{2}$/;

export const percent = (share) => (share > 0 && share < 0.001 ? "< 0.1%" : PERCENT.format(share));
export const number = (value) => NUMBER.format(value);
export const signed = (value) => SIGNED.format(value).replace("-", "\u2212");
export const counted = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
export const isDate = (label) => DATE.test(label);
export const told = (fact) => `${fact.subject} ${fact.relation} ${fact.object}`;
export const shortened = (name, most) => (name.length <= most ? name : `${name.slice(0, most - 1).trimEnd()}\u2026`);

export const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1).replace(/\.?$/, ".")}`;
export const at = (time) => `${isDate(time) ? "on" : "at"} ${time}`;

/** How far a time is from another, where both are dates; else nothing. */
export function distance(time, from) {
  if (!isDate(time) || !isDate(from)) return "";
  const days = Math.round((Date.parse(time) - Date.parse(from)) / 86_400_000);
  if (days === 0) return "same day";
  return `${counted(Math.abs(days), "day")} ${days < 0 ? "before" : "after"}`;
}
