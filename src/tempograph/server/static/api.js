// Requests to the service. An error is a Problem, described by the service, or Unreachable.

const TIMEOUT_MS = 45_000;
const TOKEN = "tempograph-token";

export class Problem extends Error {
  constructor(status, { detail, part = null, suggestions = [] }) {
    super(detail);
    Object.assign(this, { status, part, suggestions });
  }
}

/** No response. */
export class Unreachable extends Error {}

/** A response that says to come back later. */
export class Busy extends Error {}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;
export const storeToken = (token) => sessionStorage.setItem(TOKEN, token);

export function get(path, parameters = {}, signal = undefined) {
  const pairs = Object.entries(parameters).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  const given = pairs.filter(([, value]) => value !== "" && value != null);
  return send(`${path}?${new URLSearchParams(given)}`, {}, signal);
}

export function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return send(path, { method: "POST", body: JSON.stringify(body), headers }, signal);
}

async function send(url, options, signal) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers, ...(token && { authorization: `Bearer ${token}` }) };
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  let response, text;
  try {
    response = await fetch(url, { ...options, headers, signal: signal ? AbortSignal.any([signal, limit]) : limit });
    text = await response.text();
  } catch {
    signal?.throwIfAborted();
    throw new Unreachable("The service does not answer.");
  }
  const { ok, status } = response;
  const body = parsed(text) ?? { detail: `the service answered with status ${status}` };
  if (ok && parsed(text) !== null) return body;
  if (status === 502) throw new Unreachable("The service does not answer.");
  if (status === 503) throw new Busy(`The service is busy: ${body.detail}.`);
  throw new Problem(status, body);
}

/** A JSON text as an object, or null: a proxy may answer with a page. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
