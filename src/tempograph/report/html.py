"""A document of headings, words, tables and pictures, as one self-contained HTML page or as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from pathlib import Path
from string import Template
from typing import Final

from matplotlib.figure import Figure

from tempograph.io import make_folder, write_text
from tempograph.report import plots
from tempograph.report.text_table import TextTable


@dataclass(frozen=True, eq=False)
class Heading:
    """Of a part (2) or of a piece of it (3)."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Words:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Lines to be read or typed as they are."""

    text: str


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with a name for its file and, in words, what it shows to those who cannot see it."""

    name: str
    figure: Figure
    alt: str


@dataclass(frozen=True)
class Fold:
    """What only some readers want: closed until it is asked for, and in print unless it is `printed`."""

    title: str
    blocks: Sequence[Block]
    printed: bool = False


_LOW: Final = ("MR",)
"""Columns of which the lowest is best, and sorted to the top first."""

Block = Heading | Words | Listing | TextTable | Picture | Fold


def pictures(blocks: Sequence[Block]) -> list[Picture]:
    """All pictures among blocks, also folded ones."""
    found = []
    for block in blocks:
        if isinstance(block, Fold):
            found += pictures(block.blocks)
        elif isinstance(block, Picture):
            found.append(block)
    return found


def write_html(path: Path, title: str, blocks: Sequence[Block]) -> None:
    """Write a page that needs nothing else: style, script and pictures are inside."""
    numbers = count(1)
    names = {block: f"part-{number}" for number, block in enumerate(_parts(blocks), 1)}
    links = "".join(
        f'<li><a href="#{name}">{escape(part.text)}</a></li>' for part, name in names.items()
    )
    body = "\n".join(_html(block, names, numbers) for block in blocks)
    page = _PAGE.substitute(
        title=escape(title), links=links, body=body, style=_STYLE, script=_SCRIPT
    )
    write_text(path, page)


def _parts(blocks: Sequence[Block]) -> Iterator[Heading]:
    return (block for block in blocks if isinstance(block, Heading) and block.level == 2)


def _html(block: Block, names: dict[Heading, str], numbers: Iterator[int]) -> str:
    match block:
        case Heading(text, level):
            place = f' id="{names[block]}"' if block in names else ""
            return f"<h{level}{place}>{escape(text)}</h{level}>"
        case Words(text):
            return f"<p>{escape(text)}</p>"
        case Listing(text):
            return f'<pre tabindex="0">{escape(text)}</pre>'
        case Fold(title, blocks, printed):
            inside = "\n".join(_html(part, names, numbers) for part in blocks)
            kind = ' class="printed"' if printed else ""
            return f"<details{kind}><summary>{escape(title)}</summary>\n{inside}\n</details>"
        case Picture():
            return _html_picture(block, next(numbers))
        case TextTable():
            return _html_table(block, next(numbers))


def _html_table(sheet: TextTable, number: int) -> str:
    def line(row: Sequence[str], tag: str, scope: str = "") -> str:
        kinds = ["number low" if name in _LOW else "number" for name in sheet.columns]
        sides = [
            "" if place < sheet.left else f' class="{kinds[place]}"' for place in range(len(row))
        ]
        cells = (
            f"<{tag}{scope}{side}>{escape(cell)}</{tag}>"
            for side, cell in zip(sides, row, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    head, rows = (
        line(sheet.columns, "th", ' scope="col"'),
        "\n".join(line(row, "td") for row in sheet.rows),
    )
    name = f"table-{number}"
    return (
        f'<p class="caption" id="{name}"><b>{escape(sheet.title)}.</b> {escape(sheet.caption)}</p>\n'
        f'<div class="wide" role="region" tabindex="0" aria-labelledby="{name}"><table aria-labelledby="{name}">'
        f"<thead>{head}</thead>\n<tbody>{rows}</tbody></table></div>"
    )


def _html_picture(picture: Picture, number: int) -> str:
    name, width = f"picture-{number}", round(72 * picture.figure.get_figwidth())
    attributes = f'role="img" aria-labelledby="{name}" style="max-width:{width}pt"'
    drawn = plots.svg(picture.figure, name).replace("<svg", f"<svg {attributes}", 1)
    return (
        f'<figure><div class="wide" role="region" tabindex="0" aria-labelledby="{name}">{drawn}</div>'
        f'<figcaption id="{name}">{escape(picture.alt)}</figcaption></figure>'
    )


def write_markdown(path: Path, title: str, blocks: Sequence[Block]) -> None:
    """Write a page of Markdown, and its pictures as SVG into a folder beside it."""
    folder = path.with_name(f"{path.stem}-pictures")

    def picture(drawn: Picture) -> str:
        make_folder(folder)
        file = folder / f"{drawn.name}.svg"
        plots.save(drawn.figure, file)
        return f"![{_marked(drawn.alt)}](<{folder.name}/{file.name}>)\n\n*{_marked(drawn.alt)}*"

    body = "\n\n".join([f"# {_marked(title)}", *(_markdown(block, picture) for block in blocks)])
    write_text(path, body + "\n")


def _markdown(block: Block, picture: Callable[[Picture], str]) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_marked(text)}"
        case Words(text):
            return _marked(text)
        case Listing(text):
            return "\n".join(f"    {line}" for line in text.splitlines())
        case Fold(title, blocks):
            return "\n\n".join(
                [f"**{_marked(title)}**", *(_markdown(part, picture) for part in blocks)]
            )
        case Picture():
            return picture(block)
        case TextTable(title, columns, rows, left, caption):
            # Bars are left to the table itself.
            marked = TextTable(
                title,
                [_marked(name) for name in columns],
                [[_marked(c) for c in row] for row in rows],
                left,
            )
            return f"**{_marked(title)}.** {_marked(caption)}".strip() + f"\n\n{marked.markdown()}"


def _marked(text: str) -> str:
    """Text in which no sign means anything to Markdown or HTML."""
    return re.sub(r"([\\`*_\[\]<>&#~$])", r"\\\1", " ".join(text.split()))


_PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<link rel="icon" href="data:,">
<title>$title</title>
<style>$style</style>
</head>
<body>
<header><h1>$title</h1></header>
<nav aria-label="Contents"><ul>$links</ul></nav>
<main>
$body
</main>
<script>$script</script>
</body>
</html>
""")

_STYLE: Final = """
:root { --text: #1a1a1a; --paper: #fff; --quiet: #595959; --line: #d5d5d5; --grid: #ddd; --soft: #f4f5f7;
  --link: #005a8f; --blue: #0072b2; --shade: #0004 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8e8e8; --paper: #15171a; --quiet: #a8a8a8; --line: #3a3d42; --grid: #3a3d42; --soft: #1f2226;
    --link: #6cb8e8; --blue: #2e8fd0; --shade: #fff3 }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 62rem; padding: 1rem 1.25rem 4rem; color: var(--text); background: var(--paper);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 1rem 0 }
h2 { font-size: 1.35rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line) }
h3 { font-size: 1.1rem; margin: 1.75rem 0 .5rem }
p { max-width: 44rem; margin: .6rem 0 }
a { color: var(--link) }
nav ul { display: flex; flex-wrap: wrap; gap: .25rem 1.25rem; list-style: none; margin: 0; padding: 0 }
.wide { overflow-x: auto; margin: .5rem 0 1rem; background:
  linear-gradient(90deg, var(--paper) 30%, transparent) 0 0 / 2rem 100% no-repeat local,
  linear-gradient(270deg, var(--paper) 30%, transparent) 100% 0 / 2rem 100% no-repeat local,
  linear-gradient(90deg, var(--shade), transparent) 0 0 / .75rem 100% no-repeat scroll,
  linear-gradient(270deg, var(--shade), transparent) 100% 0 / .75rem 100% no-repeat scroll }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
.caption { margin-top: 1rem; color: var(--quiet); font-size: .9rem }
.caption b { color: var(--text) }
th, td { padding: .3rem .75rem; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap }
th { background: var(--soft); vertical-align: bottom }
.number { text-align: right }
th button { all: unset; cursor: pointer; font-weight: inherit }
th button::after { content: " \\2195"; color: var(--quiet) }
th[aria-sort=ascending] button::after { content: " \\2191"; color: inherit }
th[aria-sort=descending] button::after { content: " \\2193"; color: inherit }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }
figure { margin: 1.25rem 0 }
figure svg { display: block; width: 100%; height: auto; min-width: 34rem; fill: var(--text) }
figcaption { color: var(--quiet); font-size: .9rem; max-width: 44rem }
pre { overflow-x: auto; padding: .75rem 1rem; background: var(--soft); border-radius: .4rem; font-size: .85rem }
details { margin: 1rem 0 }
summary { cursor: pointer; font-weight: 600 }
@media (max-width: 40rem) {
  body { padding: .5rem 1rem 3rem }
  th, td { padding: .3rem .45rem }
}
@media print {
  :root { --text: #000; --paper: #fff; --quiet: #444; --line: #ccc; --grid: #ddd; --soft: #fff;
    --blue: #0072b2; --shade: #0000 }
  nav { display: none }
  body { max-width: none; padding: 0; font-size: 10pt }
  .wide, pre { overflow: visible }
  figure svg { min-width: 0 }
  figure, tr { break-inside: avoid }
  h2, h3, .caption, summary { break-after: avoid }
  thead { display: table-header-group }
  th, td { white-space: normal; overflow-wrap: anywhere; padding: .2rem .4rem }
  td.number, th.number { overflow-wrap: normal }
  pre { white-space: pre-wrap }
  th button::after { content: "" }
}
"""

_SCRIPT: Final = """
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
    const body = head.closest("table").tBodies[0], place = head.cellIndex;
    body.append(...[...body.rows].sort((a, b) => sign * compare(value(a.cells[place]), value(b.cells[place]))));
  });
}
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details.printed:not([open])")];
  for (const part of opened) part.open = true;
});
addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
"""
