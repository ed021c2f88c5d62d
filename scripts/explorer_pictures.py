"""Take screenshots of the web explorer on demo runs, at three widths: light, dark, forced colors.

python scripts/explorer_pictures.py temp-gru=runs/demo/temp-gru ted=runs/demo/ted --out pictures
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Literal
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

SIZES = {1440: 900, 768: 1024, 390: 844}
SCHEMES: dict[str, tuple[Literal["light", "dark"], Literal["none", "active"]]] = {
    "light": ("light", "none"),
    "dark": ("dark", "none"),
    "forced": ("dark", "active"),
}
FACT = {
    "subject": "Solalba",
    "relation": "hosts a visit from",
    "time": "2030-02-20",
    "answer": "Reform Movement (Fenovar)",
}


def views(runs: list[str]) -> dict[str, dict[str, str]]:
    """Return the URL parameters of each view, by the name of its screenshots."""
    misspelled = FACT | {"subject": "Solalva"}
    query = {part: FACT[part] for part in ("subject", "relation", "time")}
    when = {"asked": "time", "object": FACT["answer"], "answer": FACT["time"]}
    added = [[FACT["subject"], FACT["relation"], "Talenne", FACT["time"]]]
    single = {
        "first-visit": {},
        "answers": FACT,
        "wrong": misspelled,
        "time": query | when,
        "period": query | {"page": "period"},
        "entity": {"page": "entity", "entity": FACT["subject"], "time": FACT["time"]},
        "what-if": query | {"page": "what-if", "added": json.dumps(added)},
        "missing": {"page": "missing", "entity": FACT["subject"], "search": "yes"},
        "surprising": {"page": "surprising", "splits": "test", "search": "yes"},
        "calibration": {"page": "calibration"},
        "history": {"page": "history"},
    }
    if len(runs) < 2:
        return single
    both = {"run": runs[0], "other": runs[1]}
    return single | {"comparison": FACT | both, "compare": {"page": "compare"} | both}


@contextmanager
def serve(runs: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Start a service; yield its address and the names of its runs."""
    command = [sys.executable, "-m", "tempograph", "serve", *runs, "--device", "cpu", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            if not line.startswith("{"):
                sys.exit(line + process.stderr.read())
            ready = json.loads(line)
            # Read the log, or the service would block once the pipe is full.
            Thread(target=process.stderr.read, daemon=True).start()
            yield ready["url"], ready["runs"]
        finally:
            process.kill()


def main() -> None:
    """Take all screenshots."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", help="run folders, as for `tempograph serve`")
    parser.add_argument("--out", type=Path, required=True, help="output folder")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with serve(options.runs) as (url, names), sync_playwright() as driver:
        program = shutil.which("chromium") or driver.chromium.executable_path
        browser = driver.chromium.launch(executable_path=program)
        for width, height in SIZES.items():
            for scheme, (colors, forced) in SCHEMES.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height},
                    color_scheme=colors,
                    forced_colors=forced,
                )
                tab = context.new_page()
                for name, view in views(names).items():
                    tab.goto(f"{url}/?{urlencode(view)}", wait_until="networkidle")
                    picture = options.out / f"{name}-{width}-{scheme}.png"
                    tab.screenshot(path=picture, full_page=True)
                    # 256 colors are enough for the page, at a third of the size.
                    Image.open(picture).convert("RGB").quantize(256).save(picture, optimize=True)
                    print(picture)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
