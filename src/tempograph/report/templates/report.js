const value = cell => {
  const number = Number(cell.textContent.replaceAll(",", ""));
  return Number.isNaN(number) ? cell.textContent : number;
};
const compare = (one, other) => typeof one === typeof other
  ? (typeof one === "number" ? one - other : one.localeCompare(other, undefined, {numeric: true}))
  : (typeof one === "number" ? -1 : 1);
for (const head of document.querySelectorAll("th")) {
  const button = document.createElement("button");
  button.append(...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const sign = head.ariaSort === "descending" ? 1 : head.ariaSort === "ascending" ? -1
      : head.matches(".number:not(.low)") ? -1 : 1;
    for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const body = head.closest("table").tBodies[0], column = head.cellIndex;
    body.append(...[...body.rows].sort((a, b) => sign * compare(value(a.cells[column]), value(b.cells[column]))));
  });
}
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.printed:not([open])")];
  for (const part of opened) part.open = true;
});
addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
