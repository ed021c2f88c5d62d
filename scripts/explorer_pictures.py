"""Pictures of the web explorer over runs of the demo world: wide and narrow, light and dark.

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
from urllib.parse import urlencode

from PIL import Image
from playwright.sync_api import sync_playwright

SIZES = {1440: 900, 390: 844}
FACT = {
    "subject": "Solalba",
    "relation": "hosts a visit from",
    "time": "2030-02-20",
    "answer": "Reform Movement (Fenovar)",
}


def views(runs: list[str]) -> dict[str, dict[str, str]]:
    """What is looked at, by the name of its pictures."""
    wrong = FACT | {"subject": "Solalva"}
    alone = {"first-visit": {}, "answers": FACT, "wrong": wrong}
    return alone | (
        {"comparison": FACT | {"run": runs[0], "other": runs[1]}} if len(runs) > 1 else {}
    )


@contextmanager
def served(runs: list[str]) -> Iterator[tuple[str, list[str]]]:
    """A service of its own: its address, and the names of its runs."""
    command = [sys.executable, "-m", "tempograph", "serve", *runs, "--device", "cpu", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            if not line.startswith("{"):
                sys.exit(line + process.stderr.read())
            ready = json.loads(line)
            # A log that nobody reads would stop the service once the pipe is full.
            Thread(target=process.stderr.read, daemon=True).start()
            yield ready["url"], ready["runs"]
        finally:
            process.kill()


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", help="run folders, as for `tempograph serve`")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the pictures")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with served(given.runs) as (url, names), sync_playwright() as driver:
        program = shutil.which("chromium") or driver.chromium.executable_path
        browser = driver.chromium.launch(executable_path=program)
        for width, height in SIZES.items():
            for scheme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme
                )
                tab = context.new_page()
                for name, view in views(names).items():
                    tab.goto(f"{url}/?{urlencode(view)}", wait_until="networkidle")
                    picture = given.out / f"{name}-{width}-{scheme}.png"
                    tab.screenshot(path=picture, full_page=True)
                    # As many colours as the page has, and a third of the bytes.
                    Image.open(picture).convert("RGB").quantize(256).save(picture, optimize=True)
                    print(picture)
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
