// A graph on a canvas that can be moved and zoomed with pointer, touch and keyboard; drawn by Cytoscape.

import { el, svg } from "./dom.js";
import { positions } from "./graph-layout.js";

const STEP = 60;
const ZOOM = { min: 0.2, max: 3, factor: 1.25 };
const PADDING = 24;
const RADIUS = 180;
const ASPECT = { min: 0.8, max: 2 };
const COLORS = ["card", "ink", "muted", "edge", "accent", "pale", "for", "for-ink"];

export class GraphDrawing {
  #cy;
  #canvas;
  #shown = "";
  #fitted = "";
  #place = "";
  #actions = null;

  constructor(cytoscape) {
    this.#canvas = el("div", {
      class: "graph-canvas",
      tabindex: "0",
      role: "application",
      "aria-label": "Graph. Arrow keys move, plus and minus zoom, 0 shows all. The list below has the same content.",
      onkeydown: (event) => this.#key(event),
      onfocus: () => this.#setActive(true),
      onblur: () => this.#setActive(false),
    });
    const button = (label, text, action) =>
      el("button", { type: "button", "aria-label": label, title: label, onclick: action }, text);
    const buttons = el(
      "div",
      { class: "graph-zoom" },
      button("Zoom in", "+", () => this.#zoom(ZOOM.factor)),
      button("Zoom out", "\u2212", () => this.#zoom(1 / ZOOM.factor)),
      button("Show all", corners(), () => this.#fitAll()),
    );
    this.element = el("div", { class: "graph-frame" }, this.#canvas, buttons);
    this.#cy = cytoscape({
      container: this.#canvas,
      minZoom: ZOOM.min,
      maxZoom: ZOOM.max,
      boxSelectionEnabled: false,
      autounselectify: true,
      layout: { name: "preset" },
      style: stylesheet(),
    });
    this.#setActive(false);
    this.#bind();
  }

  /** Draw elements; `read(id)` is called on hover, `toggle(name)` when a node is chosen. */
  show({ nodes, edges }, actions) {
    this.#actions = actions;
    const shown = JSON.stringify([nodes, edges]);
    if (shown !== this.#shown) this.#replace(nodes, edges);
    this.#shown = shown;
    this.#fit();
  }

  #replace(nodes, edges) {
    this.#cy.resize();
    const aspect = this.#cy.width() / this.#cy.height();
    const radius = { x: RADIUS * Math.min(ASPECT.max, Math.max(ASPECT.min, aspect)), y: RADIUS };
    const position = positions(nodes, edges, radius);
    this.#cy.elements().remove();
    this.#cy.add([
      ...nodes.map((data) => ({ group: "nodes", data: { ...data, id: data.name }, position: position.get(data.name) })),
      ...edges.map(({ subject, object, ...data }) => ({
        group: "edges",
        data: { ...data, source: subject, target: object },
      })),
    ]);
    const centers = this.#cy.nodes("[kind != 'neighbor']");
    this.#cy.edges().not(centers.connectedEdges()).addClass("between");
  }

  /** Fit the graph into its frame if the size of the frame or the elements have changed. */
  #fit() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    const key = `${width} ${height} ${this.#shown}`;
    if (!width || key === this.#fitted) return;
    this.#fitted = key;
    this.#cy.resize();
    this.#fitAll();
  }

  /** Emphasize a node and its edges; with null, nothing. */
  highlight(name) {
    this.#cy.elements().removeClass("highlighted");
    if (name === null) return;
    const node = this.#cy.getElementById(name);
    node.union(node.connectedEdges()).addClass("highlighted");
  }

  #fitAll() {
    this.#cy.fit(undefined, PADDING);
    if (this.#cy.zoom() > 1.2) {
      this.#cy.zoom(1.2);
      this.#cy.center();
    }
  }

  #zoom(factor) {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    this.#cy.zoom({ level: this.#cy.zoom() * factor, renderedPosition: { x: width / 2, y: height / 2 } });
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
    if (event.key in moves) this.#cy.panBy({ x: moves[event.key][0], y: moves[event.key][1] });
    else if (event.key === "+" || event.key === "=") this.#zoom(ZOOM.factor);
    else if (event.key === "-") this.#zoom(1 / ZOOM.factor);
    else if (event.key === "0") this.#fitAll();
    else return;
    event.preventDefault();
  }

  /** Until it has the focus, the wheel and a finger scroll the page and not the graph. */
  #setActive(active) {
    this.#cy.userZoomingEnabled(active);
    this.#cy.userPanningEnabled(active);
    this.#cy.autoungrabify(!active);
  }

  /** Tell Cytoscape where its frame is: it does not notice that what stands above has grown. */
  #locate() {
    const { left, top } = this.#canvas.getBoundingClientRect();
    const place = `${left} ${top}`;
    if (place !== this.#place) this.#cy.resize();
    this.#place = place;
  }

  #bind() {
    for (const type of ["pointermove", "pointerdown"]) {
      this.#canvas.addEventListener(type, () => this.#locate(), { capture: true });
    }
    this.#cy.on("tap", () => this.#canvas.focus({ preventScroll: true }));
    this.#cy.on("tap", "node", (event) => this.#actions.toggle(event.target.id()));
    this.#cy.on("tap", "edge", (event) => this.#actions.read(event.target.id()));
    this.#cy.on("mouseover", "node, edge", (event) => {
      this.#actions.read(event.target.id());
      this.#canvas.style.cursor = "pointer";
      if (event.target.isNode()) this.highlight(event.target.id());
      else event.target.addClass("highlighted");
    });
    this.#cy.on("mouseout", "node, edge", () => {
      this.#canvas.style.cursor = "";
      this.highlight(null);
    });
    const restyle = () => this.#cy.style(stylesheet());
    new MutationObserver(restyle).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", restyle);
    }
  }
}

const corners = () =>
  svg(
    "svg",
    { width: 16, height: 16, viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("path", {
      d: "M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4",
      fill: "none",
      stroke: "currentcolor",
      "stroke-width": 2,
    }),
  );

/** The custom properties of the page as colors that a canvas understands. */
function palette() {
  const probe = el("span", { hidden: true });
  document.body.append(probe);
  const color = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colors = Object.fromEntries(COLORS.map((name) => [name, color(name)]));
  probe.remove();
  return colors;
}

function stylesheet() {
  const color = palette();
  const font = getComputedStyle(document.body).fontFamily;
  const text = { "font-family": font, "text-outline-color": color.card, "text-outline-width": 2 };
  const line = (name) => ({ "line-color": color[name], "target-arrow-color": color[name] });
  return [
    {
      selector: "node",
      style: {
        ...text,
        label: "data(label)",
        width: 18,
        height: 18,
        "background-color": color.card,
        "border-color": color.accent,
        "border-width": 2,
        color: color.ink,
        "font-size": 13,
        "text-valign": "bottom",
        "text-margin-y": 4,
        "text-wrap": "wrap",
        "text-max-width": 130,
      },
    },
    {
      selector: "node[kind = 'center']",
      style: { width: 26, height: 26, "background-color": color.accent, "font-weight": "bold" },
    },
    { selector: "node[kind = 'expanded']", style: { "background-color": color.pale } },
    {
      selector: "edge",
      style: {
        ...text,
        ...line("edge"),
        label: "data(label)",
        width: "mapData(facts, 1, 20, 1.2, 5)",
        "curve-style": "bezier",
        "control-point-step-size": 36,
        "target-arrow-shape": "triangle",
        "arrow-scale": 1.1,
        color: color.muted,
        "font-size": 11,
        "text-rotation": "autorotate",
        "min-zoomed-font-size": 6,
      },
    },
    { selector: "edge.between", style: { label: "", opacity: 0.4 } },
    {
      selector: "edge[kind = 'guess']",
      style: { ...line("for"), width: 2.5, "line-style": "dashed", color: color["for-ink"] },
    },
    { selector: "node.highlighted", style: { "border-width": 4 } },
    {
      selector: "edge.highlighted",
      style: { ...line("accent"), label: "data(label)", color: color.accent, opacity: 1 },
    },
  ];
}
