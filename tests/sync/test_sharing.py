"""Sharing and losing: what persons and devices can read and write, over a real folder remote."""

from __future__ import annotations

from pathlib import Path

import pytest

from forestay.api.forestay import Forestay
from forestay.errors import InvalidInput, Locked, NotEntitled, Refused
from forestay.store.machine.remotes import UNSHARE
from forestay.sync import keychain
from forestay.sync.crypto import key_ring
from forestay.sync.device_list import identity
from forestay.sync.remotes import object_names
from tests.sync.people import World, notes, person_of, synced


@pytest.fixture
def ann(world: World) -> Forestay:
    stay = world.person("ann")
    stay.start("Add login", id="login").note("canary one")
    return stay


# --- lost and revoked devices -------------------------------------------------------------------


def test_losing_one_device_loses_no_pushed_event(world: World, ann: Forestay) -> None:
    desk = world.device("desk", by=ann)
    synced(ann)
    ann.close()
    # The desk never saw the session before the laptop was lost and revoked.
    desk.devices.revoke(ann.devices.keys.show().id)
    synced(desk)
    assert notes(desk, "login") == ["canary one"]


def test_losing_all_but_the_recovery_code_loses_no_pushed_event(world: World) -> None:
    first = world.home("first")
    code = first.devices.keys.init().recovery
    first.start("Add login", id="login").note("canary one")
    synced(first)
    blank = world.home("blank")
    blank.devices.keys.recover(code)
    synced(blank)
    assert notes(blank, "login") == ["canary one"]
    blank.session("login").note("and on")
    assert synced(blank).up == 1


def test_revoked_device_reads_no_later_event(world: World, ann: Forestay) -> None:
    desk = world.device("desk", by=ann)
    synced(ann)
    synced(desk)
    assert notes(desk, "login") == ["canary one"]
    ann.devices.revoke(desk.devices.keys.show().id)
    ann.session("login").note("canary two")
    synced(ann)
    report = synced(desk)
    assert notes(desk, "login") == ["canary one"]
    (reported,) = report.problems
    assert isinstance(reported.error, Locked) and "this device was revoked" in reported.error.why
    assert "forestay device add --new-key" in reported.error.hint, "before anything is deleted"


def test_packs_of_a_revoked_device_are_refused(world: World, ann: Forestay) -> None:
    desk = world.device("desk", by=ann)
    synced(ann)
    synced(desk)
    ann.devices.revoke(desk.devices.keys.show().id)
    ann.session("login").note("later")
    before = world.files("s")
    synced(ann)
    # A storage that helps it shows it the session as it was before.
    aside = world.folder / "aside"
    aside.mkdir()
    hidden = world.files("s").keys() - before.keys()
    for path in hidden:
        Path(path).rename(aside / Path(path).name)
    desk.session("login").note("forged")
    assert synced(desk).up == 1
    for path in hidden:
        (aside / Path(path).name).rename(path)
    report = synced(ann)
    assert notes(ann, "login") == ["canary one", "later"]
    assert type(report.worst) is NotEntitled


def test_keys_of_a_revoked_device_add_no_member(world: World, ann: Forestay) -> None:
    desk, mallory = world.device("desk", by=ann), world.person("mallory")
    synced(ann)
    (held,) = world.files("k").items()
    key, group = keychain.own(desk.context)
    ring = key_ring.judged(key_ring.opened(held[1], group), group)
    ann.devices.revoke(key.id)
    ann.session("login").note("later")
    synced(ann)
    person = keychain.devices(mallory.context)[0].person
    change = key_ring.share(ring, person, mode="continue", made=9)
    for moment in range(9, 12):
        ring = key_ring.rotated(ring, key, made=moment, change=change)
    data = key_ring.encode(ring, key)
    Path(held[0]).parent.joinpath(f"{ring.epoch:06d}-{object_names.hash_of(data)}").write_bytes(
        data
    )
    ann.session("login").note("canary two")
    synced(ann)
    assert ann.shares.list("login").members == []
    synced(mallory)
    assert mallory.list(all=True) == []


def test_two_revocations_at_once_are_followed_by_keys_that_neither_has(
    world: World, ann: Forestay
) -> None:
    others = {name: world.device(name, by=ann) for name in ("desk", "tablet", "phone")}
    synced(ann)
    synced(others["desk"])
    (known,) = ann.context.store.machine.remotes.all()
    ann.context.store.machine.remotes.remove(known)
    ann.devices.revoke(others["tablet"].devices.keys.show().id)
    others["desk"].devices.revoke(others["phone"].devices.keys.show().id)
    ann.context.store.machine.remotes.add("usb", f"folder:{world.remote}", "", 1)
    synced(ann)
    group, _ = keychain.devices(ann.context)
    assert not group.stale and group.epoch.number == 3
    assert [one.active for one in group.devices()] == [True, True, False, False]


def test_rotation_rewrites_no_pack(world: World, ann: Forestay) -> None:
    synced(ann)
    packs = world.files("p")
    ann.devices.keys.rotate()
    ann.session("login").note("canary two")
    synced(ann)
    after = world.files("p")
    assert packs.items() <= after.items() and len(after) == len(packs) + 1
    assert len(world.files("k")) == 2
    desk = world.device("desk", by=ann)
    synced(desk)
    assert notes(desk, "login") == ["canary one", "canary two"]


def test_copied_home_reads_until_it_is_revoked(world: World, ann: Forestay) -> None:
    synced(ann)
    import shutil

    shutil.copytree(world.folder / "ann" / "keys", world.folder / "thief" / "keys")
    thief = world.home("thief")
    synced(thief)
    assert notes(thief, "login") == ["canary one"]
    desk = world.device("desk", by=ann)
    synced(desk)
    desk.devices.revoke(ann.devices.keys.show().id)
    desk.session("login").note("canary two")
    synced(desk)
    synced(thief)
    assert notes(thief, "login") == ["canary one"]


# --- persons ------------------------------------------------------------------------------------


def test_reader_reads_a_shared_session_and_cannot_add_to_it(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    synced(bob)
    ann.start("Private", id="private").note("canary private")
    synced(ann)
    shared = ann.shares.add("login", person_of(bob), email="bob@example.org")
    assert [(one.email, one.mode) for one in shared.members] == [("bob@example.org", "read")]
    synced(bob)
    assert notes(bob, "login") == ["canary one"]
    assert [one.session for one in bob.list(all=True)] == ["login"]
    for count in (1, 2):
        bob.session("login").note("from bob")
        report = synced(bob)
        assert report.problems == [] and [one.stay for one in report.sessions] == [count]
    synced(ann)
    assert notes(ann, "login") == ["canary one"]


def test_person_continues_a_shared_session_and_both_have_it(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode="continue", email="bob@example.org")
    synced(bob)
    bob.session("login").note("from bob")
    synced(bob)
    ann.session("login").note("canary two")
    synced(ann)
    synced(bob)
    assert sorted(notes(ann, "login")) == sorted(notes(bob, "login"))
    assert set(notes(ann, "login")) == {"canary one", "from bob", "canary two"}
    # Bob's second device takes part, too: the others learn of it.
    tablet = world.device("tablet", by=bob)
    synced(tablet)
    tablet.session("login").note("from the tablet")
    synced(tablet)
    synced(ann)
    assert "from the tablet" in notes(ann, "login")


@pytest.fixture
def pair(world: World, ann: Forestay) -> tuple[Forestay, Forestay]:
    """Ann's session, which Bob continues: each wrote a note that the other has."""
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode="continue")
    synced(bob)
    bob.session("login").note("from bob")
    for one in (bob, ann):
        synced(one)
    return ann, bob


def number(stay: Forestay, text: str) -> int:
    lines = stay.session("login").log()
    return next(line.event.seq for line in lines if text in str(line.event.body))


def test_persons_erase_their_own_events_for_everyone(pair: tuple[Forestay, Forestay]) -> None:
    ann, bob = pair
    bob.session("login").lifecycle.forget(number(bob, "from bob"))
    ann.session("login").lifecycle.forget(number(ann, "canary one"))
    for one in (bob, ann, bob):
        assert synced(one).problems == []
    assert notes(ann, "login") == notes(bob, "login") == []
    assert all(one.session("login").verify().ok for one in pair)


def test_member_erases_events_of_the_owner_only_in_their_own_copy(
    world: World, pair: tuple[Forestay, Forestay]
) -> None:
    ann, bob = pair
    bob.session("login").lifecycle.forget(number(bob, "canary one"))
    for one in (bob, ann, bob):
        assert synced(one).problems == []
    assert "canary one" in notes(ann, "login") and "canary one" not in notes(bob, "login")
    ann.session("login").lifecycle.forget(number(ann, "from bob"))
    for one in (ann, bob):
        assert synced(one).problems == []
    assert "from bob" not in notes(bob, "login")


def test_event_that_a_member_forgot_first_is_erased_for_all_by_the_owner(
    world: World, pair: tuple[Forestay, Forestay]
) -> None:
    ann, bob = pair
    seq = number(ann, "canary one")
    bob.session("login").lifecycle.forget(number(bob, "canary one"))
    for one in (bob, ann):
        assert synced(one).problems == []
    erased = [ann.session("login").lifecycle.forget(seq).events for _ in range(2)]
    assert [len(events) for events in erased] == [1, 0]
    assert synced(ann).problems == []
    desk = world.device("desk", by=ann)
    synced(ann)
    assert synced(desk).problems == []
    with desk.context.store.view("login") as view:
        assert [stored.data for stored in view.events() if stored.seq == seq] == [None]
    assert desk.session("login").verify().ok


def test_member_who_forgets_a_session_forgets_only_their_copy(
    pair: tuple[Forestay, Forestay],
) -> None:
    ann, bob = pair
    bob.session("login").lifecycle.forget()
    for one in (bob, ann):
        assert synced(one).problems == []
    assert notes(ann, "login") == ["canary one", "from bob"]
    ann.session("login").note("canary two")
    for one in (ann, bob, ann):
        assert synced(one).problems == []
    assert bob.context.store.catalogue() == []
    with bob.context.store.view("login") as view:
        assert all(stored.data is None for stored in view.events())
    assert ann.session("login").verify().ok


def test_removed_person_retains_old_events_and_reads_no_new_ones(
    world: World, ann: Forestay
) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode="continue", email="bob@example.org")
    synced(bob)
    bob.session("login").note("from bob")
    synced(bob)
    assert ann.shares.remove("login", "BOB@example.org").members == []
    ann.session("login").note("canary two")
    synced(ann)
    for reported in ([True], [False]):
        bob.session("login").note("alone")
        report = synced(bob)
        assert report.problems == [] and [one.ended for one in report.sessions] == reported
    assert notes(bob, "login") == ["canary one", "from bob", "alone", "alone"]
    assert notes(ann, "login") == ["canary one", "from bob", "canary two"]
    ann.shares.add("login", person_of(bob))
    assert synced(bob).problems == [] and "canary two" in notes(bob, "login")
    # A later device of ann's still accepts what bob wrote while he was allowed to.
    desk = world.device("desk", by=ann)
    synced(desk)
    assert set(notes(desk, "login")) == {"canary one", "from bob", "canary two"}


def test_changed_mode_retains_the_address_and_the_shown_fingerprint_names_the_person(
    world: World, ann: Forestay
) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), email="bob@example.org")
    (member,) = ann.shares.add("login", person_of(bob), mode="continue").members
    assert (member.email, member.mode) == ("bob@example.org", "continue")
    assert ann.shares.remove("login", str(bob.devices.keys.show().person_fingerprint)).members == []


def test_change_of_devices_creates_no_remote_without_the_stick(world: World, ann: Forestay) -> None:
    desk = world.device("desk", by=ann)
    synced(ann)
    world.remote.rename(world.folder / "unplugged")
    world.remote.mkdir()
    for changed in (ann.devices.keys.rotate(), ann.devices.revoke(desk.devices.keys.show().id)):
        assert [one.remote for one in changed.remotes if "plugged in" in (one.error or "")] == [
            "usb"
        ]
    assert [*world.remote.iterdir()] == []


def test_only_the_owner_shares(world: World, ann: Forestay) -> None:
    bob, carol = world.person("bob"), world.person("carol")
    ann.shares.add("login", person_of(bob), mode="continue")
    synced(bob)
    with pytest.raises(NotEntitled, match="another person"):
        bob.shares.add("login", person_of(carol))
    with pytest.raises(Refused, match="shared with its owner"):
        ann.shares.add("login", person_of(ann))
    with pytest.raises(InvalidInput, match="not shared with 'carol'"):
        ann.shares.remove("login", "carol")


def test_remote_has_no_readable_text_or_name(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode="continue", email="bob@example.org")
    synced(bob)
    words = [b"canary", b"login", b"Add login", b"bob@", b"ann's", b"SECRET"]
    for path in world.remote.rglob("*"):
        assert not any(word.decode() in str(path.relative_to(world.remote)) for word in words)
        data = path.read_bytes() if path.is_file() else b""
        assert not any(word in data for word in words), path


def test_shares_list_the_members(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    assert ann.shares.list("login").members == []
    ann.shares.add("login", person_of(bob), email="bob@example.org")
    assert [one.email for one in ann.shares.list("login").members] == ["bob@example.org"]
    known = keychain.devices(bob.context)[0]
    assert ann.shares.remove("login", known.fingerprint).members == []
    assert ann.devices.keys.rotate().epoch == 2


def test_member_cannot_remove_another_member_not_even_by_a_later_sync(
    world: World, ann: Forestay
) -> None:
    bob, cat = world.person("bob"), world.person("cat")
    for person in (bob, cat):
        ann.shares.add("login", person_of(person), mode=key_ring.CONTINUE)
    synced(bob)
    with pytest.raises(NotEntitled, match="belongs to another person") as caught:
        bob.shares.remove("login", identity(cat.context).group.fingerprint)
    assert "next sync" not in caught.value.hint
    (usb,) = bob.context.store.machine.remotes.all()
    assert UNSHARE not in bob.context.store.machine.remotes.notes(usb, "login")
