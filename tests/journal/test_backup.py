"""Exports, imports and rotating backups: merged, never replaced; twice is once; nothing is lost."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forestay.base import files
from forestay.errors import Busy, Damaged, InvalidInput, NoSession, StoreFailed
from forestay.journal import backup, pack, restore
from forestay.journal.pack import Blob, Item, Limits, Range, Reader
from forestay.model import event as ev
from forestay.model.event import Sealed
from tests.histories import SESSION, simulate
from tests.homes import Home, hashes

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    home = Home(tmp_path / "here")
    yield home
    home.store.close()


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Home]:
    other = Home(tmp_path / "there", seed=1)
    yield other
    other.store.close()


def in_packs(paths: list[str]) -> list[Item]:
    return [item for path in paths for item in Reader(files.read_chunks(path), name=path)]


def events_in(paths: list[str], session: str = "s-1") -> list[Sealed]:
    found = (item for item in in_packs(paths) if isinstance(item, Range))
    return [sealed for item in found if item.session == session for sealed in item.events]


def names(home: Home) -> list[str]:
    return sorted(name[:10] for name in os.listdir(home.folder) if name.endswith(".fspack"))


# --- export and import ------------------------------------------------------------------------


def test_an_exported_session_is_identical_in_the_home_that_imports_it(
    home: Home, other: Home
) -> None:
    home.start()
    home.note("one")
    digest = home.save_artifact(b"some content")
    outcome = other.absorb(home.export())
    assert outcome.sessions == [restore.SessionResult("s-1", 3, 0)] and outcome.blobs == 1
    assert other.events() == home.events()
    assert other.store.blob(digest) == b"some content"
    assert other.is_sound()
    listed = [(row["id"], row["goal"], row["status"]) for row in other.store.catalogue()]
    assert listed == [("s-1", "the goal of s-1", "active")]


def test_importing_a_session_twice_equals_importing_it_once(home: Home, other: Home) -> None:
    home.start()
    home.save_artifact(b"content")
    data = home.export()
    other.absorb(data)
    before = (
        other.store.database.read("SELECT * FROM session"),
        other.store.database.read("SELECT * FROM blob_use"),
    )
    again = other.absorb(data)
    assert again.sessions == [restore.SessionResult("s-1", 0, 2)] and again.blobs == 0
    assert before == (
        other.store.database.read("SELECT * FROM session"),
        other.store.database.read("SELECT * FROM blob_use"),
    )


def test_work_on_both_sides_is_merged(home: Home, other: Home) -> None:
    home.start()
    other.absorb(home.export())
    home.note("here")
    other.note("there")
    home.absorb(other.export())
    other.absorb(home.export())
    assert hashes(home.events()) == hashes(other.events())
    assert len(home.events()) == 3 and home.is_sound() and other.is_sound()


def test_shared_content_stays_until_every_session_that_uses_it_is_forgotten(
    home: Home, other: Home
) -> None:
    for session in ("s-1", "s-2"):
        home.start(session)
        digest = home.save_artifact(b"the same content", session)
        other.absorb(home.export(session))
    other.journal.forget("s-1", actor="cli")
    assert other.store.blob(digest) == b"the same content"
    other.journal.forget("s-2", actor="cli")
    assert other.store.blob(digest) is None


def test_lost_content_is_restored_by_importing_a_pack(home: Home) -> None:
    home.start()
    digest = home.save_artifact(b"content")
    data = home.export()
    home.write("DELETE FROM blob")
    outcome = home.absorb(data)
    assert outcome.blobs == 1 and outcome.new == 0
    assert home.store.blob(digest) == b"content"


def test_damaged_content_does_not_prevent_merging_the_rest(home: Home) -> None:
    home.start()
    home.save_artifact(b"content")
    data = home.export()
    home.write("UPDATE blob SET data = x'00'")
    assert home.absorb(data) == restore.ImportResult([restore.SessionResult("s-1", 0, 2)], 0)


def test_much_content_is_merged_a_part_at_a_time(
    home: Home, other: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.start()
    kept = [home.save_artifact(f"content {n}".encode() * 100) for n in range(7)]
    monkeypatch.setattr(restore, "_BLOBS_AT_ONCE", 2000)
    absorbed: list[int] = []
    real = other.journal.absorb

    def counted(
        session: str, events: list[Sealed], blobs: list[tuple[str, bytes]], **how: Any
    ) -> int:
        absorbed.append(len(blobs))
        return real(session, events, blobs, **how)

    monkeypatch.setattr(other.journal, "absorb", counted)
    outcome = other.absorb(home.export())
    assert absorbed == [3, 3, 1]
    assert outcome.sessions == [restore.SessionResult("s-1", 8, 0)] and outcome.blobs == 7
    assert all(other.store.blob(digest) for digest in kept) and other.is_sound()


def test_a_forgotten_session_is_not_restored_by_an_import(home: Home, other: Home) -> None:
    for session in ("s-1", "s-2"):
        home.start(session)
        home.note("secret plans", session)
    backup.save(home.store, str(home.path / "all"), clock=home.clock)
    packs = backup.list_generations(str(home.path / "all"))[0]
    other.absorb(packs[0])
    other.journal.forget("s-1", actor="cli")
    outcome = other.absorb(packs[0])
    skipped, taken = outcome.sessions
    assert (skipped.session, skipped.new, skipped.held) == ("s-1", 0, 2)
    assert "forgotten on this device" in skipped.why
    assert taken == restore.SessionResult("s-2", 0, 2)
    assert all(sealed.data is None for sealed in other.events("s-1"))


def test_session_forgotten_in_another_home_stays_in_this_one(home: Home, other: Home) -> None:
    home.start()
    home.note("still needed there")
    other.absorb(home.export())
    home.journal.forget("s-1", actor="cli")
    (taken,) = other.absorb(home.export()).sessions
    assert "stays on this device" in taken.why and taken.held == 2
    assert other.is_sound() and len(other.events()) == 2


def test_import_of_an_id_that_differs_only_in_case_does_not_change_the_existing_session(
    home: Home, other: Home
) -> None:
    home.start("Fix-Login")
    other.start("fix-login")
    (taken,) = other.absorb(home.export("Fix-Login")).sessions
    assert "only in upper and lower case" in taken.why
    assert len(other.events("fix-login")) == 1


def test_import_of_a_damaged_pack_is_refused_and_changes_nothing(
    home: Home, other: Home, tmp_path: Path
) -> None:
    for session in ("s-1", "s-2"):
        home.start(session)
    path = home.save().path
    data = bytearray(Path(path).read_bytes())
    data[-1] ^= 1
    bad = tmp_path / "bad.fspack"
    bad.write_bytes(data)
    with pytest.raises(Damaged, match=str(bad)):
        other.absorb(str(bad))
    with pytest.raises(InvalidInput, match="not a Forestay pack"):
        other.absorb(b"SQLite format 3\0" * 100)
    with pytest.raises(InvalidInput, match="at most 100"):
        restore.absorb(other.journal, path, limits=Limits(total=100))
    assert other.store.catalogue() == [] and not (other.path / "forestay.db").exists()


def test_import_of_a_missing_pack_is_reported(home: Home) -> None:
    with pytest.raises(InvalidInput, match="cannot read"):
        home.absorb(str(home.path / "none.fspack"))


def test_a_pack_with_events_whose_predecessors_are_missing_is_refused_as_a_whole(
    home: Home, other: Home
) -> None:
    home.start()
    home.start("s-0")
    home.note("one")
    chain = home.events()
    gapped: list[Item] = [
        *pack.ranges("s-0", home.events("s-0")),
        *pack.ranges("s-1", chain[1:]),
    ]
    data = packed(gapped)
    with pytest.raises(Damaged, match="cannot be imported"):
        other.absorb(data)
    assert other.store.catalogue() == []
    outcome = other.absorb(data, partial=True)
    assert outcome.sessions == [
        restore.SessionResult("s-0", 1, 0),
        restore.SessionResult("s-1", 0, 0, 1),
    ]
    other.absorb(packed(pack.ranges("s-1", chain[:1])))
    assert other.absorb(data).sessions[1] == restore.SessionResult("s-1", 1, 0)
    assert other.events() == chain


def test_import_of_an_event_with_a_forged_clock_is_refused(home: Home, other: Home) -> None:
    home.start()
    header = ev.parse_header(home.events()[0].header)
    data = b'{"text":"forged"}'
    forged = ev.Header(
        **{
            **{name: getattr(header, name) for name in header.__struct_fields__},
            "n": 2,
            "clock": 99,
            "kind": "note.added",
            "prev": home.events()[0].hash,
            "digest": ev.content_digest(b"s" * 16, data),
        }
    )
    sealed = ev.seal(forged, b"s" * 16, data)
    home.start("s-0")
    good = pack.ranges("s-0", home.events("s-0"))
    bad = pack.ranges("s-1", [*home.events(), sealed])
    with pytest.raises(Damaged, match="its clock is 99"):
        other.absorb(packed([*good, *bad]))
    assert other.store.catalogue() == []
    outcome = other.absorb(packed([*good, *bad]), partial=True)
    assert outcome.sessions == [
        restore.SessionResult("s-0", 1, 0),
        restore.SessionResult("s-1", 1, 0, 1),
    ]


def packed(items: list[Item] | list[Range]) -> bytes:
    return b"".join(pack.write(lambda: items, created=0, tool="test", what="export"))


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.integers(1, 30))
def test_any_history_can_be_merged_in_pieces(
    tmp_path_factory: pytest.TempPathFactory, random: Random, steps: int
) -> None:
    world = simulate(random, steps, newer=False)
    events = [world.sealed[event.hash] for event in world.events]
    cut = random.randrange(len(events) + 1)
    home = Home(tmp_path_factory.mktemp("any"))
    for piece in (events[:cut], events[:cut], events[cut // 2 :]):
        if piece:
            home.absorb(packed(pack.ranges(SESSION, piece)), partial=True)
    if any(event.kind == "session.forgotten" for event in world.events):
        return
    assert hashes(home.events(SESSION)) == hashes(events)
    assert home.journal.verify(SESSION).findings == []
    home.store.close()


def test_a_damaged_session_is_not_exported_as_a_good_one(home: Home) -> None:
    home.start()
    home.note("one")
    home.write("UPDATE event SET data = x'7b7d' WHERE position & 4294967295 = 2")
    with pytest.raises(Damaged, match="s-1 is damaged"):
        home.export()
    with pytest.raises(NoSession):
        home.export("missing")


@pytest.mark.parametrize("harm", ["DELETE FROM blob", "UPDATE blob SET data = x'00'"])
def test_a_session_whose_content_is_gone_is_not_exported_as_a_whole_one(
    home: Home, other: Home, harm: str
) -> None:
    home.start()
    home.save_artifact(b"content")
    home.do("s-1", ev.ArtifactSaved(path="b", digest="a" * 64, size=1, kept=False))
    home.write(harm)
    with pytest.raises(Damaged) as damaged:
        home.export()
    assert damaged.value.exit_code == 5 and "--partial" in damaged.value.hint
    made = backup.export(home.journal, "s-1", clock=home.clock, partial=True)
    assert len(made.left_out) == 1
    assert other.absorb(b"".join(made.chunks)).new == 3


@pytest.mark.parametrize(
    "harm",
    [
        "DELETE FROM event WHERE position = (1 << 32) + 2",
        "DELETE FROM event WHERE position = (1 << 32) + 3",
    ],
)
def test_a_session_with_a_gap_is_not_exported_as_a_whole_one(home: Home, harm: str) -> None:
    home.start()
    home.note("one")
    home.note("two")
    home.write(harm)
    with pytest.raises(Damaged, match="s-1 is damaged"):
        home.export()


def test_an_export_is_written_durably_and_overwrites_nothing(home: Home, tmp_path: Path) -> None:
    home.start()
    path = str(tmp_path / "one.fspack")
    os.umask(0)
    backup.write_pack(path, backup.export(home.journal, "s-1").chunks)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    before = Path(path).read_bytes()
    home.note("more")
    with pytest.raises(InvalidInput, match="already exists"):
        backup.write_pack(path, backup.export(home.journal, "s-1").chunks)
    assert Path(path).read_bytes() == before
    backup.write_pack(path, [b"other"], overwrite=True)
    assert Path(path).read_bytes() == b"other"
    assert sorted(os.listdir(tmp_path)) == ["here", "one.fspack"]


def test_a_pack_that_cannot_be_written_leaves_no_file(home: Home, tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(StoreFailed, match="cannot write"):
        backup.write_pack(str(tmp_path / "x.fspack"), broken())
    (tmp_path / "link").symlink_to(tmp_path / "target")
    for overwrite in (True, False):
        with pytest.raises(InvalidInput):
            backup.write_pack(str(tmp_path / "link"), [b"x"], overwrite=overwrite)
    assert sorted(os.listdir(tmp_path)) == ["link"]


# --- backups ----------------------------------------------------------------------------------


def test_a_backup_holds_everything(home: Home, other: Home) -> None:
    for session in ("s-1", "s-2"):
        home.start(session)
    digest = home.save_artifact(b"content", "s-2")
    saved = home.save()
    assert (saved.full, saved.sessions, saved.events, saved.left_out) == (True, 2, 3, [])
    assert stat.S_IMODE(os.stat(saved.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(home.folder).st_mode) == 0o700
    outcome = other.absorb(saved.path)
    assert outcome.new == 3 and other.store.blob(digest) == b"content"
    assert all(other.is_sound(session) for session in ("s-1", "s-2"))


def test_backup_into_a_user_folder_is_only_a_file(home: Home, tmp_path: Path) -> None:
    home.start()
    mine = tmp_path / "mine"
    mine.mkdir(mode=0o777)
    made = [backup.save(home.store, str(mine), clock=home.clock).path for _ in range(3)]
    assert sorted(os.listdir(mine)) == [os.path.basename(path) for path in made]


def test_an_empty_store_can_be_backed_up(home: Home, other: Home) -> None:
    assert other.absorb(home.save().path).sessions == []
    assert home.save_new() is None


def test_later_backups_hold_only_what_is_new(home: Home, other: Home) -> None:
    home.start()
    home.start("s-2")
    first = home.save_new()
    assert first is not None and first.full
    assert home.save_new() is None
    home.note("new")
    digest = home.save_artifact(b"content")
    second = home.save_new()
    assert second is not None and (second.full, second.sessions, second.events) == (False, 1, 2)
    assert events_in([second.path]) == home.events()[1:]
    for path in backup.list_generations(home.folder)[-1]:
        other.absorb(path)
    assert other.events() == home.events() and other.store.blob(digest) == b"content"


def test_error_for_a_single_part_names_what_must_be_imported_first(home: Home, other: Home) -> None:
    home.start()
    home.save_new()
    home.note("new")
    part = home.save_new()
    assert part is not None
    with pytest.raises(Damaged, match="cannot be imported") as caught:
        other.absorb(part.path)
    assert "oldest first" in caught.value.hint


def looked_after(home: Home) -> int:
    """When backups were last looked after: what decides whether one is due."""
    return os.stat(os.path.join(home.folder, "state.json")).st_mtime_ns // 1_000_000


def test_a_file_time_shows_when_backups_last_ran(home: Home) -> None:
    home.start()
    home.save_new()
    assert looked_after(home) == home.clock.now()
    home.clock.jump(HOUR)
    assert home.save_new() is None and looked_after(home) == home.clock.now()
    home.clock.jump(HOUR)
    home.note("new")
    assert home.save_new() is not None and looked_after(home) == home.clock.now()


@pytest.mark.parametrize("jump", [10 * 365 * DAY, -10 * 365 * DAY])
def test_backups_sort_correctly_after_a_clock_jump(home: Home, jump: int) -> None:
    home.start()
    home.save_new()
    home.clock.jump(jump)
    home.note("after the jump")
    home.save_new()
    assert looked_after(home) == home.clock.now()
    assert names(home) == ["000001-000", "000002-000"]


def test_a_backup_generation_ends_after_25_packs_or_a_week(home: Home) -> None:
    home.start()
    home.save_new()
    for n in range(25):
        home.clock.jump(HOUR)
        home.note(f"note {n}")
        home.save_new()
    assert [len(packs) for packs in backup.list_generations(home.folder)] == [25, 1]
    home.clock.jump(7 * DAY)
    home.note("a week later")
    saved = home.save_new()
    assert saved is not None and saved.full
    assert [len(packs) for packs in backup.list_generations(home.folder)] == [1, 1]


def test_only_the_requested_number_of_backup_generations_stays(home: Home) -> None:
    home.start()
    for n in range(4):
        home.save(keep=2)
        home.note(f"note {n}")
        home.save_new(keep=2)
    assert names(home) == ["000003-000", "000003-001", "000004-000", "000004-001"]
    home.save(keep=1)
    assert names(home) == ["000005-000"]


def test_old_generations_are_removed_only_after_the_new_one_is_safe(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.start()
    home.save(keep=1)

    def failing(*_: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write_temporary", failing)
    with pytest.raises(StoreFailed):
        home.save(keep=1)
    assert names(home) == ["000001-000"]


def test_a_backup_that_fails_is_not_tried_at_every_command(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.start()

    def failing(*_: object) -> str:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_temporary", failing)
        with pytest.raises(StoreFailed):
            home.save_new()
    files.create(os.path.join(home.folder, "state.json"), b"")
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_temporary", failing)
        with pytest.raises(StoreFailed):
            home.save_new()
    assert looked_after(home) == home.clock.now()
    saved = home.save_new()
    assert saved is not None and saved.full


@pytest.mark.parametrize(
    "state",
    [
        *(b"", b"{", b"[]", b"{}", b'{"saved": 7}', b"\xff\0", b"[" * 9999),
        *(
            b'{"generation": %b, "parts": 0, "began": 0, "saved": {}, "missing": {}}' % value
            for value in [
                *(b"1e999", b"NaN", b"-Infinity", b'"1"', b"[1]", b"null", b"true"),
                *(b"9" * 30, b"9" * 5000, b"1.5", b"{}"),
            ]
        ),
        b'{"generation": 1, "parts": 0, "began": 0, "saved": {"s-1": [1e999, ""]}, "missing": {}}',
        b'{"generation": 1, "parts": 0, "began": 0, "saved": {"s-1": [1]}, "missing": {}}',
        b'{"generation": 1, "parts": 0, "began": 1e999, "saved": {}, "missing": {}}',
    ],
    ids=repr,
)
def test_a_garbled_backup_state_file_only_causes_a_full_backup(home: Home, state: bytes) -> None:
    home.start()
    home.save_new()
    Path(home.folder, "state.json").write_bytes(state)
    home.note("more")
    saved = home.save_new()
    assert saved is not None and saved.full and saved.events == 2


def test_a_generation_that_lost_a_pack_is_not_continued(home: Home) -> None:
    home.start()
    first = home.save_new()
    assert first is not None
    home.note("one")
    home.save_new()
    os.unlink(first.path)
    home.note("two")
    saved = home.save_new()
    assert saved is not None and saved.full and saved.events == 3


def test_a_pack_missing_from_the_backup_state_is_not_overwritten(home: Home) -> None:
    home.start()
    home.save_new()
    state = Path(home.folder, "state.json").read_bytes()
    home.note("one")
    home.save_new()
    Path(home.folder, "state.json").write_bytes(state)
    home.note("two")
    saved = home.save_new()
    assert saved is not None and saved.full
    assert names(home) == ["000001-000", "000001-001", "000002-000"]


def test_one_process_at_a_time_makes_backups(home: Home) -> None:
    home.start()
    files.make_private_dir(home.folder)
    with files.locked(home.folder):
        assert home.save_new() is None
        with pytest.raises(Busy):
            home.save()
    assert home.save_new() is not None


def test_backup_by_another_process_is_not_repeated(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.start()
    home.save_new()
    home.note("one")
    home.clock.jump(HOUR)
    real = files.locked.__enter__

    def slow(self: files.locked) -> None:
        # While we waited for the folder, the other one did the work.
        monkeypatch.setattr(files.locked, "__enter__", real)
        assert home.save_new() is not None
        home.note("two")
        real(self)

    monkeypatch.setattr(files.locked, "__enter__", slow)
    assert home.save_new() is None
    assert names(home) == ["000001-000", "000001-001"]


def test_a_session_restored_to_an_older_state_is_saved_from_its_start(home: Home) -> None:
    home.start()
    home.write("CREATE TABLE earlier AS SELECT * FROM session")
    home.note("one")
    home.save_new()
    old = home.events()
    home.write("DELETE FROM event WHERE position & 4294967295 = 2")
    home.write("REPLACE INTO session SELECT * FROM earlier")
    home.note("another one")
    home.note("more")
    saved = home.save_new()
    assert saved is not None and saved.events == 3
    packs = backup.list_generations(home.folder)[-1]
    assert hashes(events_in(packs)) == hashes(old) | hashes(home.events())


def test_backup_of_a_missing_session_is_not_rotated_away(home: Home) -> None:
    home.start()
    home.start("s-2")
    home.save_new(keep=1)
    home.write("DELETE FROM session WHERE id = 's-1'")
    for n in range(3):
        home.note(f"note {n}", "s-2")
        home.save_new(keep=1)
        home.save(keep=1)
    assert "000001-000" in names(home)
    home.absorb(backup.list_generations(home.folder)[0][0])
    home.save(keep=1)
    assert len(names(home)) == 1


def test_damaged_session_is_left_out_and_its_good_copy_stays(home: Home) -> None:
    home.start()
    home.note("one")
    home.note("two")
    home.start("s-2")
    home.save(keep=1)
    home.write("UPDATE event SET data = x'7b7d' WHERE position = (1 << 32) + 2")
    home.note("three")
    saved = home.save_new(keep=1)
    assert saved is not None and saved.events == 1
    saved = home.save(keep=1)
    assert saved.events == 4 and [id for id, _ in saved.left_out] == ["s-1"]
    assert "digest differs" in saved.left_out[0][1]
    assert names(home)[0] == "000001-000"


def test_missing_content_is_reported_and_does_not_stop_a_backup(home: Home, other: Home) -> None:
    for session in ("s-1", "s-2"):
        home.start(session)
        home.save_artifact(f"content of {session}".encode(), session)
    kept = home.save().path
    home.write("DELETE FROM blob WHERE digest IN (SELECT digest FROM blob_use WHERE session = 1)")
    for _ in range(3):
        saved = home.save(keep=1)
        assert [session for session, _ in saved.left_out] == ["s-1"]
    assert os.path.exists(kept), "the pack that still has it was rotated away"
    outcome = other.absorb(saved.path)
    assert outcome.new == 4 and outcome.blobs == 1


def test_damaged_content_is_left_out_and_reported(home: Home, other: Home) -> None:
    home.start()
    home.save_artifact(b"content")
    home.write("UPDATE blob SET data = x'00'")
    saved = home.save()
    assert saved.left_out[0][0] == "s-1" and "damaged" in saved.left_out[0][1]
    assert other.absorb(saved.path).new == 2


def test_generation_with_a_damaged_session_can_be_imported(home: Home, other: Home) -> None:
    home.start()
    for n in range(4):
        home.note(f"note {n}")
    good = home.save().path
    home.write("UPDATE event SET data = x'7b7d' WHERE position = (1 << 32) + 2")
    bad = home.save().path
    assert other.absorb(bad, partial=True).sessions == [restore.SessionResult("s-1", 1, 0, 3)]
    other.absorb(good)
    assert len(other.events()) == 5 and other.is_sound()


def test_a_forgotten_session_is_saved_as_forgotten(home: Home, other: Home) -> None:
    home.start()
    home.note("secret")
    home.save_new()
    home.journal.forget("s-1", actor="cli")
    backup.purge(home.folder, "s-1")
    home.save_new()
    for path in backup.list_generations(home.folder)[-1]:
        other.absorb(path)
    assert other.store.catalogue() == []
    assert [row["id"] for row in other.store.catalogue(where={"forgotten": 1})] == ["s-1"]


def during_writing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Do something once, after a pack was measured and before it is written."""
    records, passes = pack._Tally.records, list[int]()

    def meanwhile(self: pack._Tally, items: Iterator[Item]) -> Iterator[bytes]:
        passes.append(1)
        if len(passes) == 2:
            act()
        return records(self, items)

    monkeypatch.setattr(pack._Tally, "records", meanwhile)


def test_session_forgotten_while_it_is_packed_is_packed_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.start()
    home.note("secret")
    home.start("s-2")
    during_writing(monkeypatch, lambda: home.journal.forget("s-1", actor="cli"))
    saved = home.save()
    assert all(sealed.data is None for sealed in events_in([saved.path]))
    assert len(os.listdir(home.folder)) == 2


def test_events_added_during_a_backup_are_saved_by_the_next_one(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.start()
    during_writing(monkeypatch, lambda: home.note("just now"))
    saved = home.save()
    assert saved.events == 1
    again = home.save_new()
    assert again is not None and again.events == 1


# --- forgetting -------------------------------------------------------------------------------


def test_forgetting_a_session_erases_it_from_every_backup(home: Home, other: Home) -> None:
    for session in ("s-1", "s-2"):
        home.start(session)
        home.do(session, ev.NoteAdded(text=f"plans of {session}"))
        home.save_artifact(f"content of {session}".encode(), session)
    home.save_artifact(b"shared", "s-1")
    home.save_artifact(b"shared", "s-2")
    home.save_new()
    home.note("later plans")
    home.save_new()
    paths = backup.list_generations(home.folder)[0]
    before = in_packs(paths)
    purged = backup.purge(home.folder, "S-1")
    assert purged == backup.PurgeResult(paths, [])
    assert looked_after(home) == 0
    after = in_packs(paths)
    kept = [item for item in before if item.session == "s-2"]
    assert [item for item in after if item.session == "s-2"] == kept
    gone = [item for item in after if item.session == "s-1"]
    assert not any(isinstance(item, Blob) for item in gone)
    assert all(s.salt is None and s.data is None for s in events_in(paths))
    assert hashes(events_in(paths)) == hashes(home.events())
    assert b"plans of s-1" not in b"".join(map(_inflated, paths))
    assert stat.S_IMODE(os.stat(paths[0]).st_mode) == 0o600
    other.absorb(paths[0])
    assert other.is_sound("s-2")


def _inflated(path: str) -> bytes:
    import zlib

    return zlib.decompress(Path(path).read_bytes()[16:-32])


def test_forgetting_reports_packs_it_could_not_read(home: Home) -> None:
    home.start()
    good = home.save().path
    bad = Path(home.folder, "000009-000-x.fspack")
    bad.write_bytes(Path(good).read_bytes()[:-1])
    foreign = Path(home.folder, "mine.fspack")
    foreign.write_bytes(b"no pack")
    temporary = Path(home.folder, ".x.0123.forestay-tmp")
    temporary.write_bytes(b"half a pack")
    purged = backup.purge(home.folder, "s-1")
    assert purged == backup.PurgeResult([good], [str(bad), str(foreign)])
    assert bad.exists() and foreign.exists() and not temporary.exists()
    assert backup.purge(str(home.path / "none"), "s-1") == backup.PurgeResult([], [])


def test_a_backup_generation_is_continued_after_a_session_was_purged_from_it(
    home: Home, other: Home
) -> None:
    home.start()
    home.start("s-2")
    home.save_new()
    home.journal.forget("s-1", actor="cli")
    backup.purge(home.folder, "s-1")
    home.note("on", "s-2")
    saved = home.save_new()
    assert saved is not None and not saved.full and saved.sessions == 2
    for path in backup.list_generations(home.folder)[-1]:
        other.absorb(path)
    assert other.is_sound("s-2") and len(other.events("s-2")) == 2


def test_backup_state_names_what_was_saved(home: Home) -> None:
    home.start()
    home.save_new()
    kept = json.loads(Path(home.folder, "state.json").read_bytes())
    assert kept["forestay"] == 1 and kept["saved"] == {"s-1": [1, home.events()[0].hash]}


# --- content that arrives later -----------------------------------------------------------------


def test_content_that_arrives_later_is_in_the_next_backup(home: Home, other: Home) -> None:
    home.start()
    digest = home.save_artifact(b"some content")
    whole = home.export()
    home.store.database.write(lambda db: db.execute("DELETE FROM blob"))
    first = home.save_new()
    assert first is not None and first.left_out
    assert home.save_new() is None
    home.absorb(whole)
    assert home.store.blob(digest) == b"some content"
    part = home.save_new()
    assert part is not None and not part.full and not part.left_out
    assert home.save_new() is None
    for path in backup.list_generations(home.folder)[-1]:
        other.absorb(path)
    assert other.store.blob(digest) == b"some content" and other.is_sound()


def test_missing_content_is_remembered_through_later_backups(home: Home) -> None:
    home.start()
    home.save_artifact(b"some content")
    whole = home.export()
    home.store.database.write(lambda db: db.execute("DELETE FROM blob"))
    home.save_new()
    home.note("later")
    assert home.save_new() is not None
    home.absorb(whole)
    part = home.save_new()
    assert part is not None and part.events == 3 and home.save_new() is None
