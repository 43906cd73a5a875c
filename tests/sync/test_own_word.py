"""Authorship: events and tombstones of others in files, backups and rebuilt homes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from forestay.api.forestay import Forestay
from forestay.errors import NotEntitled, Refused, Swapped, Tampered, Unreachable
from forestay.health import forget as health_forget
from forestay.journal import backup, restore
from forestay.model.erasure import Rights
from forestay.sync.crypto import key_ring
from forestay.sync.device_list import identity
from forestay.sync.push import PackReplacement
from forestay.sync.remotes import object_names
from forestay.sync.session_keys import SessionKeys
from tests.sync.people import World, notes, person_of, synced


def holds(stay: Forestay, text: str = "precious") -> bool:
    with stay.context.store.view("login") as view:
        return any(text.encode() in (stored.data or b"") for stored in view.events())


def seq_of(stay: Forestay, text: str) -> str:
    log = stay.session("login").log()
    return str(next(o.event.seq for o in log if getattr(o.event.body, "text", "") == text))


def forget(stay: Forestay, text: str) -> None:
    health_forget.forget_events(stay.context, "login", [seq_of(stay, text)], actor="user")


@pytest.fixture
def member(world: World, ann: Forestay) -> Forestay:
    """A member who may continue and forgot events of the owner; the owner has pulled that."""
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    forget(bob, "precious")
    synced(bob)
    assert synced(ann).problems == []
    assert holds(ann) and not holds(bob)
    return bob


def rebuilt(world: World, of: Forestay, name: str) -> Forestay:
    """Return a blank home that restored all backups of another as its own."""
    blank = world.home(name)
    restore.absorb_all(blank.context.journal, of.backups.list())
    return blank


def test_tombstone_of_a_member_erases_nothing_by_import_restore_or_rebuild(
    world: World, ann: Forestay, member: Forestay
) -> None:
    path = str(world.folder / "x.fspack")
    ann.session("login").export(path)
    ann.backups.create()
    imported, restored = world.home("imported"), world.home("restored")
    imported.backups.import_(path)
    restored.backups.restore(ann.backups.list()[-1])
    for stay in (imported, restored, rebuilt(world, ann, "rebuilt")):
        assert holds(stay)
        assert stay.context.journal.verify("login").ok


def test_rebuild_does_not_bring_back_forgotten_events(
    world: World, ann: Forestay, member: Forestay
) -> None:
    """Its own tombstone is valid there, although no other device has to apply it."""
    ann.session("login").note("a slip")
    ann.backups.create()
    stale = Path(ann.backups.list()[-1]).read_bytes()
    forget(ann, "a slip")
    (Path(ann.backups.folder) / "000009-000-stale.fspack").write_bytes(stale)
    ann.backups.create()
    before = {text: holds(ann, text) for text in ("precious", "a slip")}
    assert before == {"precious": True, "a slip": False}
    again = rebuilt(world, ann, "again")
    assert {text: holds(again, text) for text in before} == before
    member.backups.create()
    assert not holds(rebuilt(world, member, "members"))


def test_doctor_restores_events_that_a_member_erased_and_not_the_users_own(
    world: World, ann: Forestay, member: Forestay
) -> None:
    ann.session("login").note("a slip")
    forget(ann, "a slip")
    ann.backups.create()
    ann.close()
    path = Path(ann.context.settings.home) / "forestay.db"
    data = bytearray(path.read_bytes())
    data[4096:] = b"\x55" * (len(data) - 4096)  # all but the first page
    path.write_bytes(data)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    ann.doctor(fix=True)
    assert holds(ann) and not holds(ann, "a slip")


def test_rebuilt_home_knows_its_ids_remotes_and_owners_of_chains(
    world: World, ann: Forestay, member: Forestay
) -> None:
    from forestay.health.rebuild import Rebuild

    ann.backups.create()
    ids, owners = (
        ann.context.store.machine.devices(),
        ann.context.store.machine.remotes.owners("login"),
    )
    assert len(owners) == 2
    ann.close()
    Rebuild(ann.context.store, ann.context.settings, clock=ann.context.clock).run()
    assert ann.context.store.machine.devices() > ids
    assert ann.context.store.machine.remotes.owners("login") == owners
    assert [one.name for one in ann.context.store.machine.remotes.all()] == ["usb"]
    report = synced(ann)
    assert report.problems == [] and report.waiting == 0
    assert holds(ann)


def test_owner_of_a_chain_is_known_after_the_remote_is_removed(
    ann: Forestay, member: Forestay
) -> None:
    owners, owner = (
        ann.context.store.machine.remotes.owners("login"),
        ann.context.store.machine.remotes.owner("login"),
    )
    assert owner == identity(ann.context).group.id
    assert owners[member.context.store.machine.device] == identity(member.context).group.id
    (usb,) = ann.context.store.machine.remotes.all()
    ann.context.store.machine.remotes.remove(usb)
    assert ann.context.store.machine.remotes.owners("login") == owners
    assert ann.context.store.machine.remotes.owner("login") == owner
    assert not ann.context.journal.rights("login").may_erase(
        member.context.store.machine.device, ann.context.store.machine.device
    )


@pytest.mark.parametrize(
    ("device", "of", "may"),
    [
        ("mine", "mine", True),
        ("before", "other", True),
        ("other", "other", True),
        ("other", "mine", False),
        ("other", "", False),
        ("others-desk", "other", True),
        ("unknown", "other", False),
        ("unknown", "unknown", True),
        ("unknown", "", False),
        ("owner", "mine", True),
        ("owner", "", True),
        ("desk", "mine", True),
        ("desk", "other", False),
        ("both", "both", False),
        ("other", "both", False),
        ("both", "other", False),
        ("both", "", False),
        ("owner", "both", True),
        ("mine", "both", True),
    ],
)
def test_right_to_erase_depends_on_the_device_and_the_owner(
    device: str, of: str, may: bool
) -> None:
    whose = {"other": "bob", "others-desk": "bob", "owner": "cat", "desk": "ann", "mine": "bob"}
    whose["both"] = "bob"
    rights = Rights(["mine", "before"], whose, group="ann", owner="cat", disputed=["both"])
    assert rights.may_erase(device, of) is may


def test_every_id_that_a_home_wrote_under_stays_known(world: World, ann: Forestay) -> None:
    first = ann.context.store.machine.device
    ann.backups.create()
    ann.close()
    database = Path(ann.context.settings.home) / "forestay.db"
    copy = database.read_bytes()
    database.rename(database.with_name("before.db"))  # as if the home had been copied
    database.write_bytes(copy)
    ann.session("login").note("after the copy")
    assert ann.context.store.machine.device != first
    assert ann.context.store.machine.devices() == {first, ann.context.store.machine.device}


# --- imported chains ----------------------------------------------------------------------------


def exported(world: World, stay: Forestay, name: str = "carried") -> str:
    path = str(world.folder / f"{name}.fspack")
    stay.session("login").export(path)
    return path


def test_imported_chain_is_pushed_with_an_unknown_author(world: World, ann: Forestay) -> None:
    """The author may be a lost machine, so the importer pushes it under their name."""
    path, device = exported(world, ann), ann.context.store.machine.device
    cat, bob = world.person("cat"), world.person("bob")
    cat.backups.import_(path)
    cat.session("login").note("goes on")
    assert synced(cat).up == 3
    cat.shares.add("login", person_of(bob))
    desk = world.device("desk", by=cat)
    for stay in (bob, desk):
        assert synced(stay).problems == []
        assert notes(stay, "login") == ["precious", "goes on"]
    for stay in (cat, desk):
        assert stay.context.store.machine.remotes.owners("login") == {
            cat.context.store.machine.device: identity(cat.context).group.id
        }
        assert stay.context.store.machine.remotes.persons() == {device: "unknown, imported"}
        assert not stay.context.journal.rights("login").may_erase(
            device, cat.context.store.machine.device
        )
    assert bob.context.store.machine.remotes.persons()[device].startswith("unknown, imported by ")


def test_chain_of_a_member_that_the_owner_imported_belongs_to_the_member(
    world: World, ann: Forestay
) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    bob.session("login").note("on the train")
    ann.backups.import_(exported(world, bob))
    assert synced(ann).up == 1
    bob.session("login").note("at home")
    report = synced(bob)
    assert (report.problems, report.waiting) == ([], 0)
    assert synced(ann).problems == []
    assert notes(ann, "login") == ["precious", "on the train", "at home"]
    assert (
        ann.context.store.machine.remotes.owners("login")[bob.context.store.machine.device]
        == identity(bob.context).group.id
    )
    assert (
        ann.context.store.machine.remotes.persons()[bob.context.store.machine.device]
        != "unknown, imported"
    )
    blank = world.device("blank", by=ann)
    assert synced(blank).problems == []
    assert notes(blank, "login") == ["precious", "on the train", "at home"]


@pytest.mark.parametrize("how", ["syncs", "pulls first", "dies"])
def test_imported_chain_belongs_to_its_author_after_the_author_syncs(
    world: World, ann: Forestay, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both packs are of the same range; which is which does not show from their names."""
    every = [f"s{number}" for number in range(7)]
    desk = world.device("desk", by=ann)
    for one in every:
        path = str(world.folder / f"{one}.fspack")
        desk.start(one, id=one).export(path)
        ann.backups.import_(path)
    device = desk.context.store.machine.device
    assert synced(ann).problems == []
    assert ann.context.store.machine.remotes.persons() == {device: "unknown, imported"}
    with monkeypatch.context() as patched:
        if how == "dies":
            patched.setattr(PackReplacement, "merge_small_packs", lambda _: None)
        if how == "pulls first":
            desk.remotes.pull()
        assert synced(desk).problems == []
    assert synced(desk).problems == []
    desk.session("s0").note("on it")
    assert synced(desk).problems == []
    blank = world.device("blank", by=ann)
    for stay in (ann, blank):
        assert synced(stay).problems == []
        assert stay.context.store.machine.remotes.persons() == {}
        mine = identity(stay.context).group.id
        assert [stay.context.store.machine.remotes.owners(one)[device] for one in every] == [
            mine
        ] * len(every)


def test_member_cannot_push_a_chain_as_imported(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    bob.session("login").note("mine")
    real = SessionKeys.seal

    def as_imported(self: SessionKeys, *given: Any, **how: Any) -> tuple[str, bytes]:
        return real(self, *given, **{**how, "imported": True})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionKeys, "seal", as_imported)
        synced(bob)
    assert [type(one.error) for one in synced(ann).problems] == [Tampered]


def test_events_under_the_id_before_a_copy_are_pushed_as_our_own(
    world: World, ann: Forestay
) -> None:
    first = ann.context.store.machine.device
    ann.close()
    database = Path(ann.context.settings.home) / "forestay.db"
    copy = database.read_bytes()
    database.rename(database.with_name("before.db"))
    database.write_bytes(copy)
    ann.session("login").note("after the copy")
    synced(ann)
    mine = identity(ann.context).group.id
    assert ann.context.store.machine.remotes.owners("login") == {
        first: mine,
        ann.context.store.machine.device: mine,
    }


# --- imported, then shared ----------------------------------------------------------------------


def imported_by_bob(world: World, ann: Forestay) -> Forestay:
    bob = world.person("bob")
    bob.backups.import_(exported(world, ann))
    synced(bob)  # to a separate place
    return bob


def test_imported_session_that_is_shared_later_becomes_one_session(
    world: World, ann: Forestay
) -> None:
    synced(ann)
    bob = imported_by_bob(world, ann)
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    ann.session("login").note("later")
    synced(ann)
    assert synced(bob).problems == []
    assert notes(bob, "login") == ["precious", "later"]
    bob.session("login").note("and on")
    report = synced(bob)
    assert (report.problems, report.up, report.waiting) == ([], 1, 0)
    synced(ann)
    assert notes(ann, "login") == ["precious", "later", "and on"]
    own = object_names.place(identity(bob.context).group.name_key, "login")
    assert not list((world.remote / "s" / own).rglob("*-*"))
    assert bob.context.store.machine.remotes.owner("login") == identity(ann.context).group.id


def test_events_added_to_an_imported_session_are_shared_only_on_request(
    world: World, ann: Forestay
) -> None:
    synced(ann)
    bob = imported_by_bob(world, ann)
    bob.session("login").note("for my eyes")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    (problem,) = synced(bob).problems
    assert isinstance(problem.error, Swapped) and "--join login" in problem.error.hint
    synced(ann)
    assert notes(ann, "login") == ["precious"]
    assert [one.worst for one in bob.remotes.pull(join=["login"])] == [None]
    assert synced(bob).problems == []
    synced(ann)
    assert notes(ann, "login") == ["precious", "for my eyes"]


def test_sharing_a_copy_does_not_change_the_owner_of_a_session(world: World, ann: Forestay) -> None:
    """A person with a copy can push it elsewhere and share that with the owner."""
    path, eve = exported(world, ann), world.person("eve")
    eve.backups.import_(path)
    eve.shares.add("login", person_of(ann), mode=key_ring.CONTINUE)
    synced(eve)
    assert [type(one.error) for one in synced(ann).problems] == [Swapped]
    assert [type(one.worst) for one in ann.remotes.pull(join=["login"])] == [Swapped]
    assert ann.context.store.machine.remotes.owner("login") == identity(ann.context).group.id


# --- a remote that was never synced -------------------------------------------------------------


def test_a_first_sync_that_fails_does_not_make_a_remote_known(
    world: World, ann: Forestay, tmp_path: Path
) -> None:
    (usb,) = ann.context.store.machine.remotes.all()
    ann.context.store.machine.remotes.remove(usb)
    ann.context.store.machine.remotes.add("late", f"folder:{tmp_path}/not/there", "", 1)
    with pytest.raises(Unreachable):
        synced(ann)
    (late,) = ann.context.store.machine.remotes.all()
    assert (late.synced, late.result) == (0, "failed")
    (tmp_path / "not").mkdir()
    report = synced(ann)
    assert (report.problems, report.up) == ([], 2)
    with_mark = ann.context.store.machine.remotes.all()[0]
    assert with_mark.synced and with_mark.result == "done"


# --- what a file can do -------------------------------------------------------------------------


def under_the_id_of(world: World, name: str, device: str) -> Forestay:
    """Return a home that writes under an id of another one."""
    stay = next(one for one in world.homes if one.context.settings.home == str(world.folder / name))
    stay.close()
    with sqlite3.connect(world.folder / name / "forestay.db") as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'device'", (device,))
    connection.close()
    again = Forestay(stay.context.settings, cwd=str(world.folder))
    world.homes.append(again)
    assert again.context.store.machine.device == device
    return again


def test_tombstone_under_our_id_in_a_file_erases_nothing(world: World, ann: Forestay) -> None:
    from forestay.health.rebuild import Rebuild

    world.person("bob").backups.import_(exported(world, ann))
    bob = under_the_id_of(world, "bob", ann.context.store.machine.device)
    forget(bob, "precious")
    path = exported(world, bob, "forged")
    with pytest.raises(Refused):
        ann.backups.import_(path)
    (taken,) = ann.backups.restore(path).sessions  # restoring it erases nothing either
    assert (taken.new, taken.kept) == (1, 1) and holds(ann)
    desk = world.device("desk", by=ann)
    (problem,) = synced(ann).problems
    assert isinstance(problem.error, NotEntitled) and "restore FILE" in problem.error.hint
    synced(desk)
    assert not desk.context.store.catalogue() or holds(desk)
    ann.backups.create()
    ann.close()
    Rebuild(ann.context.store, ann.context.settings, clock=ann.context.clock).run()
    assert holds(ann)


def test_events_of_a_member_under_our_id_are_not_ours(world: World, ann: Forestay) -> None:
    desk, bob = world.device("desk", by=ann), world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    synced(desk)
    bob = under_the_id_of(world, "bob", desk.context.store.machine.device)
    forget(bob, "precious")
    synced(bob)
    for stay in (desk, ann):
        assert synced(stay).problems == []
        assert holds(stay)


def test_event_that_a_member_forgot_under_our_id_is_erased_when_we_forget_it(
    world: World, ann: Forestay
) -> None:
    desk, bob = world.device("desk", by=ann), world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    for stay in (bob, desk):
        synced(stay)
    bob = under_the_id_of(world, "bob", desk.context.store.machine.device)
    forget(bob, "precious")
    for stay in (bob, desk):
        assert synced(stay).problems == []
    assert holds(desk)
    forget(desk, "precious")
    for stay in (desk, ann):
        assert synced(stay).problems == []
        assert not holds(stay)
    with desk.context.store.view("login") as view:
        length, gone = view.seq, [one.seq for one in view.events() if one.data is None]
    health_forget.forget_events(desk.context, "login", [str(seq) for seq in gone], actor="user")
    with desk.context.store.view("login") as view:
        assert view.seq == length


def test_content_missing_in_a_file_is_pulled_from_a_device_that_has_it(
    world: World, ann: Forestay
) -> None:
    desk, bob = world.device("desk", by=ann), world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(desk)
    desk.session("login").note("from the desk")
    bob.backups.import_(exported(world, desk))
    forget(bob, "from the desk")
    ann.backups.import_(exported(world, bob, "without"))
    assert not holds(ann, "from the desk")
    ann.backups.create()
    assert not backup.is_behind(ann.context.store, ann.backups.folder)
    synced(desk)
    assert synced(ann).problems == []
    assert holds(ann, "from the desk") and ann.context.journal.verify("login").ok
    part = backup.backup_if_due(
        ann.context.store, ann.backups.folder, clock=ann.context.clock, keep=3
    )
    assert part is not None and not part.full
    restored = world.home("restored")
    restored.backups.restore(part.path)
    assert holds(restored, "from the desk")
    assert ann.search("from the desk")
    cat = world.device("cat", by=ann)
    assert synced(cat).problems == [] and holds(cat, "from the desk")


def test_imported_tombstone_is_applied_once_its_author_pushes_it(
    world: World, ann: Forestay
) -> None:
    desk = world.device("desk", by=ann)
    synced(ann)
    synced(desk)
    forget(desk, "precious")
    (taken,) = ann.backups.import_(exported(world, desk)).sessions
    assert taken.kept == 1 and holds(ann)
    synced(desk)
    assert synced(ann).problems == [] and not holds(ann)


def test_importer_cannot_append_to_a_chain_after_its_author_signed(
    world: World, ann: Forestay
) -> None:
    """To the members, the owner of a session is another person, too."""
    bob, cat = world.person("bob"), world.person("cat")
    for one in (bob, cat):
        ann.shares.add("login", person_of(one), mode=key_ring.CONTINUE)
    synced(bob)
    bob.session("login").note("on the train")
    ann.backups.import_(exported(world, bob))
    synced(ann)
    bob.session("login").note("at home")
    assert synced(bob).up == 2  # all of it, signed
    world.device("fake", by=ann)
    synced(ann)
    fake = under_the_id_of(world, "fake", bob.context.store.machine.device)
    synced(fake)
    fake = under_the_id_of(world, "fake", bob.context.store.machine.device)
    fake.session("login").note("never said")
    real = SessionKeys.seal

    def as_imported(self: SessionKeys, *given: Any, **how: Any) -> tuple[str, bytes]:
        return real(self, *given, **{**how, "imported": True})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionKeys, "seal", as_imported)
        patch.setattr("forestay.sync.session.Exchange.is_ours", lambda *_: True)
        patch.setattr("forestay.sync.session.Exchange.is_parallel", lambda *_: False)
        assert synced(fake).up >= 1
    for stay in (cat, bob):
        assert [type(one.error) for one in synced(stay).problems] == [Tampered]
    assert notes(bob, "login") == ["precious", "on the train", "at home"]


def test_imported_forged_chain_does_not_hide_events_of_its_real_author(
    world: World, ann: Forestay
) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    world.person("eve").backups.import_(exported(world, bob))
    eve = under_the_id_of(world, "eve", bob.context.store.machine.device)
    eve.session("login").note("made up")
    ann.backups.import_(exported(world, eve, "forged"))
    synced(ann)
    bob.session("login").note("true")
    for stay in (bob, ann, bob):
        assert synced(stay).problems == []
    for stay in (bob, ann, world.device("desk", by=ann)):
        synced(stay)
        assert "true" in notes(stay, "login")
    assert bob.remotes.unpushed() == 0


def test_file_with_only_a_tombstone_does_not_block_a_session(world: World, ann: Forestay) -> None:
    eve, bob = world.person("eve"), world.person("bob")
    eve.start("Not yours", id="login")
    path = exported(world, eve)
    eve.session("login").lifecycle.forget()
    stone = b"".join(backup.export(eve.context.journal, "login", clock=eve.context.clock).chunks)
    Path(path).write_bytes(stone)
    (taken,) = bob.backups.import_(path).sessions
    assert taken.new == 0 and "forgotten" in taken.why
    ann.shares.add("login", person_of(bob))
    assert synced(bob).problems == []
    assert notes(bob, "login") == ["precious"]


# --- another person uses an id of ours ----------------------------------------------------------


def forestalled(world: World, ann: Forestay, victim: Forestay) -> Forestay:
    """A member pushes events under the id of a device that was offline."""
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    synced(victim)
    victim.session("login").note("worked apart")
    bob = under_the_id_of(world, "bob", victim.context.store.machine.device)
    bob.session("login").note("made up")
    assert synced(bob).problems == []
    return bob


ALL = ["goes on", "made up", "precious", "worked apart"]


def test_events_under_an_id_that_another_person_uses_reach_all_devices(
    world: World, ann: Forestay
) -> None:
    """Without them, no other device could accept the later events of the device."""
    desk = world.device("desk", by=ann)
    bob, taken = forestalled(world, ann, desk), desk.context.store.machine.device
    report = synced(desk)
    assert (report.problems, report.up, report.waiting) == ([], 1, 0)
    (reported,) = report.sessions[0].noticed
    assert isinstance(reported, Tampered) and "share remove login" in reported.hint
    assert identity(bob.context).group.fingerprint in reported.why
    desk.session("login").note("goes on")
    assert (synced(desk).worst, desk.context.store.machine.device != taken) == (None, True)
    for stay in (ann, world.device("blank", by=ann)):
        report = synced(stay)
        assert (report.worst, report.sessions[0].loose) == (None, 0)
        assert sorted(notes(stay, "login")) == ALL
        assert stay.context.journal.verify("login").ok
        assert stay.context.store.machine.remotes.persons()[taken] == "unknown (id used by two)"
        assert (
            stay.context.store.machine.remotes.owners("login")[taken]
            == identity(bob.context).group.id
        )
    for stay in (ann, desk, ann):
        assert synced(stay).worst is None


def test_interrupted_push_of_a_parallel_branch_is_pulled_in_parts(
    world: World, ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forestay.sync.pack_builder.MOST_EVENTS", 1)
    desk = world.device("desk", by=ann)
    forestalled(world, ann, desk)
    before = world.files("p")
    desk.session("login").note("goes on")  # under the same id
    assert synced(desk).up == 2
    first, second = sorted(path for path in world.files("p") if path not in before)
    assert ("-000000000001-" in first, "-000000000002-" in second) == (True, True)
    for path in (first, second):
        data = Path(path).read_bytes()
        Path(path).unlink()
        blank = world.device(f"without-{'first' if path == first else 'second'}", by=ann)
        synced(blank)
        assert "goes on" not in notes(blank, "login")
        Path(path).write_bytes(data)
        assert synced(blank).worst is None
        assert sorted(notes(blank, "login")) == ALL


def test_disputed_id_may_not_erase(world: World, ann: Forestay) -> None:
    desk = world.device("desk", by=ann)
    bob = forestalled(world, ann, desk)
    for stay in (desk, ann, bob):
        synced(stay)
    bob.backups.restore(exported(world, ann, "all"))
    forget(bob, "worked apart")
    synced(bob)
    laptop = world.device("laptop", by=ann)
    for stay in (ann, desk, laptop):
        synced(stay)
        assert holds(stay, "worked apart")
    ann.backups.create()
    assert holds(rebuilt(world, ann, "rebuilt"), "worked apart")
    forget(ann, "made up")  # the owner of the session may
    for stay in (ann, desk, laptop, ann):
        assert synced(stay).problems == []
        assert not holds(stay, "made up")


def test_member_gets_an_error_if_another_person_holds_their_id(world: World, ann: Forestay) -> None:
    cat = world.person("cat")
    ann.shares.add("login", person_of(cat), mode=key_ring.CONTINUE)
    forestalled(world, ann, cat)
    (problem,) = synced(cat).problems
    assert isinstance(problem.error, Tampered) and "export FILE" in problem.error.hint
    cat.session("login").note("goes on")
    assert synced(cat).up == 1  # under another id
    synced(ann)
    assert sorted(notes(ann, "login")) == ["made up", "precious"]  # the rest waits
    ann.backups.import_(exported(world, cat))
    assert synced(ann).problems == []
    assert sorted(notes(ann, "login")) == ALL


def test_events_of_others_under_our_id_are_never_signed_by_us(world: World, ann: Forestay) -> None:
    desk = world.device("desk", by=ann)
    forestalled(world, ann, desk)
    chain = desk.context.store.machine.device
    synced(desk)
    for folder, stay in (("two", desk), ("two", world.device("laptop", by=ann))):
        (usb,) = stay.context.store.machine.remotes.all()
        if stay is not desk:
            stay.context.store.machine.remotes.remove(usb)
        stay.context.store.machine.remotes.add(folder, f"folder:{world.folder / folder}", "", 1)
    laptop = world.homes[-1]
    assert [one.worst for one in desk.remotes.sync()] == [None, None]
    report = synced(laptop)
    assert (report.worst, report.sessions[0].loose) == (None, 0)
    assert sorted(notes(laptop, "login")) == ["made up", "precious", "worked apart"]
    assert laptop.context.store.machine.remotes.persons()[chain] == "unknown (id used by two)"
    assert not laptop.context.journal.rights("login").may_erase(chain, chain)
    desk.session("login").note("goes on")
    desk.remotes.sync()
    assert synced(laptop).worst is None and "goes on" in notes(laptop, "login")


def test_member_does_not_sign_events_of_others_under_their_id(world: World, ann: Forestay) -> None:
    cat = world.person("cat")
    ann.shares.add("login", person_of(cat), mode=key_ring.CONTINUE)
    forestalled(world, ann, cat)
    synced(cat)
    for stay in (ann, cat):
        stay.context.store.machine.remotes.add("two", f"folder:{world.folder / 'two'}", "", 1)
    ann.shares.add("login", person_of(cat), mode=key_ring.CONTINUE)  # there too
    (report,) = cat.remotes.sync("two")
    assert report.up == 1 and report.waiting == 1
    (there,) = ann.remotes.pull("two")
    assert (there.worst, sorted(notes(ann, "login"))) == (None, ALL[1:])
    packs = [path for path in (world.folder / "two").rglob("*") if "/p/" in str(path)]
    assert sum(path.is_file() for path in packs) == 2


def test_forgotten_events_stay_erased_after_a_restore_on_another_machine(
    world: World,
) -> None:
    """The remote still has the event: only the backup has the tombstone."""
    lost = world.home("lost")
    code = lost.devices.keys.init().recovery
    lost.start("Add login", id="login").note("a slip")
    synced(lost)
    forget(lost, "a slip")
    lost.session("login").note("the last word")
    saved = lost.backups.create(str(world.folder / "saved")).path
    lost.close()
    blank = world.home("blank")
    blank.backups.restore(saved)
    blank.devices.keys.recover(code)
    assert synced(blank).problems == []
    desk = world.device("desk", by=blank)
    for stay in (desk, blank):
        assert synced(stay).problems == []
        assert holds(stay, "the last word") and not holds(stay, "a slip")


def test_events_in_a_file_under_our_id_are_not_pushed_unless_confirmed(
    world: World, ann: Forestay
) -> None:
    synced(ann)
    world.person("bob").backups.import_(exported(world, ann))
    bob = under_the_id_of(world, "bob", ann.context.store.machine.device)
    bob.session("login").note("never said by ann")
    path = exported(world, bob, "forged")
    with pytest.raises(Refused, match="with the id of this device") as refused:
        ann.backups.import_(path)
    assert "forestay backup restore FILE" in refused.value.hint
    # Her next event would follow it, and no other device could accept that.
    ann.session("login").note("goes on")
    desk = world.device("desk", by=ann)
    for stay in (ann, desk):
        assert synced(stay).problems == []
    assert notes(desk, "login") == ["precious", "goes on"]
    ann.backups.restore(path)  # confirms that the events are hers
    assert synced(ann).problems == []
    assert ann.remotes.unpushed() == 0


def test_importing_an_own_export_again_leaves_events_confirmed(world: World, ann: Forestay) -> None:
    ann.session("login").note("a slip")
    forget(ann, "a slip")
    ann.backups.import_(exported(world, ann))
    assert ann.context.store.machine.remotes.unconfirmed() == set()
    assert synced(ann).problems == []


def test_new_name_of_a_device_is_used_at_once(world: World, ann: Forestay) -> None:
    desk = world.device("desk", by=ann)
    for stay in (ann, desk):
        synced(stay)
    desk.session("login").note("at the desk")
    for stay in (desk, ann):
        synced(stay)
    chain = desk.context.store.machine.device

    def names(stay: Forestay) -> dict[str, str]:
        return stay.context.store.machine.remotes.names()

    was, mine = identity(desk.context).name, identity(ann.context).name
    assert (names(ann)[chain], names(desk)[ann.context.store.machine.device]) == (was, mine)
    ann.devices.rename(was, "kitchen")
    assert names(ann)[chain] == "kitchen"
    ann.devices.rename(mine, was)  # its name is free now
    for stay in (ann, desk):
        synced(stay)
    assert names(ann)[chain] == "kitchen"
    assert names(desk)[ann.context.store.machine.device] == was
