// Create elements. Names from the data are always inserted as text, never as markup.

export const $ = (id) => document.getElementById(id);

export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

/** Replace the content of an element and keep the focus on the same id. */
export function refill(root, ...children) {
  const id = root.contains(document.activeElement) ? document.activeElement.id : "";
  root.replaceChildren(...children.filter((child) => child != null));
  if (id) $(id)?.focus();
}

/** Replace the content of an element; if the focus was in it, `place` has it then. */
export function replace(root, children, place = root) {
  const inside = root.contains(document.activeElement);
  root.replaceChildren(...children.filter((child) => child != null));
  if (inside) place.focus();
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}
