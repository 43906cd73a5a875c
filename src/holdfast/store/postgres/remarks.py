"""What can be said of a server from outside, for who asks whether all is well."""

from __future__ import annotations

from holdfast import files
from holdfast.store.postgres import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.store.postgres.server import Connection

    Remark = tuple[str, str, str, str]

_TELL = """
    SELECT current_setting('server_version', true), current_setting('fsync', true),
        current_setting('full_page_writes', true), pg_is_in_recovery()::text
"""


def facts_of(connection: Connection) -> dict[str, str]:
    names = ("version", "fsync", "full_page_writes", "standby")
    found = connection.execute(_TELL).fetchone()
    return dict(zip(names, map(str, found or ()), strict=False))


def of_server(place: str, facts: dict[str, str]) -> Iterator[Remark]:
    yield (
        "info",
        f"sessions are kept in {place}, by PostgreSQL {facts.get('version', '')}",
        "its files, and their backups, are looked after there",
        "",
    )
    for name in ("fsync", "full_page_writes"):
        if facts.get(name) == "off":
            why = "what is acknowledged may be gone after a power cut"
            yield "error", f"the server runs with {name} = off", why, f"set {name} = on there"
    if facts.get("standby") == "true":
        yield "warning", "the server is a copy that can only be read", "", "use the one it copies"


def of_tables(meta: dict[str, str]) -> Iterator[Remark]:
    """Whether a later version adds something; looking applies nothing."""
    have = int(meta.get("format", 0))
    if not have:
        yield "info", "nothing is kept there yet", "the first command that records makes tables", ""
    elif have < schema.FORMAT:
        what = f"the tables have format {have}, this version brings {schema.FORMAT}"
        yield "info", what, "the next command that records adds what is new", ""
    elif int(meta.get("min_writer", 0)) > schema.FORMAT:
        what = "a newer Holdfast took the store over; this one can only read it"
        yield "error", what, "", "use the newer version"


def of_home(folder: str, problems: Sequence[str]) -> Iterator[Remark]:
    if problems:
        yield (
            "error",
            "what this machine keeps beside the server is damaged",
            "; ".join(problems[:3]),
            f"move it away, no session is in it: {files.out_of_the_way(folder)}",
        )
