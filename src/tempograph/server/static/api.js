// Questions to the service. What goes wrong is either a Problem, which the service tells, or Unreachable.

const SLOWEST_MS = 45_000;
const TOKEN = "tempograph-token";

export class Problem extends Error {
  constructor(status, { detail, part = null, suggestions = [] }) {
    super(detail);
    Object.assign(this, { status, part, suggestions });
  }
}

/** No answer, or one that says to come back later. */
export class Unreachable extends Error {}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;
export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

export function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  return answer(`${path}?${new URLSearchParams(given)}`, {}, signal);
}

export function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return answer(path, { method: "POST", body: JSON.stringify(body), headers }, signal);
}

/** As `post`; a question that the service cannot take is an answer that says so, for it is no fault of the view. */
export async function postIfPossible(path, body, signal) {
  try {
    return await post(path, body, signal);
  } catch (error) {
    if (error instanceof Problem) return { run: body.run, refused: error.message };
    throw error;
  }
}

async function answer(url, options, signal) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers, ...(token && { authorization: `Bearer ${token}` }) };
  const limit = AbortSignal.timeout(SLOWEST_MS);
  let response, told;
  try {
    response = await fetch(url, { ...options, headers, signal: signal ? AbortSignal.any([signal, limit]) : limit });
    told = await response.json();
  } catch {
    signal?.throwIfAborted();
    throw new Unreachable("The service does not answer.");
  }
  if (response.ok) return told;
  if ([502, 503, 504].includes(response.status)) throw new Unreachable(`The service is busy: ${told.detail}.`);
  throw new Problem(response.status, told);
}
