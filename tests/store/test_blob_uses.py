"""Which sessions use which content: if the table is wrong, the events decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forestay.health import doctor
from forestay.model import event as ev
from tests.homes import Home, digest_of

SHARED, OWN, TOUCHED = b"used by both", b"used by the first", b"named only"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Record two sessions with common content, one with other content, one that names a digest."""
    home = Home(tmp_path / "home")
    for session in ("s-1", "s-2", "s-3"):
        home.start(session)
    home.save_artifact(SHARED, "s-1")
    home.save_artifact(SHARED, "s-2")
    home.save_artifact(OWN, "s-1")
    home.save_artifact(TOUCHED, "s-1")
    home.do("s-3", ev.FileChanged(path="a", action="modified", after=digest_of(TOUCHED)))
    yield home
    home.store.close()


def kept(home: Home) -> set[bytes]:
    every = {digest_of(data): data for data in (SHARED, OWN, TOUCHED)}
    return {data for digest, data in every.items() if home.store.blob(digest) is not None}


def uses(home: Home) -> list[tuple[str, int]]:
    return sorted(home.store.database.read("SELECT digest, session FROM blob_use"))


def harm(home: Home, sql: str) -> None:
    """Change rows without the store, and check that some did change."""
    before = uses(home)
    home.write(sql)
    assert uses(home) != before


WRONG = {
    "the row of another session is gone": "DELETE FROM blob_use WHERE session = 2",
    "all rows are gone": "DELETE FROM blob_use",
    "rows belong to nobody": "UPDATE blob_use SET session = session + 50",
    "digests are garbled": "UPDATE blob_use SET digest = CAST(x'ff' || digest AS TEXT)",
    "one too many, of a session": f"INSERT INTO blob_use VALUES ('{digest_of(OWN)}', 2)",
    "one too many, of none": f"INSERT INTO blob_use VALUES ('{digest_of(OWN)}', 99)",
}


@pytest.mark.parametrize("name", WRONG)
def test_forgetting_relies_on_events_when_the_table_of_content_uses_is_wrong(
    home: Home, name: str
) -> None:
    harm(home, WRONG[name])
    home.journal.forget("s-1", actor="cli")
    assert kept(home) == {SHARED}
    assert uses(home) == [(digest_of(SHARED), 2)]
    home.journal.forget("s-2", actor="cli")
    assert kept(home) == set()


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rows_in_the_table_of_content_uses_are_reported_and_repaired(
    home: Home, name: str
) -> None:
    before = uses(home)
    assert home.store.maintenance.flaws() == []
    harm(home, WRONG[name])
    flaws = home.store.maintenance.flaws()
    assert flaws and all("content" in flaw.what and flaw.fixable for flaw in flaws)
    done = doctor.fix(home.settings, home.store, home.journal, clock=home.clock)
    assert any("stored content" in line for line in done.done) and not done.lost
    assert uses(home) == before
    assert kept(home) == {SHARED, OWN, TOUCHED}
    assert home.store.maintenance.flaws() == []


def test_blobs_of_a_damaged_session_are_not_erased(home: Home) -> None:
    home.write(
        "UPDATE event SET data = CAST(replace(data, ?, ?) AS BLOB) WHERE position >> 32 = 2",
        digest_of(SHARED)[:8],
        "x" * 8,
    )
    assert not home.is_sound("s-2")
    home.journal.forget("s-1", actor="cli")
    assert kept(home) == {SHARED}


def test_session_without_a_catalogue_line_still_has_its_content(home: Home) -> None:
    home.write("DELETE FROM session WHERE number = 2")
    home.write("DELETE FROM blob_use WHERE session = 2")
    home.journal.forget("s-1", actor="cli")
    assert kept(home) == {SHARED}


@pytest.mark.parametrize(
    "damage",
    ["UPDATE blob SET data = x'00'", "DELETE FROM blob", "UPDATE blob SET digest = upper(digest)"],
)
def test_damaged_content_is_repaired_by_storing_it_again(home: Home, damage: str) -> None:
    home.write(damage)
    assert not home.is_sound("s-1")
    for data in (SHARED, OWN, TOUCHED):
        home.save_artifact(data, "s-2")
    assert kept(home) == {SHARED, OWN, TOUCHED}
    assert home.is_sound("s-1")
