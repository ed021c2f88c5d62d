"""The table of messages."""

from __future__ import annotations

from pathlib import Path

from messages import MESSAGES

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "src" / "tempograph"


def test_every_message_is_used_by_a_test() -> None:
    texts = [path.read_text() for path in TESTS.rglob("*.py") if path.name != "messages.py"]
    assert [name for name in MESSAGES if not any(f'"{name}"' in text for text in texts)] == []


def test_every_message_is_named_after_its_module() -> None:
    modules = {path.stem for path in PACKAGE.rglob("*.py")}
    assert [name for name in MESSAGES if name.split(".")[0] not in modules] == []
