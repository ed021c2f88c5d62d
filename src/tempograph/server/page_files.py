"""The files of the page, under an address that changes with their content."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER: Final = Path(__file__).parent / "static"


class PageFiles(StaticFiles):
    """Files that clients may keep forever: a changed file has another address."""

    def __init__(self, folder: Path = FOLDER) -> None:
        super().__init__(directory=folder)
        digest = hashlib.sha256()
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = file.read_bytes()
            digest.update(f"{file.relative_to(folder).as_posix()}:{len(content)}:".encode())
            digest.update(content)
        self.address = f"static/{digest.hexdigest()[:16]}"
        """Where the files are, relative to the page. It is one folder for all of them, so that
        they can refer to each other."""
        page = (folder / "index.html").read_text(encoding="utf-8")
        self.page = page.replace('"static/', f'"{self.address}/')
        """The page, which must not be kept."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """A file, with permission to keep it."""
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "public, max-age=31536000, immutable"
        return response
