// Requests to the service. An error is a Problem, described by the service, or Unreachable.

const TIMEOUT_MS = 45_000;
const TOKEN = "tempograph-token";

export class Problem extends Error {
  constructor(status, { detail, part = null, suggestions = [] }) {
    super(detail);
    Object.assign(this, { status, part, suggestions });
  }
}

/** No response, or one that says to come back later. */
export class Unreachable extends Error {}

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;
export const storeToken = (token) => sessionStorage.setItem(TOKEN, token);

export function get(path, parameters = {}, signal = undefined) {
  const given = Object.entries(parameters).filter(([, value]) => value !== "" && value != null);
  return send(`${path}?${new URLSearchParams(given)}`, {}, signal);
}

export function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return send(path, { method: "POST", body: JSON.stringify(body), headers }, signal);
}

/** As `post`, but a problem is returned as `refused`: another run may be able to answer. */
export async function postOrRefusal(path, body, signal) {
  try {
    return await post(path, body, signal);
  } catch (error) {
    if (error instanceof Problem) return { run: body.run, refused: error.message };
    throw error;
  }
}

async function send(url, options, signal) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers, ...(token && { authorization: `Bearer ${token}` }) };
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  let response, body;
  try {
    response = await fetch(url, { ...options, headers, signal: signal ? AbortSignal.any([signal, limit]) : limit });
    body = await response.json();
  } catch {
    signal?.throwIfAborted();
    throw new Unreachable("The service does not answer.");
  }
  if (response.ok) return body;
  if ([502, 503, 504].includes(response.status)) throw new Unreachable(`The service is busy: ${body.detail}.`);
  throw new Problem(response.status, body);
}
