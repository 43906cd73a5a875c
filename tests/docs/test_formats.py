"""docs/formats.md agrees with the program. To update its generated parts:

python -m tests.docs.test_formats
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import forestay
from forestay.base import config
from forestay.journal import pack
from forestay.model.event import KINDS, Header
from forestay.store.sqlite.heads_file import SIZE

PAGE = Path(__file__).parents[2] / "docs" / "formats.md"


def kinds_table() -> str:
    lines = ["| kind | fields |", "|---|---|"]
    for kind, body in KINDS.items():
        fields = [f"`{name}`" for name in body.__struct_encode_fields__ if name != "redacted"]
        lines.append(f"| `{kind}` | {', '.join(fields) or '–'} |")
    return "\n".join(lines)


def pack_grammar() -> str:
    found = re.search(r"(?m)^    file .*?(?=^    !!)", pack.__doc__ or "", re.DOTALL)
    assert found
    lines = [line.removeprefix("    ") for line in found.group().rstrip().split("\n")]
    return "```\n" + "\n".join(lines) + "\n```"


def settings_table() -> str:
    lines = ["| option | default | rule | meaning |", "|---|---|---|---|"]
    for option in config.OPTIONS.values():
        default = "" if option.default in ("", ()) else f"`{option.default}`"
        lines.append(f"| `{option.name}` | {default} | {option.rule} | {option.meaning} |")
    return "\n".join(lines)


GENERATED = {"kinds": kinds_table, "pack": pack_grammar, "settings": settings_table}


def update_page(page: str) -> str:
    return replace_generated(page, GENERATED)


def replace_generated(page: str, generated: dict[str, Callable[[], str]]) -> str:
    """Return a page with its generated parts, each between two marks, replaced."""
    for name, make in generated.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        head, rest = page.split(begin)
        page = head + begin + make() + "\n" + end + rest.split(end)[1]
    return page


def test_the_formats_page_agrees_with_the_program() -> None:
    page = PAGE.read_text()
    assert page == update_page(page)


def test_every_field_of_the_envelope_is_described_in_order() -> None:
    page = PAGE.read_text()
    section = page.split("## Event")[1].split("### Kinds")[0]
    described = re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)
    assert described == list(Header.__struct_encode_fields__)


def test_every_table_and_every_file_of_a_home_is_described(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with forestay.open(str(home), cwd=str(tmp_path)) as stay:
        stay.start("a session that touches everything").note("findable")
        stay.search("findable")
        stay.backups.create()
        made = {name for _, _, names in os.walk(home) for name in names}
    page = PAGE.read_text()
    tables = sqlite3.connect(home / "forestay.db").execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'"
        " AND name NOT LIKE 'find%'"
    )
    assert not [name for (name,) in tables if f"`{name}`" not in page]
    names = r"forestay\.db(-wal|-shm)?|writer\.(lock|queue)|heads|state\.json|.*\.fspack"
    known = re.compile(names)
    assert not [name for name in made if not known.fullmatch(name)]
    assert (home / "heads").stat().st_size % SIZE == 0


if __name__ == "__main__":
    PAGE.write_text(update_page(PAGE.read_text()))
