// Values over time as small bars.

import { svg } from "./dom.js";

const SIZE = { width: 240, height: 28 };

/** Bars of `values` on a scale from 0 to `most`; `label` says in words what they show. */
export function bars(values, most, label) {
  const step = SIZE.width / values.length;
  const bar = (value, index) => {
    const height = (SIZE.height * value) / most;
    const width = Math.max(1, step - 1);
    return svg("rect", { class: "fact alike", x: index * step + 0.5, y: SIZE.height - height, width, height });
  };
  return svg(
    "svg",
    {
      class: "bars",
      viewBox: `0 0 ${SIZE.width} ${SIZE.height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    svg("title", {}, label),
    svg("line", { class: "axis", x1: 0, x2: SIZE.width, y1: SIZE.height, y2: SIZE.height }),
    ...values.map(bar),
  );
}
