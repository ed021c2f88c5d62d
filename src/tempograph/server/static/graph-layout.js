// Positions for the nodes of a graph: neighbors stand around their entity, and expanded ones move outwards.

const OUTWARDS = 1.7;
const SMALLER = 0.65;
const ARC = 1.6 * Math.PI;

/**
 * Positions by name. The first node is in the middle, and its neighbors on an ellipse of `radius` around it. An
 * expanded neighbor stands farther out, with its own neighbors on an arc that leaves the way back free.
 */
export function positions(nodes, edges, radius) {
  const centers = nodes.filter(({ kind }) => kind !== "neighbor").map(({ name }) => name);
  const neighbors = adjacency(edges);
  const places = new Map([[nodes[0].name, { x: 0, y: 0 }]]);
  const waiting = new Set(nodes.slice(1).map(({ name }) => name));
  for (const center of [...centers, null]) {
    // What no entity leads to stands around the first.
    const owner = center ?? nodes[0].name;
    if (!places.has(owner)) places.set(owner, { x: OUTWARDS * radius.x, y: 0, angle: 0 });
    waiting.delete(owner);
    const own = [...waiting].filter((name) => center === null || neighbors.get(center)?.has(name));
    const { x, y, angle: away = null } = places.get(owner);
    const scale = away === null ? 1 : SMALLER;
    own.forEach((name, index) => {
      const angle = away === null ? fullCircle(index, own.length) : arc(index, own.length, away);
      const far = scale * (centers.includes(name) ? OUTWARDS : 1);
      places.set(name, { x: x + far * radius.x * Math.cos(angle), y: y + far * radius.y * Math.sin(angle), angle });
      waiting.delete(name);
    });
  }
  return places;
}

/** A quarter step aside: two nodes above each other would have their names crossed by edges. */
const fullCircle = (index, count) => (2 * Math.PI * (index + 0.25)) / count;

const arc = (index, count, middle) => middle + (count > 1 ? ARC * (index / (count - 1) - 0.5) : 0);

function adjacency(edges) {
  const neighbors = new Map();
  const join = (one, other) => neighbors.set(one, (neighbors.get(one) ?? new Set()).add(other));
  for (const { subject, object } of edges) {
    join(subject, object);
    join(object, subject);
  }
  return neighbors;
}
