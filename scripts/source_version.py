"""Print COMMIT:CODE of a commit, by default HEAD: the value of $TEMPOGRAPH_COMMIT for a copy of it.

python scripts/source_version.py [COMMIT]
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

from tempograph.provenance import code_hash, run_git

ROOT = Path(__file__).parents[1]
PACKAGE = "src/tempograph"


def committed_code(commit: str, root: Path = ROOT) -> str:
    """Return the hash of the code at a commit, as results measured there hold it."""
    command = ["git", "-C", str(root), "archive", commit, PACKAGE]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        members = {
            member.name.removeprefix(f"{PACKAGE}/"): file.read()
            for member in files
            if (file := files.extractfile(member)) is not None
        }
    return code_hash(members)


def main() -> int:
    """Print the version; return the exit code."""
    name = sys.argv[1] if len(sys.argv) > 1 else "HEAD"
    commit = run_git(ROOT, "rev-parse", "--verify", f"{name}^{{commit}}")
    if commit is None:
        print(f"'{name}' is not a commit of {ROOT}", file=sys.stderr)
        return 1
    print(f"{commit}:{committed_code(commit)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
