// Questions that this browser remembers: a history, and those that were saved. They never leave the browser.

const KEYS = { history: "tempograph-history", saved: "tempograph-saved" };
const KEEP = "tempograph-keep-history";
const MAX = { history: 100, saved: 500 };

/** The questions of a kind, "history" or "saved", latest first: `{ address, title, date }`. */
export function questions(kind) {
  try {
    const stored = JSON.parse(localStorage.getItem(KEYS[kind]) ?? "[]");
    return stored.filter(({ address, title }) => address?.startsWith("?") && typeof title === "string");
  } catch {
    return [];
  }
}

/** Put a question first; the same title is kept once, with its last address. */
export function remember(kind, address, title) {
  if (kind === "history" && !keepsHistory()) return;
  const others = questions(kind).filter((other) => other.title !== title && other.address !== address);
  store(kind, [{ address, title, date: new Date().toISOString() }, ...others].slice(0, MAX[kind]));
}

export const forget = (kind, address) =>
  store(kind, questions(kind).filter((question) => question.address !== address));

export const forgetAll = (kind) => localStorage.removeItem(KEYS[kind]);

export const isSaved = (address) => questions("saved").some((question) => question.address === address);

export const keepsHistory = () => localStorage.getItem(KEEP) !== "no";

/** Whether to keep a history from now on; without one, the present one is deleted. */
export function setKeepsHistory(keep) {
  if (keep) localStorage.removeItem(KEEP);
  else {
    localStorage.setItem(KEEP, "no");
    forgetAll("history");
  }
}

function store(kind, list) {
  try {
    localStorage.setItem(KEYS[kind], JSON.stringify(list));
  } catch {
    // The storage is full or forbidden; the page works without it.
  }
}
