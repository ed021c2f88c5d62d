// A response about a neighborhood as nodes and edges to draw.

import { shortened } from "./format.js";

const MAX_NODE_LETTERS = 40;
const MAX_EDGE_LETTERS = 26;

/**
 * One node for each entity, and one edge for all relations from one entity to another. `guess` is a fact to draw as an
 * edge of its own, or null; `centers` are the entities that are expanded, that of the query first.
 */
export function graphElements(data, guess, centers) {
  const kinds = new Map([[centers[0], "center"], ...centers.slice(1).map((name) => [name, "expanded"])]);
  const nodes = data.nodes.map(({ name, facts }) => node(name, facts, kinds.get(name) ?? "neighbor"));
  if (!guess) return { nodes, edges: directedEdges(data.edges) };
  const missing = [guess.subject, guess.object].filter((name) => !nodes.some((other) => other.name === name));
  nodes.push(...[...new Set(missing)].map((name) => node(name, 0, "neighbor")));
  return { nodes, edges: [...directedEdges(data.edges), guessedEdge(guess)] };
}

const node = (name, facts, kind) => ({ name, facts, kind, label: shortened(name, MAX_NODE_LETTERS) });

function directedEdges(edges) {
  const groups = Map.groupBy(edges, ({ subject, object }) => JSON.stringify([subject, object]));
  return [...groups].map(([id, relations]) => {
    const [{ subject, object }] = relations;
    const facts = relations.reduce((sum, { facts: count }) => sum + count, 0);
    return { id, subject, object, kind: "known", facts, relations, label: edgeLabel(relations) };
  });
}

/** The most frequent relation, how often it occurs, and how many others there are. */
function edgeLabel([{ relation, facts }, ...others]) {
  const times = facts > 1 ? ` \u00d7${facts}` : "";
  const more = others.length ? ` +${others.length}` : "";
  return `${shortened(relation, MAX_EDGE_LETTERS)}${times}${more}`;
}

function guessedEdge({ subject, relation, object, time }) {
  const relations = [{ subject, relation, object, facts: 0, first: time, last: time }];
  const label = `${shortened(relation, MAX_EDGE_LETTERS)}?`;
  return { id: JSON.stringify([subject, object, "guess"]), subject, object, kind: "guess", facts: 0, relations, label };
}
