"""Doctor against real damage: it reports it, restores what it can, and reports what is lost."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from forestay.base import files
from forestay.base.clock import Clock
from forestay.base.findings import Finding
from forestay.base.process import identity
from forestay.errors import Busy, ForestayError, StoreFailed
from forestay.health import doctor
from forestay.health.doctor import DoctorReport
from forestay.journal import backup, restore
from forestay.journal.projections import search_text
from forestay.model import event as ev
from forestay.model.blob_refs import blob_names
from forestay.store.machine.holders import Holder
from forestay.store.machine.projects import TreeRecord
from forestay.store.sqlite.repair import is_good
from forestay.store.sqlite.schema import migrate
from tests.homes import Home, hashes

pytestmark = pytest.mark.usefixtures("quick_probe")

DAY = 24 * 3600 * 1000
PAGE = 4096


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "home")
    yield home
    home.store.close()


def examine_home(home: Home, *, deep: bool = False) -> list[Finding]:
    return doctor.examine(home.settings, home.store, home.journal, clock=home.clock, deep=deep)


def fix_home(home: Home, *, deep: bool = False) -> DoctorReport:
    return doctor.fix(home.settings, home.store, home.journal, clock=home.clock, deep=deep)


def problems(found: list[Finding]) -> list[str]:
    return [advice.code for advice in found if advice.severity != "info"]


def fill_home(home: Home, *, notes: int = 30) -> Home:
    """Record three sessions over several pages, with artifacts, and close: all is in one file."""
    for session in ("s-1", "s-2", "s-3"):
        home.start(session)
        for n in range(notes):
            home.note(f"note {n} of {session}: " + "words " * (1200 // notes), session)
        home.save_artifact(f"content of {session}".encode() * 10, session)
    home.store.close()
    return home


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def everything(home: Home) -> dict[str, set[str]]:
    return {session: hashes(home.events(session)) for session in backup.last_seqs(home.store)}


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def place_of(home: Home, text: str) -> int:
    """Return where in the file an event stores a text; there is no search index."""
    at = home.database.read_bytes().find(text.encode())
    assert at > 0
    return at


# --- a good home ------------------------------------------------------------------------------


def test_sound_home_has_no_findings_and_is_not_changed(home: Home) -> None:
    fill_home(home)
    home.save()
    home.store.close()
    before = snapshot(home.path)
    assert problems(examine_home(home, deep=True)) == []
    assert fix_home(home, deep=True).done == []
    home.store.close()
    after = snapshot(home.path)
    for volatile in ("forestay.db-shm", "forestay.db-wal"):
        after.pop(str(home.path / volatile), None)
        before.pop(str(home.path / volatile), None)
    assert after == before


def test_missing_home_is_no_problem(home: Home) -> None:
    assert [advice.code for advice in examine_home(home)] == ["home-new"]
    assert fix_home(home).done == [] and not home.path.exists()


def test_an_empty_home_is_no_problem(home: Home) -> None:
    files.make_private_dir(str(home.path))
    assert problems(examine_home(home)) == []
    assert fix_home(home).done == []


def test_every_finding_states_what_is_wrong_and_what_helps(home: Home) -> None:
    fill_home(home)
    home.database.write_bytes(b"")
    (home.path / "config.toml").write_text("backup_keep = 'many'\n")
    home.path.chmod(0o755)
    for advice in examine_home(home):
        assert advice.what and advice.severity in ("error", "warning", "info")
        assert advice.fix or advice.severity == "info", advice


# --- the database -----------------------------------------------------------------------------


def cut(to: Callable[[int], int]) -> Callable[[Home], None]:
    def harm(home: Home) -> None:
        os.truncate(home.database, to(home.database.stat().st_size))

    return harm


def no_header(home: Home) -> None:
    overwrite(home.database, 0, b"\0" * 100)


def broken_page(home: Home) -> None:
    page = place_of(home, "note 15 of s-2") // PAGE * PAGE
    overwrite(home.database, page, b"\xff" * 12)


def broken_schema(home: Home) -> None:
    overwrite(home.database, 100, b"\xff" * 60)


def deleted(home: Home) -> None:
    home.database.unlink()


def garbage(home: Home) -> None:
    home.database.write_bytes(os.urandom(50_000))


def another_program(home: Home) -> None:
    home.database.unlink()
    with sqlite3.connect(home.database) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()


HARM: dict[str, tuple[Callable[[Home], None], str]] = {
    "half of it is gone": (cut(lambda size: size // 2 // PAGE * PAGE), "database-damaged"),
    "cut in the middle of a page": (cut(lambda size: size - PAGE - 100), "database-damaged"),
    "only its first bytes are left": (cut(lambda size: 50), "database-damaged"),
    "nothing is left": (cut(lambda size: 0), "database-empty"),
    "garbage": (garbage, "database-damaged"),
    "its header is gone": (no_header, "database-damaged"),
    "a page of events is broken": (broken_page, "database-damaged"),
    "its schema is broken": (broken_schema, "database-damaged"),
    "deleted": (deleted, "database-missing"),
    "of another program": (another_program, "database-foreign"),
}


@pytest.mark.parametrize("name", HARM)
def test_unreadable_database_is_rebuilt_from_backups(home: Home, name: str) -> None:
    harm, code = HARM[name]
    fill_home(home)
    home.save()
    whole = everything(home)
    home.store.close()
    harm(home)
    bytes_then = home.database.read_bytes() if home.database.exists() else None
    assert code in problems(examine_home(home))
    result = fix_home(home)
    assert everything(home) == whole
    assert all(home.is_sound(session) for session in whole)
    assert problems(result.left) == []
    assert [line for line in result.lost if "current session of each folder" not in line] == []
    assert home.store.blob(home.save_artifact(b"works again")) == b"works again"
    assert quarantined_copies(home, "forestay.db") == ([] if bytes_then is None else [bytes_then])


def quarantined_copies(home: Home, name: str) -> list[bytes]:
    return [path.read_bytes() for path in (home.path / "quarantine").glob(f"*/{name}")]


@pytest.mark.parametrize("name", HARM)
def test_examination_finds_damage_without_changing_a_byte(home: Home, name: str) -> None:
    fill_home(home)
    HARM[name][0](home)
    before = snapshot(home.path)
    assert problems(examine_home(home, deep=True))
    after = snapshot(home.path)
    for volatile in ("-shm", "-wal"):
        after.pop(str(home.database) + volatile, None)
    assert after == before


@pytest.mark.parametrize("name", HARM)
def test_without_backups_readable_events_are_saved_and_the_rest_is_reported(
    home: Home, name: str
) -> None:
    fill_home(home)
    whole = everything(home)
    home.store.close()
    HARM[name][0](home)
    result = fix_home(home)
    now = everything(home)
    assert all(found <= whole[session] for session, found in now.items())
    # A later verification still reports what could not be restored.
    assert all(home.is_sound(session) == (now[session] == whole[session]) for session in now)
    for session, found in whole.items():
        if found - now.get(session, set()):
            assert any(session in line for line in result.lost), result.lost
    home.start("s-new")
    assert home.is_sound("s-new")


def test_broken_page_loses_only_the_events_that_depend_on_it(home: Home) -> None:
    fill_home(home)
    whole = everything(home)
    home.store.close()
    broken_page(home)
    fix_home(home)
    now = everything(home)
    assert now["s-1"] == whole["s-1"] and now["s-3"] == whole["s-3"]
    assert 5 < len(now["s-2"]) < len(whole["s-2"])


def test_events_after_the_last_backup_are_saved_from_the_damaged_file(home: Home) -> None:
    fill_home(home)
    home.save()
    for n in range(20):
        home.note(f"later {n} " + "words " * 100, "s-2")
    whole = everything(home)
    home.store.close()
    broken_page(home)
    result = fix_home(home)
    assert everything(home) == whole and problems(result.left) == []


def test_deleted_log_is_reported_and_its_events_are_restored(home: Home) -> None:
    fill_home(home)
    home.note("in the log only", "s-2")
    home.save()
    home.note("in no backup", "s-3")
    home.store.database.leave()
    assert (home.path / "forestay.db-wal").stat().st_size
    for suffix in ("-wal", "-shm"):
        Path(f"{home.database}{suffix}").unlink()
    found = {advice.session: advice for advice in examine_home(home) if advice.severity == "error"}
    assert {session: advice.fixable for session, advice in found.items()} == {
        "s-2": True,
        "s-3": False,
    }
    assert {advice.code for advice in found.values()} == {"session-lost"}
    result = fix_home(home)
    assert len(home.events("s-2")) == 33 and home.is_sound("s-2")
    assert [advice.session for advice in result.left if advice.severity == "error"] == ["s-3"]
    home.note("continues", "s-3")


def test_old_copy_of_the_database_is_completed_from_backups(home: Home) -> None:
    fill_home(home)
    old = home.database.read_bytes()
    home.note("later", "s-1")
    home.start("s-4")
    home.save()
    whole = everything(home)
    home.store.close()
    home.database.write_bytes(old)
    codes = problems(examine_home(home))
    assert codes.count("session-lost") == 1 and codes.count("session-missing") == 1
    result = fix_home(home)
    assert everything(home) == whole and problems(result.left) == []


def test_missing_session_that_no_backup_has_is_reported(home: Home) -> None:
    fill_home(home)
    old = home.database.read_bytes()
    home.start("s-4")
    home.store.close()
    home.database.write_bytes(old)
    (advice,) = [a for a in examine_home(home) if a.severity == "error"]
    assert (advice.code, advice.session, advice.fixable) == ("session-missing", "s-4", False)
    assert fix_home(home).left[0].session == "s-4"


def test_newer_database_is_not_changed(home: Home) -> None:
    fill_home(home)
    home.write("UPDATE meta SET value = '99' WHERE key = 'min_writer'")
    home.store.close()
    (advice,) = [a for a in examine_home(home) if a.severity == "error"]
    assert advice.code == "newer" and not advice.fixable and "99" in advice.why
    before = home.database.read_bytes()
    with pytest.raises(ForestayError):
        home.start("s-9")
    assert home.database.read_bytes() == before


def test_a_database_that_cannot_be_opened_is_not_reported_as_damaged(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_home(home)

    def refuse(mode: str) -> None:
        raise sqlite3.OperationalError("unable to open database file")

    monkeypatch.setattr(home.store.database, "_connect", refuse)
    (advice,) = [a for a in examine_home(home) if a.severity == "error"]
    assert advice.code == "database-closed" and not advice.fixable
    assert "unable to open" in advice.why


# --- sessions ---------------------------------------------------------------------------------


def test_damaged_derived_data_is_computed_again(home: Home) -> None:
    fill_home(home)
    home.save()
    home.write("UPDATE session SET goal = 'another' WHERE id = 's-2'")
    home.write("UPDATE row SET rank = 7 WHERE session = 3")
    codes = [(a.code, a.session, a.fixable) for a in examine_home(home) if a.severity == "error"]
    assert sorted(codes) == [
        ("line", "", True),
        ("session-derived", "s-2", True),
        ("session-derived", "s-3", True),
    ]
    result = fix_home(home)
    assert problems(result.left) == [] and len(result.done) == 3
    assert home.store.catalogue(where={"id": "s-2"})[0]["goal"] == "the goal of s-2"


@pytest.mark.parametrize(
    "harm",
    [
        "goal = 'another'",
        "seq = seq + 1",
        "forgotten = 1",
        "archived = 1",
        "line_sum = 0",
        "id = 'S'",
    ],
)
def test_damaged_catalogue_row_is_reported_and_repaired(home: Home, harm: str) -> None:
    fill_home(home, notes=10)
    home.save()
    before = home.store.catalogue(where={"id": "s-2"})
    home.write(f"UPDATE session SET {harm} WHERE id = 's-2'")
    assert [row["sound"] for row in backup.catalogue_lines(home.store)].count(False) == 1
    assert problems(examine_home(home))
    result = fix_home(home)
    assert problems(result.left) == []
    assert home.store.catalogue(where={"id": "s-2"}) == before


def test_flipped_byte_in_an_event_is_repaired_from_a_backup(home: Home) -> None:
    fill_home(home)
    home.save()
    for n in range(3):
        home.note(f"later {n}", "s-2")
    whole = everything(home)
    home.store.close()
    overwrite(home.database, place_of(home, "note 15 of s-2") + 3, b"X")
    (advice,) = [a for a in examine_home(home) if a.severity == "error"]
    assert (advice.code, advice.session, advice.fixable) == ("session-damaged", "s-2", True)
    result = fix_home(home)
    assert everything(home) == whole and problems(result.left) == []


def test_changed_header_does_not_become_a_fork(home: Home) -> None:
    fill_home(home)
    home.save()
    before = everything(home)
    home.write(
        'UPDATE event SET header = CAST(replace(CAST(header AS TEXT), \'"actor":"cli"\','
        ' \'"actor":"cla"\') AS BLOB) WHERE position = (2 << 32) + 10'
    )
    assert problems(examine_home(home)) == ["session-damaged"]
    result = fix_home(home)
    assert problems(result.left) == [] and result.lost == []
    assert everything(home) == before


def test_wrong_checksum_over_sound_events_is_repaired_without_loss(home: Home) -> None:
    fill_home(home)
    home.save()
    whole = everything(home)
    home.write("UPDATE session SET event_sum = event_sum + 1 WHERE id = 's-2'")
    (advice,) = [a for a in examine_home(home) if a.severity == "error"]
    assert (advice.code, advice.session, advice.fixable) == ("session-damaged", "s-2", True)
    result = fix_home(home)
    assert everything(home) == whole and problems(result.left) == []


def test_damaged_session_without_a_good_copy_is_not_changed(home: Home) -> None:
    fill_home(home)
    overwrite(home.database, place_of(home, "note 15 of s-2") + 3, b"X")
    home.save()
    home.store.close()
    before = home.database.read_bytes()
    result = fix_home(home)
    (advice,) = [a for a in result.left if a.severity == "error"]
    assert advice.code == "session-damaged" and not advice.fixable and "import" in advice.fix
    assert result.done == [] and home.database.read_bytes() == before


@pytest.mark.parametrize("harm", ["UPDATE blob SET data = x'00'", "DELETE FROM blob"])
def test_lost_content_is_restored_from_backups(home: Home, harm: str) -> None:
    fill_home(home)
    home.save()
    # It names a digest, but does not promise that the content is stored.
    home.do("s-1", ev.ArtifactVersioned(path="a", version=2, digest="ab" * 32))
    later = home.save_artifact(b"in no backup", "s-1")
    whole = everything(home)
    home.write(harm)
    found = [a for a in examine_home(home) if a.severity == "error"]
    assert {a.code for a in found} < {"content-damaged", "content-missing"}
    assert sorted((a.session, a.fixable) for a in found) == [
        ("s-1", False),
        ("s-1", True),
        ("s-2", True),
        ("s-3", True),
    ]
    result = fix_home(home)
    assert [a.code for a in result.left if a.severity == "error"] == ["content-missing"]
    assert later[:12] in result.left[0].what and everything(home) == whole


def test_only_the_newest_sessions_are_verified_unless_the_examination_is_deep(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "NEWEST", 2)
    for n in range(4):
        home.clock.jump(1000)
        home.start(f"s-{n}")
    home.save()
    home.write("UPDATE session SET core_sum = core_sum + 1 WHERE id = 's-0'")
    assert problems(examine_home(home)) == []
    assert problems(examine_home(home, deep=True)) == ["session-derived"]


# --- files around it --------------------------------------------------------------------------


def test_home_that_other_users_can_read_is_made_private(home: Home) -> None:
    fill_home(home)
    home.save()
    home.path.chmod(0o755)
    assert problems(examine_home(home)) == ["home-open"]
    assert problems(fix_home(home).left) == []
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a folder away takes root")
def test_home_of_another_user_is_reported(home: Home) -> None:
    fill_home(home)
    home.save()
    os.chown(home.path, 12345, 12345)
    assert problems(examine_home(home)) == ["home-owner"]


def test_old_temporary_files_are_removed(home: Home) -> None:
    fill_home(home)
    home.save()
    names = [home.path / ".x.1.forestay-tmp", Path(home.folder) / ".y.2.forestay-tmp"]
    young = home.path / ".z.3.forestay-tmp"
    for path in (*names, young):
        path.write_bytes(b"half")
        at = home.clock.now() / 1000
        os.utime(path, (at, at))
    home.clock.jump(DAY + 1)
    os.utime(young, (home.clock.now() / 1000, home.clock.now() / 1000))
    found = [advice.file for advice in examine_home(home) if advice.code == "temporary"]
    assert sorted(found) == sorted(map(str, names))
    fix_home(home)
    assert young.exists() and not any(path.exists() for path in names)


def test_unreadable_settings_are_reported(home: Home) -> None:
    fill_home(home)
    home.save()
    path = home.path / "config.toml"
    path.write_text("backup_keep = 'many'\n")
    (advice,) = [a for a in examine_home(home) if a.severity == "error"]
    assert advice.code == "config" and "backup_keep" in advice.what
    path.write_text("shiny = 1\n")
    assert [a.code for a in examine_home(home) if "shiny" in a.what] == ["config-unknown"]


def test_clock_behind_the_newest_event_is_reported(home: Home) -> None:
    fill_home(home)
    home.save()
    home.clock.jump(-2 * DAY)
    assert problems(examine_home(home)) == ["clock"]


def test_dead_processes_are_reported_and_removed_from_ended_sessions(home: Home) -> None:
    fill_home(home)
    home.do("s-1", ev.SessionCompleted())
    home.save()
    me = identity()
    assert me is not None
    dead = f"{me.machine}/{me.boot}/{me.ns}/{me.pid}/{me.start - 1}"
    for session, process in (("s-1", dead), ("s-1", str(me)), ("s-2", dead), ("s-3", str(me))):
        home.store.machine.holders.add(Holder(session, process, "agent", "", "", 0))
    found = [a for a in examine_home(home) if a.code == "holder"]
    assert {(a.session, a.fixable) for a in found} == {("s-1", True), ("s-2", False)}
    assert "forestay resume s-2" in {a.fix for a in found}
    assert "removed 1 dead" in fix_home(home).done[0]
    left = sorted((h.session, h.process) for h in home.store.machine.holders.find())
    assert left == [("s-1", str(me)), ("s-2", dead), ("s-3", str(me))]


# --- backups ----------------------------------------------------------------------------------


def test_a_home_without_backups_gets_one(home: Home) -> None:
    fill_home(home)
    assert problems(examine_home(home)) == ["backup-none"]
    result = fix_home(home)
    assert problems(result.left) == [] and "made the backup" in result.done[0]


def test_outdated_backups_are_renewed(home: Home) -> None:
    fill_home(home)
    home.save()
    home.clock.jump(2 * DAY)
    assert problems(examine_home(home)) == []
    home.note("new")
    assert problems(examine_home(home)) == ["backup-old"]
    assert problems(fix_home(home).left) == []


@pytest.mark.parametrize("deep", [False, True])
def test_damaged_backup_is_moved_aside_and_made_again(home: Home, deep: bool) -> None:
    fill_home(home)
    path = Path(home.save().path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert problems(examine_home(home, deep=deep)) == ["backup-damaged"]
    result = fix_home(home, deep=deep)
    assert problems(result.left) == [] and path.read_bytes() != data
    assert [p.read_bytes() for p in (home.path / "quarantine").iterdir()] == [bytes(data)]


def test_older_backups_are_checked_by_a_deep_examination(home: Home) -> None:
    fill_home(home)
    path = Path(home.save().path)
    home.save()
    path.write_bytes(path.read_bytes()[:-1])
    assert problems(examine_home(home)) == []
    assert problems(examine_home(home, deep=True)) == ["backup-damaged"]


def test_deep_examination_reads_a_backup_to_its_end(home: Home) -> None:
    fill_home(home)
    data = b"FORESTAY PACK 1\n" + zlib.compress(b"no records")
    Path(home.save().path).write_bytes(data + hashlib.sha256(data).digest())
    assert problems(examine_home(home)) == []
    assert problems(examine_home(home, deep=True)) == ["backup-damaged"]


def test_packs_that_depend_on_each_other_are_merged_in_any_order(
    home: Home, tmp_path: Path
) -> None:
    fill_home(home)
    home.save_new()
    home.note("later", "s-2")
    home.save_new()
    packs = backup.list_generations(home.folder)[0]
    other = Home(tmp_path / "other", seed=1)
    assert restore.absorb_all(other.journal, packs[::-1]) == (97, [])
    assert everything(other) == everything(home)
    other.store.close()


def test_a_backup_that_cannot_be_read_does_not_stop_the_others(home: Home) -> None:
    fill_home(home)
    home.save()
    whole = everything(home)
    bad = Path(home.save().path)
    bad.write_bytes(bad.read_bytes()[:-5])
    home.store.close()
    garbage(home)
    result = fix_home(home)
    assert everything(home) == whole
    assert any(str(bad) in line for line in result.lost)
    # Something may be lost: then no generation of backups is removed.
    assert len(backup.list_generations(home.folder)) == 3


def test_old_backups_are_removed_although_a_session_is_permanently_lost(home: Home) -> None:
    fill_home(home)
    home.save()
    home.start("s-9")
    bad = Path(home.save().path)
    bad.write_bytes(bad.read_bytes()[:-5])
    home.store.close()
    garbage(home)
    assert any("s-9" in line for line in fix_home(home).lost)
    home.save(keep=1)
    assert len(backup.list_generations(home.folder)) == 1


def test_database_is_rebuilt_from_all_packs_of_a_backup_generation(home: Home) -> None:
    fill_home(home)
    home.save_new()
    for n in range(5):
        home.clock.jump(3_600_000)
        home.note(f"hour {n}", f"s-{n % 3 + 1}")
        home.save_new()
    whole = everything(home)
    home.store.close()
    home.database.unlink()
    assert fix_home(home).done and everything(home) == whole


def test_forgotten_session_stays_forgotten_when_the_database_is_rebuilt(home: Home) -> None:
    fill_home(home)
    home.save()
    home.journal.forget("s-2", actor="cli")
    backup.purge(home.folder, "s-2")
    home.save_new()
    home.store.close()
    garbage(home)
    fix_home(home)
    assert [row["id"] for row in home.store.catalogue(where={"forgotten": 1})] == ["s-2"]
    assert sorted(str(row["id"]) for row in home.store.catalogue()) == ["s-1", "s-3"]
    assert all(sealed.data is None for sealed in home.events("s-2"))


# --- others, and accidents on the way ---------------------------------------------------------

READER = """
import sys
from forestay.base.clock import Clock
from forestay.store.open import open_store
store = open_store("", sys.argv[1], clock=Clock(), machine="m0")
print(len(store.catalogue()), flush=True)
sys.stdin.read()
"""
LOCKER = """
import fcntl, sys
file = open(sys.argv[1] + "/writer.lock", "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("script", [READER, LOCKER], ids=["reader", "writer"])
def test_damaged_database_is_not_moved_while_another_process_uses_it(
    home: Home, script: str
) -> None:
    fill_home(home)
    home.save()
    home.store.close()
    with subprocess.Popen(
        [sys.executable, "-c", script, str(home.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdin and child.stdout
        child.stdout.readline()
        overwrite(home.database, place_of(home, "note 15 of s-2") + 3, b"X")
        before = home.database.read_bytes()
        with pytest.raises(Busy):
            fix_home(home)
        assert home.database.read_bytes() == before
        assert not (home.path / "quarantine").exists()
        child.stdin.close()
    assert problems(fix_home(home).left) == []


def test_a_rebuild_that_fails_anywhere_can_be_done_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_home(home)
    home.save()
    home.note("in no backup", "s-3")
    whole = everything(home)
    home.store.close()
    broken_page(home)
    real, failures = os.rename, 0
    for step in range(1, 40):
        left = [step]

        def failing(source: str, target: str, left: list[int] = left) -> None:
            left[0] -= 1
            if not left[0]:
                raise OSError(errno.EIO, "the disk failed")
            real(source, target)

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", failing)
            try:
                fix_home(home)
            except (ForestayError, OSError):
                failures += 1
        home.store.close()
        if left[0] > 0:
            break
        # Whatever is left, it is not mistaken for a home that never had sessions.
        assert problems(examine_home(home)) or everything(home) == whole
    assert failures > 5
    assert problems(fix_home(home).left) == [] and everything(home) == whole
    assert not list((home.path / "quarantine").glob("*/salvage.fspack"))


KILLED = """
import os, shutil, sys
from pathlib import Path
from forestay.health import doctor
from tests.homes import Home

def mend(path, left):
    real = os.rename

    def rename(source, target):
        nonlocal left
        left -= 1
        if not left:
            os._exit(9)
        real(source, target)

    home = Home(Path(path))
    os.rename = rename
    doctor.fix(home.settings, home.store, home.journal, clock=home.clock)
    os._exit(0)

step, died = 0, 9
while died == 9:
    step += 1
    path = shutil.copytree(sys.argv[1], f"{sys.argv[2]}-{step}")
    pid = os.fork() or mend(path, step)
    died = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    print(died)
"""


def test_a_rebuild_that_is_killed_anywhere_can_be_done_again(tmp_path: Path) -> None:
    first = fill_home(Home(tmp_path / "first"))
    first.save()
    first.note("in no backup", "s-3")
    whole = everything(first)
    first.store.close()
    broken_page(first)
    died = _killed(first.path, tmp_path / "home")
    for step in range(1, len(died) + 1):
        home = Home(tmp_path / f"home-{step}")
        assert problems(examine_home(home)) or everything(home) == whole, step
        result = fix_home(home)
        assert everything(home) == whole and problems(result.left) == [], step
        home.store.close()
    assert died == [9] * (len(died) - 1) + [0] and len(died) > 5


def _killed(home: Path, copies: Path) -> list[int]:
    """Kill the rebuild of one copy at its first step, of the next at its second, until one ends."""
    root = Path(__file__).parent.parent.parent
    here = {"PYTHONPATH": f"{root}:{root}/src", "PATH": os.environ["PATH"]}
    command = [sys.executable, "-c", KILLED, str(home), str(copies)]
    done = subprocess.run(command, env=here, capture_output=True, text=True, check=True, timeout=60)
    return [int(line) for line in done.stdout.splitlines()]


def test_full_disk_leaves_the_old_database_in_place(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_home(home)
    home.save()
    home.store.close()
    broken_page(home)
    before = home.database.read_bytes()

    def full(*_: object, **__: object) -> object:
        raise StoreFailed("cannot write", why="no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(restore, "absorb", full)
        with pytest.raises(StoreFailed):
            fix_home(home)
    assert home.database.read_bytes() == before
    assert not list((home.path / "quarantine").glob("*/new"))
    assert problems(fix_home(home).left) == []


needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("mount") or sys.platform != "linux",
    reason="mounting a file system takes root on Linux",
)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    done: list[Path] = []

    def mount(*arguments: str) -> Path:
        point = tmp_path / f"mount-{len(done)}"
        point.mkdir(mode=0o700)
        answer = subprocess.run(["mount", *arguments, str(point)], capture_output=True)
        if answer.returncode:
            pytest.skip(f"cannot mount here: {answer.stderr.decode().strip()}")
        done.append(point)
        return point

    yield mount
    for point in reversed(done):
        subprocess.run(["umount", "-l", str(point)], check=True)


@needs_root
def test_read_only_home_is_examined_and_not_changed(
    home: Home, mounted: Callable[..., Path]
) -> None:
    fill_home(home)
    home.save()
    home.store.close()
    point = mounted("--bind", str(home.path))
    subprocess.run(["mount", "-o", "remount,bind,ro", str(point)], check=True)
    there = Home(point)
    there.clock = home.clock
    assert problems(examine_home(there, deep=True)) == ["home-readonly"]
    assert fix_home(there).done == []
    there.store.close()
    overwrite(home.database, place_of(home, "note 15 of s-2") + 3, b"X")
    found = [a for a in examine_home(there, deep=True) if a.severity == "error"]
    assert [(a.code, a.session, a.fixable) for a in found] == [("session-damaged", "s-2", False)]
    there.store.close()
    garbage(home)
    found = [a for a in examine_home(there) if a.severity == "error"]
    assert [(a.code, a.fixable) for a in found] == [("database-damaged", False)]
    there.store.close()


@needs_root
def test_full_disk_is_reported_and_nothing_is_lost(mounted: Callable[..., Path]) -> None:
    point = mounted("-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs")
    home = fill_home(Home(point / "home"))
    home.save()
    whole = everything(home)
    assert "space" in problems(examine_home(home))
    home.store.close()
    broken_page(home)
    before = home.database.read_bytes()
    ballast = point / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(4 << 20))
    with pytest.raises(StoreFailed):
        fix_home(home)
    assert home.database.read_bytes() == before
    ballast.unlink()
    result = fix_home(home)
    assert everything(home) == whole and problems(result.left) == ["space"]
    home.store.close()


@needs_root
def test_a_full_disk_makes_no_backup_and_breaks_none(mounted: Callable[..., Path]) -> None:
    point = mounted("-t", "tmpfs", "-o", "size=3m,mode=0700", "tmpfs")
    home = fill_home(Home(point / "home"))
    first = home.save()
    home.note("more")
    home.store.close()
    ballast = point / "ballast"
    with pytest.raises(OSError, match="No space"):
        ballast.write_bytes(bytes(4 << 20))
    with pytest.raises(StoreFailed):
        home.save_new()
    assert os.listdir(home.folder).count(os.path.basename(first.path)) == 1
    assert not [name for name in os.listdir(home.folder) if name.endswith("-tmp")]
    ballast.unlink()
    saved = home.save_new()
    assert saved is not None and saved.events >= 1
    home.store.close()


def test_examination_with_the_real_clock_reports_no_clock_problem(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.start()
    home.save()
    found = doctor.examine(home.settings, home.store, home.journal, clock=Clock())
    assert "clock" not in problems(found)
    home.store.close()


# --- tables and values ------------------------------------------------------------------------


def run_sql(home: Home, *statements: str) -> None:
    """Change the tables without the store, while no process has them open."""
    home.store.close()
    with closing(sqlite3.connect(home.database, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def names_of(kind: str) -> list[str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, 0)
        found = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = ? AND sql IS NOT NULL", (kind,)
        )
        return [name for (name,) in found]


def choose_session(home: Home, session: str) -> None:
    spot = TreeRecord(
        "/projects/shop", "1:2", 0, id="p-1", name="shop", keys=[("path", "/projects/shop")]
    )
    home.store.machine.projects.record_tree(spot, session)


# Without a backup only for tables whose content cannot be derived.
DROPPED = [(table, True) for table in names_of("table")]
DROPPED += [(table, False) for table in ("event", "blob", "session", "meta", "row", "tree")]


@pytest.mark.parametrize("table, saved", DROPPED)
def test_any_dropped_table_is_reported_and_restored(home: Home, table: str, saved: bool) -> None:
    fill_home(home, notes=10)
    choose_session(home, "s-2")
    if saved:
        home.save()
    before = everything(home)
    run_sql(home, f"DROP TABLE {table}")
    assert problems(examine_home(home))
    result = fix_home(home)
    left = [advice for advice in result.left if advice.severity == "error"]
    if table in ("event", "blob") and not saved:
        assert result.lost or left
    else:
        assert left == [] and everything(home) == before
        assert all(home.is_sound(session) for session in before)
    if table not in ("event", "tree", "blob"):
        tree = home.store.machine.projects.tree("/projects/shop")
        assert tree is not None and tree[2] == "s-2"
    assert fix_home(home).done == []
    home.start("afterwards")
    assert home.is_sound("afterwards")


@pytest.mark.parametrize("index", names_of("index"))
def test_any_dropped_index_is_created_again(home: Home, index: str) -> None:
    fill_home(home, notes=10)
    home.save()
    run_sql(home, f"DROP INDEX {index}")
    assert "tables" in problems(examine_home(home))
    assert problems(fix_home(home).left) == []
    home.store.close()
    with closing(sqlite3.connect(home.database)) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (index,)).fetchall()


KEYS = ["format", "min_writer", "device", "secret", "place", "scrub"]
GARBLED = [None, "", "x", "-1", "1.5", "9" * 30, "9" * 5000, "²", "\0", "../x", "nan"]


# Each key is tried with every third value, and each value with every third key.
@pytest.mark.parametrize(
    "key, value",
    [(k, v) for i, k in enumerate(KEYS) for j, v in enumerate(GARBLED) if (i + j) % 3 == 0],
)
def test_any_garbled_value_is_reported_and_repaired(
    home: Home, key: str, value: str | None
) -> None:
    home.start()
    home.note("one")
    home.save()
    before = everything(home)
    run_sql(home, f"DELETE FROM meta WHERE key = '{key}'")
    if value is not None:
        home.store.close()
        with closing(sqlite3.connect(home.database, isolation_level=None)) as connection:
            connection.execute("INSERT INTO meta VALUES (?, ?)", (key, value))
    reported = problems(examine_home(home))
    assert reported == (
        ["tables"] if key not in ("place", "scrub") and not is_good(key, value) else []
    )
    assert problems(fix_home(home).left) == []
    home.note("two")
    assert len(home.store.machine.secret()) == 32 and home.is_sound()
    assert everything(home)["s-1"] > before["s-1"]


@pytest.mark.parametrize(
    "harm",
    [
        "CREATE TRIGGER evil AFTER INSERT ON event BEGIN DELETE FROM event; END",
        "CREATE UNIQUE INDEX evil ON session (status)",
        "ALTER TABLE row ADD COLUMN more TEXT",
        "ALTER TABLE session ADD COLUMN more TEXT",
        "ALTER TABLE meta RENAME COLUMN value TO worth",
        "ALTER TABLE tree RENAME COLUMN inode TO node",
        "ALTER TABLE event RENAME COLUMN salt TO pepper",
        "ALTER TABLE blob RENAME COLUMN part TO piece",
    ],
)
def test_altered_tables_are_reported_and_repaired(home: Home, harm: str) -> None:
    fill_home(home, notes=10)
    home.save()
    before = everything(home)
    if "UNIQUE" in harm:
        home.do("s-1", ev.SessionPaused())
        home.do("s-2", ev.SessionCompleted())
        home.save()
        before = everything(home)
    run_sql(home, harm)
    assert problems(examine_home(home))
    result = fix_home(home)
    assert [advice for advice in result.left if advice.severity == "error"] == []
    assert everything(home) == before
    home.note("afterwards")
    assert home.is_sound()


def test_events_whose_session_is_not_listed_are_listed_again(home: Home) -> None:
    fill_home(home)
    home.journal.forget("s-3", actor="cli")
    before = everything(home)
    run_sql(home, "DELETE FROM session WHERE number >= 2")
    assert "line" in problems(examine_home(home))
    result = fix_home(home)
    assert [a for a in result.left if a.severity == "error"] == [] and result.lost == []
    assert everything(home) == before and home.is_sound("s-2")
    assert [row["id"] for row in home.store.catalogue(where={"forgotten": 1})] == ["s-3"]


def test_a_database_without_any_table_is_rebuilt(home: Home) -> None:
    fill_home(home)
    home.save()
    before = everything(home)
    home.store.close()
    home.database.unlink()
    with closing(sqlite3.connect(home.database)) as connection:
        connection.execute("PRAGMA user_version = 1")
    assert problems(examine_home(home)) == ["database-foreign"]
    fix_home(home)
    assert everything(home) == before


def test_dropped_search_index_is_filled_again(home: Home) -> None:
    fill_home(home)
    wanted = len(home.store.search("note", text_of=search_text, limit=-1))
    assert wanted == 90
    run_sql(home, "DROP TABLE find")
    fix_home(home)
    assert len(home.store.search("note", text_of=search_text, limit=-1)) == wanted


def test_dropped_table_of_content_uses_is_restored(home: Home) -> None:
    fill_home(home)
    kept = [name for event in home.events("s-2") for name in blob_names(event)]
    run_sql(home, "DROP TABLE blob_use")
    fix_home(home)
    home.journal.forget("s-1", actor="cli")
    assert kept and all(home.store.blob(digest) for digest in kept)


# --- events and lines that lost each other ----------------------------------------------------


COPIED = (
    "INSERT INTO event SELECT position + (8 << 32), NULL, header, salt, data FROM event"
    " WHERE position >> 32 = 1"
)
APART: dict[str, list[str]] = {
    "a line has another number": ["UPDATE session SET number = 7 WHERE id = 's-2'"],
    "events are there twice": [COPIED],
    "events are there twice, both listed": [
        COPIED,
        "INSERT INTO session SELECT 9, 's-x', seq, status, goal, archived, forgotten, began,"
        " updated, summary, project, indexed, fold, core_sum, event_sum, row_sum, line_sum, core"
        " FROM session WHERE number = 1",
    ],
    "an id is no text": ["UPDATE session SET id = CAST(x'ff41' AS TEXT) WHERE number = 2"],
    "a goal is no text": ["UPDATE session SET goal = CAST(x'ff41' AS TEXT)"],
    "a device is no id": ["UPDATE meta SET value = '../x y' WHERE key = 'device'"],
}


@pytest.mark.parametrize("name", APART)
def test_events_separated_from_their_catalogue_rows_are_matched_again(
    home: Home, name: str
) -> None:
    fill_home(home)
    whole = everything(home)
    run_sql(home, *APART[name])
    found = problems(examine_home(home))
    assert "line" in found or "tables" in found
    result = fix_home(home)
    assert result.done and result.lost == []
    assert [code for code in problems(result.left) if code != "backup-none"] == []
    assert everything(home) == whole
    assert all(home.is_sound(session) for session in whole)
    home.note("it goes on", "s-1")
    assert home.is_sound("s-1")


def test_events_whose_positions_are_occupied_are_merged(home: Home, tmp_path: Path) -> None:
    fill_home(home)
    other = Home(tmp_path / "other", seed=5)
    other.start("s-1")
    other.note("written elsewhere", "s-1")
    strays = other.events("s-1")
    other.store.close()
    whole = everything(home)
    for seq, sealed in enumerate(strays, start=1):
        event = ((9 << 32) + seq, sealed.header, sealed.salt, sealed.data)
        home.write("INSERT INTO event VALUES (?, NULL, ?, ?, ?)", *event)
    result = fix_home(home)
    assert result.lost == [] and home.store.maintenance.flaws() == []
    assert everything(home) == {**whole, "s-1": whole["s-1"] | hashes(strays)}
    assert home.is_sound("s-1")


def test_no_event_is_written_under_a_garbled_device_id(home: Home) -> None:
    fill_home(home)
    run_sql(home, "UPDATE meta SET value = '../x y' WHERE key = 'device'")
    home.note("after that", "s-1")
    devices = {ev.parse_header(sealed.header).device for sealed in home.events("s-1")}
    assert len(devices) == 2 and "../x y" not in devices


# --- what stands beside the database ----------------------------------------------------------


@pytest.mark.parametrize("harm", [b"", os.urandom(1000), None], ids=["empty", "garbage", "gone"])
def test_damaged_or_missing_heads_file_is_reported_and_restored(
    home: Home, harm: bytes | None
) -> None:
    fill_home(home)
    home.save()
    home.store.close()
    heads = home.path / "heads"
    heads.unlink() if harm is None else heads.write_bytes(harm)
    (advice,) = [one for one in examine_home(home) if one.severity != "info"]
    assert (advice.code, advice.fixable) == ("heads", True) and "3 session(s)" in advice.what
    assert problems(fix_home(home).left) == []
    home.write("DELETE FROM event WHERE position >> 32 = 2 AND position & 65535 > 20")
    home.write("UPDATE session SET seq = 20 WHERE number = 2")
    assert "lost" in {finding.code for finding in home.journal.verify("s-2").findings}


def test_file_with_the_name_of_the_backup_folder_is_moved_aside(home: Home) -> None:
    fill_home(home)
    (home.path / "backups").write_bytes(b"not ours")
    assert "odd-file" in problems(examine_home(home))
    assert problems(fix_home(home).left) == []
    assert backup.list_packs(home.folder)
    (kept,) = (home.path / "quarantine").iterdir()
    assert kept.read_bytes() == b"not ours"


def test_blocked_quarantine_is_reported_with_the_command_that_helps(home: Home) -> None:
    fill_home(home)
    (home.path / "backups").write_bytes(b"not ours")
    (home.path / "quarantine").write_bytes(b"nor this")
    (advice,) = [one for one in fix_home(home).left if one.code == "odd-file"]
    assert advice.fix.startswith("mv ") and not advice.fixable


def test_unexpected_exception_during_the_examination_is_a_finding(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill_home(home)

    def failing(*_: object, **__: object) -> None:
        raise ZeroDivisionError("who would have thought")

    monkeypatch.setattr(home.store.maintenance, "check", failing)
    found = [advice for advice in examine_home(home) if advice.code == "not-seen"]
    assert len(found) == 1 and "who would have thought" in found[0].what and found[0].fix


@pytest.mark.parametrize("seed", range(12))
def test_saved_home_is_restored_completely_whatever_bytes_are_garbled(
    home: Home, seed: int
) -> None:
    fill_home(home, notes=10)
    choose_session(home, "s-2")
    home.save()
    before = everything(home)
    home.store.close()
    random = Random(seed)
    size = home.database.stat().st_size
    for _ in range(random.choice([1, 3, 20])):
        page = random.randrange(size // PAGE) * PAGE
        at = page + random.randrange(random.choice([16, PAGE]))
        overwrite(home.database, at, random.randbytes(1))
    assert not [advice for advice in examine_home(home) if "Error:" in advice.what]
    result = fix_home(home)
    assert [advice for advice in result.left if advice.severity == "error"] == []
    assert everything(home) == before


def test_database_or_folder_without_write_permission_is_named(plain_user: Path) -> None:
    database = plain_user / "forestay.db"
    assert doctor._not_writable(str(plain_user)) == ""
    database.touch()
    database.chmod(0o444)
    assert doctor._not_writable(str(plain_user)) == str(database)
    plain_user.chmod(0o555)
    assert doctor._not_writable(str(plain_user)) == str(plain_user)
