// Facts that are added and removed in a view, as it stores them: rows of a JSON list.

const MAX_FACTS = 100;

/** `{ added, removed }` as facts. */
export const changesOf = (view) => ({ added: read(view.added), removed: read(view.removed) });

/** The view with one more fact added or removed, as `kind` says; a change and its opposite cancel out. */
export function withChange(view, kind, fact) {
  const opposite = kind === "added" ? "removed" : "added";
  const undone = without(view, opposite, fact);
  if (undone[opposite] !== view[opposite]) return undone;
  return { ...without(view, kind, fact), [kind]: write([...read(without(view, kind, fact)[kind]), fact]) };
}

/** The view without a change. */
export function without(view, kind, fact) {
  const rows = read(view[kind]);
  const left = rows.filter((other) => keyOf(other) !== keyOf(fact));
  return left.length < rows.length ? { ...view, [kind]: write(left) } : view;
}

/** A fact as a row: four parts, and a start and an end if it holds for a while. */
const keyOf = ({ subject, relation, object, time, start, end }) =>
  JSON.stringify([subject, relation, object, time, ...(holds(end) ? [start, end] : [])]);

/** Whether a fact has an end, which may be empty; that of an event is null or absent. */
const holds = (end) => typeof end === "string";

const write = (facts) => (facts.length ? `[${facts.slice(-MAX_FACTS).map(keyOf).join(",")}]` : "");

/** Facts of a list in a URL; what is no fact is left out. */
function read(text) {
  try {
    const rows = JSON.parse(text || "[]").filter((row) => row.length === 4 || row.length === 6);
    const named = rows.filter((row) => row.every((part) => typeof part === "string"));
    return named.map(([subject, relation, object, time, start, end]) => ({
      ...{ subject, relation, object, time },
      ...(holds(end) && { start, end }),
    }));
  } catch {
    return [];
  }
}
