"""Time and memory of searching names, by whole names, their beginnings, parts and typos.

Names are made of syllables; first names follow Zipf's law. Times are processor time.

PYTHONPATH=src python benchmarks/name_search.py --names 1000000
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tempograph.cli.console import out, table
from tempograph.data.name_index import NameIndex
from tempograph.io import write_json

SYLLABLES = [f"{a}{b}{c}" for a in "bcdfghjklmnprstvwz" for b in "aeiou" for c in ("", "n", "ck")]
KNOWN = ("Barack Obama", "Michelle Obama", "Police (Mexico)")
TEXTS = (
    *("Barack Obama", "barack ob", "obama", "ba", "b", "a b"),
    *("bam", "(mex", "barak obama", "michele obbama", "obma barck", "xyzzy qwerty"),
)


def main() -> None:
    """Make names, build the index, search and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--names", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    names = make_names(arguments.names)
    counts = np.random.default_rng(1).integers(0, 1000, len(names))
    before = resident_bytes()
    index = NameIndex(names, counts)
    seconds = seconds_of(index.prepare)
    added = resident_bytes() - before
    found = {text: measure(index, text) for text in TEXTS}
    caption = f"index: {seconds:.1f} s, {added / 1e6:,.0f} MB"
    rows = [[text, *(f"{value:.1f}" for value in each.values())] for text, each in found.items()]
    columns = ["text", "search, ms", "closest, ms"]
    out.print(table(f"Search of {len(names):,} names", columns, rows, caption=caption))
    if arguments.json is not None:
        values = {"names": len(names), "build_seconds": seconds, "build_bytes": added}
        write_json(arguments.json, values | {"texts": found})


def make_names(count: int) -> tuple[str, ...]:
    """Distinct names of two words, and some with a place in brackets."""
    generator = np.random.default_rng(0)
    first, last = make_words(generator, 60_000, 2), make_words(generator, 400_000, 3)
    often = first[np.minimum(generator.zipf(1.2, count) - 1, len(first) - 1)]
    names = np.char.add(np.char.add(often, " "), last[generator.integers(len(last), size=count)])
    place = np.char.add(" (", np.char.add(first[generator.integers(50, size=count)], ")"))
    names = np.where(generator.random(count) < 0.3, np.char.add(names, place), names)
    made = dict.fromkeys([*KNOWN, *names.tolist()])
    made |= dict.fromkeys(f"Entity {number}" for number in range(count - len(made)))
    return tuple(made)[:count]


def make_words(generator: np.random.Generator, count: int, syllables: int) -> np.ndarray:
    """Words of some syllables with a capital letter."""
    words = np.array([""] * count)
    for _ in range(syllables):
        words = np.char.add(words, generator.choice(SYLLABLES, count))
    return np.char.capitalize(words)


def seconds_of(call: Callable[[], object]) -> float:
    """The processor time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def measure(index: NameIndex, text: str, repeats: int = 5) -> dict[str, float]:
    """The milliseconds of a search and of finding the closest names."""
    calls = {"search_ms": lambda: index.search(text, 10), "closest_ms": lambda: index.closest(text)}
    return {
        name: 1000 * min(seconds_of(call) for _ in range(repeats)) for name, call in calls.items()
    }


def resident_bytes() -> int:
    """The memory of this process, as Linux tells it."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
