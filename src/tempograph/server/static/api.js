// Requests to the service. An error is a Problem, described by the service, or Unreachable.

const TIMEOUT_MS = 45_000;
const TOKEN = "tempograph-token";

export class Problem extends Error {
  constructor(status, { detail, part = null, index = null, suggestions = [] }) {
    super(detail);
    Object.assign(this, { status, part, index, suggestions });
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

/**
 * Send a scan, whose response is lines of JSON: returns `{ facts, end }`, its facts and its last line, and calls
 * `progress(done, total)` on the way.
 */
export async function scan(path, body, signal, progress) {
  const silent = new AbortController();
  const facts = [];
  let end = null;
  let timer = 0;
  const restart = () => {
    clearTimeout(timer);
    timer = setTimeout(() => silent.abort(), TIMEOUT_MS);
  };
  const onLine = (line) => {
    restart();
    if (line.event === "progress") progress(line.done, line.total);
    else if (line.event === "fact") facts.push(line.fact);
    else if (line.event === "error") throw errorOf(line.problem.status, line.problem);
    else if (line.event === "end") end = line;
  };
  restart();
  progress(0, 0);
  try {
    const options = { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    const response = await fetch(path, { ...withToken(options), signal: AbortSignal.any([signal, silent.signal]) });
    if (!response.ok) throw errorOf(response.status, parsed(await response.text()));
    await readLines(response.body, onLine);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof Problem || error instanceof Busy || error instanceof Unreachable) throw error;
    throw new Unreachable("The service does not answer.");
  } finally {
    clearTimeout(timer);
  }
  if (end === null) throw new Unreachable("The service did not finish the search.");
  return { facts, end };
}

async function readLines(stream, onLine) {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) onLine(JSON.parse(line));
  }
}

function withToken(options) {
  const token = sessionStorage.getItem(TOKEN);
  return { ...options, headers: { ...options.headers, ...(token && { authorization: `Bearer ${token}` }) } };
}

async function send(url, options, signal) {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  let response, text;
  try {
    response = await fetch(url, { ...withToken(options), signal: signal ? AbortSignal.any([signal, limit]) : limit });
    text = await response.text();
  } catch {
    signal?.throwIfAborted();
    throw new Unreachable("The service does not answer.");
  }
  const body = parsed(text);
  if (response.ok && body !== null) return body;
  throw errorOf(response.status, body);
}

/** The error of a response with this status; its body may be null. */
function errorOf(status, body) {
  const problem = body ?? { detail: `the service answered with status ${status}` };
  if (status === 502) return new Unreachable("The service does not answer.");
  if (status === 503) return new Busy(`The service is busy: ${problem.detail}.`);
  return new Problem(status, problem);
}

/** A JSON text as an object, or null: a proxy may answer with a page. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
