"""Attacks by persons who can write to a remote, know keys and sign their objects."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from forestay.api.forestay import Forestay
from forestay.cli.main import main
from forestay.errors import (
    Busy,
    InvalidInput,
    Locked,
    NotEntitled,
    RemoteFailed,
    Replayed,
    RolledBack,
    Swapped,
    Tampered,
    Truncated,
    Unreachable,
)
from forestay.health import forget
from forestay.model.event import ArtifactSaved
from forestay.sync.crypto import device_group, envelope, key_ring, key_text, keys, sealed_pack
from forestay.sync.crypto.signed_log import MOST, SignedStatement
from forestay.sync.device_list import identity
from forestay.sync.remotes import object_names
from forestay.sync.remotes.folder import FolderRemote
from forestay.sync.remotes.port import Object, Remote
from forestay.sync.run import Report, SyncOptions, visit
from forestay.sync.session_keys import Identity, SessionKeys
from tests.faulty_remotes import Wrapper
from tests.sync.people import World, notes, person_of, synced


def lure(world: World, by: Forestay, to: Forestay, session: str) -> str:
    """Upload a session under a chosen id, shared with a person who did not ask for it."""
    me, person = identity(by.context), key_text.read_person_key(person_of(to))
    ring = key_ring.new_ring(me.group, me.key, session, made=1)
    change = key_ring.share(ring, person, mode=key_ring.CONTINUE, made=1)
    put_ring(world, key_ring.rotated(ring, me.key, made=1, change=change), by)
    return ring.place


def put_ring(world: World, ring: key_ring.KeyRing, by: Forestay) -> None:
    data = key_ring.encode(ring, identity(by.context).key)
    FolderRemote(str(world.remote)).put(object_names.ring_name(ring.place, ring.epoch, data), data)


def errors(report: Report) -> list[type | None]:
    return [type(one.error) for one in report.problems]


# --- a session of the same id -------------------------------------------------------------------


@pytest.mark.parametrize("id", ["login", "LOGIN"])
def test_shared_session_under_our_id_does_not_replace_ours(
    world: World, ann: Forestay, id: str
) -> None:
    eve = world.person("eve")
    FolderRemote(str(world.remote)).put("forestay/format", object_names.MARK)
    place = lure(world, eve, ann, id)
    report = synced(ann)
    assert errors(report) == [Swapped]
    assert report.up == 2
    assert not list((world.remote / "s" / place).glob("p/*"))
    ann.session("login").note("more")
    assert synced(ann).up == 1


def test_two_shared_sessions_of_one_id_are_both_refused(world: World, ann: Forestay) -> None:
    synced(ann)
    for name in ("eve", "mal"):
        lure(world, world.person(name), ann, "other")
    report = synced(ann)
    assert errors(report) == [Swapped, Swapped]
    assert not ann.context.store.catalogue(where={"id": "other"})


def test_session_with_an_invalid_id_is_ignored(world: World, ann: Forestay) -> None:
    synced(ann)
    lure(world, world.person("eve"), ann, "../\x1b[2J")
    report = synced(ann)
    assert (report.problems, report.foreign) == ([], 1)


def test_session_of_another_own_device_under_a_shared_id_stays_on_the_remote(
    world: World, ann: Forestay
) -> None:
    desk, eve = world.device("desk", by=ann), world.person("eve")
    eve.start("Lure", id="login")
    eve.shares.add("login", person_of(ann))
    synced(desk)  # before it can know that there is a session of this id
    assert synced(ann).up == 2
    before = world.files("s")
    assert errors(synced(desk)) == [Swapped]
    assert world.files("s") == before
    ann.session("login").note("more")
    assert synced(ann).up == 1


# --- keys of someone else -----------------------------------------------------------------------


def ring_of(world: World, by: Forestay) -> tuple[key_ring.KeyRing, SessionKeys]:
    """Return the keys of the session as a home reads them."""
    remote = FolderRemote(str(world.remote))
    (known,) = by.context.store.machine.remotes.all()
    there = by.context.store.machine.remotes.session(known, "login")
    assert there is not None
    listed = {one.name: 0 for one in remote.list(f"s/{there.place}/")}
    keys_there = SessionKeys(
        identity(by.context), "login", listed, get=remote.get, place=there.place
    )
    return keys_there.ready(), keys_there


def usurped(world: World, by: Forestay) -> key_ring.KeyRing:
    """Return the keys of a shared session, forged so that it belongs to a member."""
    me = identity(by.context)
    held, _ = ring_of(world, by)
    text: list[SignedStatement[key_ring.KeyChange]] = []
    for turn in held.turns:
        mine = structs.replace(
            turn,
            owner=me.group.id,
            by=me.key.id,
            circle_key=me.group.current.recipient,
            seen=tuple(one.hash for one in text[-1:]),
            members=(key_ring.Member(held.owner.id, turn.circle_key, key_ring.CONTINUE),),
        )
        text.append(key_ring.STATEMENTS.sign(mine, me.key))
    return key_ring.KeyRing(text, held._secrets.values(), held.place_key, me.group)


def test_reader_who_uploads_keys_does_not_become_owner(world: World, ann: Forestay) -> None:
    bob, cat = world.person("bob"), world.person("cat")
    ann.shares.add("login", person_of(bob))
    ann.shares.add("login", person_of(cat))
    for stay in (bob, cat, ann):
        synced(stay)
    evil, remote = usurped(world, bob), FolderRemote(str(world.remote))
    for one in list(remote.list(f"s/{evil.place}/k/")):
        remote.delete(one.name)
    put_ring(world, evil, bob)
    seqs = [str(line.event.seq) for line in bob.session("login").log()]
    forget.forget_events(bob.context, "login", seqs[1:2], actor="user")
    assert errors(synced(bob)) == [Swapped]
    ann.session("login").note("not for them")
    report = synced(ann)
    assert (errors(report), report.up) == ([Swapped], 0)
    assert "precious" in notes(ann, "login")
    blank = world.device("ann2", by=ann)
    assert blank.context.store.catalogue() == []
    synced(blank)
    assert blank.context.store.catalogue() == []


def test_older_keys_under_a_newer_name_are_refused(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob))
    synced(bob)
    before = {Path(one) for one in world.files("k")}
    ann.shares.remove("login", identity(bob.context).group.id)
    synced(ann)
    newest, other = {Path(one) for one in world.files("k")} - before
    newest.unlink()
    other.unlink()
    old = max(before, key=lambda path: path.name)
    old.rename(old.with_name(newest.name[:6] + old.name[6:]))
    ann.session("login").note("not for bob")
    report = synced(ann)
    assert (errors(report), report.up) == ([Replayed], 0)
    synced(bob)
    assert notes(bob, "login") == ["precious"]


def test_name_of_unopened_keys_is_not_remembered(world: World, ann: Forestay) -> None:
    synced(ann)
    (path,) = map(Path, world.files("k"))
    named = path.rename(path.with_name("000009" + path.name[6:]))
    assert errors(synced(ann)) == [Replayed]
    named.rename(path)
    assert synced(ann).problems == []


def test_keys_that_do_not_open_end_no_share(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob))
    synced(bob)
    held, _ = ring_of(world, bob)
    junk = envelope.enclose("RING", b"{}", b"{}", keys.new_key(), [keys.new_key().recipient])
    name = object_names.ring_name(held.place, held.epoch + 5, junk)
    FolderRemote(str(world.remote)).put(name, junk)
    report = synced(bob)
    assert errors(report) == [Locked]
    assert not any(one.ended for one in report.sessions)
    FolderRemote(str(world.remote)).delete(name)
    assert synced(bob).problems == []
    ann.shares.remove("login", identity(bob.context).group.id)
    report = synced(bob)
    assert (report.problems, [one.ended for one in report.sessions]) == ([], [True])
    assert [one.ended for one in synced(bob).sessions] == [False]


def test_share_ends_despite_newer_keys_and_can_start_again(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob))
    synced(bob)
    ann.shares.remove("login", identity(bob.context).group.id)
    ann.devices.keys.rotate()
    ann.session("login").note("not for bob")
    synced(ann)
    assert [one.ended for one in synced(bob).sessions] == [True]
    assert notes(bob, "login") == ["precious"]
    ann.shares.add("login", person_of(bob))
    assert synced(bob).problems == []
    assert notes(bob, "login") == ["precious", "not for bob"]


def test_keys_that_were_shown_before_must_be_shown_again(world: World, ann: Forestay) -> None:
    desk = world.device("desk", by=ann)
    synced(ann)
    synced(desk)
    held, _ = ring_of(world, ann)
    me = identity(ann.context)
    remote = FolderRemote(str(world.remote))
    # A storage that has the help of one device shows the other device keys that never existed.
    other = key_ring.new_ring(me.group, me.key, "login", made=9)
    for one in list(remote.list(f"s/{held.place}/k/")):
        remote.delete(one.name)
    put_ring(world, other, ann)
    desk.session("login").note("not for them")
    report = synced(desk)
    assert (errors(report), report.up) == ([RolledBack], 0)


def test_interrupted_unshare_leaves_the_owner_with_keys_and_is_finished_by_the_next_sync(
    world: World, ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob))
    synced(bob)
    true, before = FolderRemote.put, world.files("k")

    def put(remote: FolderRemote, name: str, data: bytes) -> bool:
        if "/k/" in name and world.files("k").keys() - before.keys():
            raise Unreachable("the stick was pulled out")
        return true(remote, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(FolderRemote, "put", put)
        with pytest.raises(Unreachable):
            ann.shares.remove("login", identity(bob.context).group.id)
    assert errors(synced(bob)) == [Locked]
    ann.session("login").note("not for bob")
    assert synced(ann).problems == []
    assert [one.ended for one in synced(bob).sessions] == [True]
    assert "not for bob" not in notes(bob, "login")


# --- a revoked device ---------------------------------------------------------------------------


def removed(world: World, ann: Forestay) -> Forestay:
    """Return a laptop of the group that does not learn of its revocation."""
    laptop = world.device("laptop", by=ann)
    synced(ann)
    synced(laptop)
    ann.devices.revoke(identity(laptop.context).name)
    return laptop


def turned_by(world: World, thief: Identity, held: key_ring.KeyRing, to: Forestay) -> None:
    """Upload keys by which a device that has old ones adds a member."""
    person = key_text.read_person_key(person_of(to))
    change = key_ring.share(held, person, mode=key_ring.CONTINUE, made=1)
    turned = key_ring.rotated(held, thief.key, made=1, change=change)
    data = key_ring.encode(turned, thief.key)
    name = object_names.ring_name(turned.place, turned.epoch, data)
    FolderRemote(str(world.remote)).put(name, data)


def test_revoked_device_adds_no_member(world: World, ann: Forestay) -> None:
    laptop, eve = world.device("laptop", by=ann), world.person("eve")
    synced(ann)
    synced(laptop)
    thief, (held, _) = identity(laptop.context), ring_of(world, laptop)
    ann.devices.revoke(thief.name)
    turned_by(world, thief, held, eve)
    ann.session("login").note("not for eve")
    assert synced(ann).problems == []
    synced(eve)
    assert not eve.context.store.catalogue() or "not for eve" not in notes(eve, "login")
    assert ann.shares.list("login").members == []
    # The same again, later than the new keys.
    turned_by(world, thief, key_ring.rotated(held, thief.key, made=1), eve)
    ann.session("login").note("nor this")
    synced(ann)
    synced(eve)
    assert not eve.context.store.catalogue() or notes(eve, "login") == ["precious"]


def test_lost_device_adds_no_member_to_a_session_seen_for_the_first_time(
    world: World, ann: Forestay
) -> None:
    desk, bob = world.device("desk", by=ann), world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    bob.session("login").note("by bob")
    synced(bob)
    thief, eve, (held, _) = identity(ann.context), world.person("eve"), ring_of(world, ann)
    desk.devices.revoke(thief.name)  # it never saw the session
    turned_by(world, thief, held, eve)
    assert synced(desk).problems == []
    assert notes(desk, "login") == ["precious", "by bob"]
    desk.session("login").note("not for eve")
    assert synced(desk).problems == []
    synced(eve)
    assert not eve.context.store.catalogue() or "not for eve" not in notes(eve, "login")
    assert synced(desk).problems == []


@pytest.mark.parametrize("pull", [True, False])
def test_every_session_gets_new_keys_at_the_first_push_after_a_revocation(
    world: World, ann: Forestay, pull: bool
) -> None:
    ann.start("Old", id="old").note("precious too")
    laptop = removed(world, ann)
    (usb,) = ann.context.store.machine.remotes.all()
    assert visit(ann.context, usb, SyncOptions(pull=pull, patience=())).problems == []
    epochs = sorted(Path(one).name[:6] for one in world.files("k"))
    assert epochs == ["000001", "000001", "000002", "000002"]
    # The storage hides the revocation from the laptop.
    hidden = world.files("c")
    newer = {p: d for p, d in world.files("k").items() if Path(p).name.startswith("000002")}
    for path in (*hidden, *newer):
        Path(path).unlink()
    for one in ("login", "old"):
        forget.forget_events(laptop.context, one, [precious(laptop, one)], actor="user")
    synced(laptop)
    for path, data in (hidden | newer).items():
        Path(path).write_bytes(data)
    synced(ann)
    assert notes(ann, "login") == ["precious"] and notes(ann, "old") == ["precious too"]


def precious(stay: Forestay, session: str) -> str:
    """Return the number of the note `precious`."""
    events = (line.event for line in stay.session(session).log())
    return next(str(e.seq) for e in events if "precious" in getattr(e.body, "text", ""))


def test_sync_without_news_reads_only_the_format_object(world: World, ann: Forestay) -> None:
    ann.start("Old", id="old").note("too")
    removed(world, ann)
    synced(ann)
    counted = Counting(FolderRemote(str(world.remote)))
    (usb,) = ann.context.store.machine.remotes.all()
    assert visit(ann.context, usb, SyncOptions(patience=()), remote=counted).problems == []
    assert counted.got == ["forestay/format"]


class Counting(Wrapper):
    """A remote that remembers what was read."""

    def __init__(self, inner: Remote) -> None:
        super().__init__(inner)
        self.got: list[str] = []

    def get(self, name: str) -> bytes:
        self.got.append(name)
        return super().get(name)


def test_device_is_not_revoked_during_a_sync(
    world: World, ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = world.device("laptop", by=ann)
    synced(ann)
    synced(laptop)
    name = identity(laptop.context).name
    same = world.again("ann")
    monkeypatch.setattr("forestay.sync.lock.PATIENCE", 0.0)

    hints = []

    class Meanwhile(Wrapper):
        def list(self, prefix: str) -> Iterator[Object]:
            with pytest.raises(Busy, match="another sync of this home is running") as caught:
                same.devices.revoke(name)
            hints.append(caught.value.hint)
            with pytest.raises(Busy):
                same.devices.keys.rotate()
            return self.inner.list(prefix)

    (usb,) = ann.context.store.machine.remotes.all()
    before = identity(ann.context)
    there = Meanwhile(FolderRemote(str(world.remote)))
    assert visit(ann.context, usb, SyncOptions(patience=()), remote=there).problems == []
    assert len(hints) >= 2 and "try again" in hints[0]
    same.devices.revoke(name)
    same.session("login").note("not for the laptop")
    # The identity of this device was read before the revocation.
    report = visit(ann.context, usb, SyncOptions(patience=()), me=before)
    assert (report.problems, report.up) == ([], 1)
    synced(laptop)
    assert notes(laptop, "login") == ["precious"]


def test_member_is_removed_from_an_unreachable_remote_by_the_next_sync(
    world: World, ann: Forestay
) -> None:
    bob, cat = world.person("bob"), world.person("cat")
    other = world.folder / "other"
    for stay in (ann, bob, cat):
        stay.context.store.machine.remotes.add("zip", f"folder:{other}", "", 1)
    ann.shares.add("login", person_of(bob))
    ann.shares.add("login", person_of(cat))
    for known in bob.context.store.machine.remotes.all():
        visit(bob.context, known, SyncOptions(patience=()))
    other.rename(world.folder / "away")
    spread = ann.shares.remove("login", identity(bob.context).group.id).remotes
    assert [bool(one.error) for one in spread] == [False, True]
    (world.folder / "away").rename(other)
    zip = ann.context.store.machine.remotes.find("zip")
    assert zip is not None
    ann.session("login").note("not for bob")
    assert visit(ann.context, zip, SyncOptions(patience=())).problems == []
    assert not ann.context.store.machine.remotes.notes(zip, "login").get("unshare")
    for stay in (bob, cat):
        for known in stay.context.store.machine.remotes.all():
            visit(stay.context, known, SyncOptions(patience=()))
    assert "not for bob" not in notes(bob, "login")
    assert "not for bob" in notes(cat, "login")


@pytest.mark.parametrize(
    "line", [b"FORESTAY CIRCLE 2 ", b"FORESTAY CIRCLE 1 ", b"FORESTAY RING 1 "]
)
def test_invalid_group_object_does_not_stop_a_sync(
    world: World, ann: Forestay, line: bytes
) -> None:
    synced(ann)
    id = identity(ann.context).group.id
    data = line + id.encode() + b"\nsomething"
    FolderRemote(str(world.remote)).put(object_names.group_name(id, data), data)
    ann.session("login").note("goes on")
    report = synced(ann)
    assert (report.problems, report.up) == ([], 1)


def test_full_device_group_stops_no_sync_and_has_room_to_revoke(
    world: World, ann: Forestay
) -> None:
    desk, laptop = world.device("desk", by=ann), world.device("laptop", by=ann)
    synced(ann)
    synced(desk)
    me = identity(laptop.context)
    text = list(me.group.log.values())
    while len(text) < MOST:
        reported = device_group.Statement("blessed", me.key.id, 1, me.group.id, (text[-1].hash,))
        text.append(device_group.STATEMENTS.sign(reported, me.key))
    full = device_group.DeviceGroup(text)
    data = device_group._packed(full, me.key, identity(ann.context).group.recipients())
    FolderRemote(str(world.remote)).put(object_names.group_name(full.id, data), data)
    ann.session("login").note("goes on")
    for stay in (ann, desk):
        assert synced(stay).problems == []
        assert len(identity(stay.context).group.log) == MOST
    # There is always room to revoke the device that did it, and all devices learn of that.
    ann.devices.revoke(me.key.id)
    synced(ann)
    for stay in (ann, desk):
        assert synced(stay).problems == []
        assert not identity(stay.context).group.is_active(me.key.id)
        assert len(identity(stay.context).group.log) < MOST


# --- a former member ----------------------------------------------------------------------------


def test_pack_pushed_after_a_share_ended_is_not_accepted_by_the_next_key_change(
    world: World, ann: Forestay
) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    synced(ann)
    before = world.files("k")
    ann.shares.remove("login", identity(bob.context).group.id)
    hidden = {path: data for path, data in world.files("k").items() if path not in before}
    for path in hidden:
        Path(path).unlink()
    bob.session("login").note("too late")
    (usb,) = bob.context.store.machine.remotes.all()
    assert visit(bob.context, usb, SyncOptions(pull=False, patience=())).up == 1
    for path, data in hidden.items():
        Path(path).write_bytes(data)
    ann.session("login").note("on")
    ann.devices.keys.rotate()
    (usb,) = ann.context.store.machine.remotes.all()
    visit(ann.context, usb, SyncOptions(pull=False, patience=()))
    synced(ann)
    assert "too late" not in notes(ann, "login")
    blank = world.device("blank", by=ann)
    synced(blank)
    assert not blank.context.store.catalogue() or "too late" not in notes(blank, "login")


# --- packs that no other pack needs -------------------------------------------------------------


def put_pack(world: World, by: Forestay, device: str, body: bytes) -> str:
    """Upload a pack with any content, signed by a device that has the keys."""
    held, there = ring_of(world, by)
    claim = sealed_pack.Claim(
        session="login",
        device=device,
        first=1,
        last=1,
        before="",
        after="f" * 64,
        epoch=held.epoch,
        circle=there.me.group.id,
        signer=there.me.key.id,
        made=1,
    )
    data = sealed_pack.seal_pack(claim, body, there.me.key, held.current)
    name = object_names.pack_name(held.place, held.chain(device), 1, 1, data)
    FolderRemote(str(world.remote)).put(name, data)
    return name


def aside(report: Report) -> list[type]:
    return [type(error) for one in report.sessions for error in one.aside]


def test_refused_pack_is_skipped_and_reported_once(world: World, ann: Forestay) -> None:
    bob, cat = world.person("bob"), world.person("cat")
    ann.shares.add("login", person_of(bob))
    ann.shares.add("login", person_of(cat), mode=key_ring.CONTINUE)
    for stay in (bob, cat):
        synced(stay)
        synced(ann)
    put_pack(world, bob, "bobs", b"may only read")
    put_pack(world, cat, "cats", b"no pack at all")
    put_pack(world, cat, ann.context.store.machine.device, b"in the chain of ann")
    cat.session("login").note("sound")
    assert synced(cat).up == 1
    ann.session("login").note("goes on")
    report = synced(ann)
    assert (report.problems, report.up, report.down) == ([], 1, 1)
    assert sorted(one.__name__ for one in aside(report)) == ["NotEntitled", "Tampered", "Tampered"]
    assert isinstance(report.worst, NotEntitled | Tampered)
    counted = Counting(FolderRemote(str(world.remote)))
    (usb,) = ann.context.store.machine.remotes.all()
    report = visit(ann.context, usb, SyncOptions(patience=()), remote=counted)
    assert (aside(report), report.worst, counted.got) == ([], None, ["forestay/format"])
    # The rights of members are computed again.
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    assert len(aside(synced(ann))) == 3


def test_refused_pack_that_a_chain_needs_is_an_error(world: World, ann: Forestay) -> None:
    desk, bob = world.device("desk", by=ann), world.person("bob")
    ann.shares.add("login", person_of(bob))
    synced(bob)
    me = identity(bob.context)
    synced(ann)
    before = world.files("p")
    ann.session("login").note("two")
    synced(ann)
    (new,) = (Path(one) for one in world.files("p") if one not in before)
    held, _ = ring_of(world, bob)
    claim, body = sealed_pack.open_pack(
        new.read_bytes(), held, lambda _c, s: held.owner.verify_key(s)
    )
    forged = structs.replace(claim, circle=me.group.id, signer=me.key.id)
    data = sealed_pack.seal_pack(forged, body, me.key, held.current)
    new.unlink()
    pack = object_names.as_pack(str(new.relative_to(world.remote)))
    assert pack is not None
    name = object_names.pack_name(pack.place, pack.chain, pack.first, pack.last, data)
    FolderRemote(str(world.remote)).put(name, data)
    assert errors(synced(ann)) == [NotEntitled]
    synced(desk)  # it never saw the true pack, and pulls what it can
    assert notes(desk, "login") == ["precious"]


def lying(world: World, by: Forestay, about: str) -> None:
    """Make the last pack of a member report events that never existed."""
    held, there = ring_of(world, by)
    chain = held.chain(by.context.store.machine.device)
    path = max((one for one in map(Path, world.files("p")) if chain in str(one)), key=str)
    pack = object_names.as_pack(str(path.relative_to(world.remote)))
    assert pack is not None
    claim, body = there.open(pack, path.read_bytes())
    more = structs.replace(claim, heads={**claim.heads, about: (999, "a" * 64)})
    data = sealed_pack.seal_pack(more, body, there.me.key, held.current)
    path.unlink()
    name = object_names.pack_name(pack.place, pack.chain, pack.first, pack.last, data)
    FolderRemote(str(world.remote)).put(name, data)


def test_member_who_blocks_a_session_by_false_heads_can_be_removed(
    world: World, ann: Forestay
) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    synced(ann)
    bob.session("login").note("x")
    synced(bob)
    lying(world, bob, ann.context.store.machine.device)
    assert errors(synced(ann)) == [Truncated]
    ann.shares.remove("login", identity(bob.context).group.id)
    ann.session("login").note("goes on")
    report = synced(ann)
    assert (report.problems, aside(report), report.up) == ([], [NotEntitled], 1)


def test_heads_reported_by_a_revoked_device_do_not_block_a_session(
    world: World, ann: Forestay
) -> None:
    laptop = world.device("laptop", by=ann)
    synced(ann)
    synced(laptop)
    laptop.session("login").note("before")
    synced(laptop)
    lying(world, laptop, ann.context.store.machine.device)
    ann.devices.revoke(identity(laptop.context).name)
    assert synced(ann).problems == []
    assert notes(ann, "login") == ["precious", "before"]


@pytest.mark.parametrize("met", [True, False])
def test_erasure_by_a_revoked_device_does_not_erase_stored_events(
    world: World, ann: Forestay, met: bool
) -> None:
    desk = world.device("desk", by=ann)
    laptop = world.device("laptop", by=ann)
    synced(ann)
    synced(laptop)
    if met:
        synced(desk)
    ann.devices.revoke(identity(laptop.context).name)
    hidden = world.files("c")
    for path in hidden:
        Path(path).unlink()
    forget.forget_events(laptop.context, "login", [precious(laptop, "login")], actor="user")
    laptop.session("login").note("more")
    assert synced(laptop).up
    for path, data in hidden.items():
        Path(path).write_bytes(data)
    synced(ann)
    assert notes(ann, "login") == ["precious"]
    synced(desk)
    if met:
        assert notes(desk, "login") == ["precious"]


# --- the device group of another person ---------------------------------------------------------


def test_recovery_code_does_not_join_the_group_of_another_person(
    world: World,
) -> None:
    ann, bob = world.home("ann"), world.person("bob")
    words = ann.devices.keys.init().recovery
    ann.start("Add login", id="login").note("precious")
    ann.shares.add("login", person_of(bob))
    synced(bob)
    held, _ = ring_of(world, bob)
    (recovery,) = held.owner.recoveries()
    assert recovery.recipient == ""  # otherwise bob could seal another group to it
    true = identity(ann.context).group
    # A forged group that is sealed to it is ignored, also if the true one is hidden.
    evil, seals = keys.new_key(), keys.recovery_key(words)
    trap = device_group.found(evil, "ann", keys.new_key(), made=1)
    data = device_group._packed(trap, evil, [seals.recipient])
    remote = FolderRemote(str(world.remote))
    remote.put(object_names.group_prefix(trap.id) + object_names.hash_of(data), data)
    remote.put(object_names.group_prefix("f" * 32) + object_names.hash_of(b"hi"), b"hi")
    blank = world.home("blank")
    assert blank.devices.keys.recover(words).circle == true.id
    for one in list(remote.list(f"c/{true.id}/")):
        remote.delete(one.name)
    with pytest.raises(RemoteFailed):
        world.home("other").devices.keys.recover(words)


def test_recovered_device_seals_to_the_recovery_code(world: World) -> None:
    ann = world.home("ann")
    words = ann.devices.keys.init().recovery
    me, recovery = identity(ann.context), keys.recovery_key(words)
    text, secrets = me.group.log.values(), me.group._secrets.values()
    bare = device_group.DeviceGroup(text, secrets, me.group.name_key)
    data = device_group._packed(bare, me.key, [recovery.recipient])
    for path in world.files("c"):
        Path(path).unlink()
    FolderRemote(str(world.remote)).put(object_names.group_name(bare.id, data), data)
    blank = world.home("blank")
    blank.devices.keys.recover(words)
    assert recovery.recipient in identity(blank.context).group.recipients()


def test_device_recovered_by_a_replaced_code_does_not_block_a_session(
    world: World,
) -> None:
    ann, bob = world.home("ann"), world.person("bob")
    old = ann.devices.keys.init().recovery
    ann.start("Add login", id="login").note("before")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    for stay in (ann, bob):
        synced(stay)
    ann.devices.keys.rotate()  # the next device that pushes changes the keys
    ann.devices.keys.rotate(recovery=True)
    late = world.home("late")
    late.devices.keys.recover(old)
    synced(late)
    late.session("login").note("by the old code")
    synced(late)
    ann.session("login").note("afterwards")
    reported = synced(ann)
    assert reported.problems == [] and isinstance(reported.worst, NotEntitled)
    assert "device add --new-key" in reported.worst.hint
    synced(ann)
    assert synced(ann).worst is None, "reported once, and again when the keys are new"
    for stay in (bob, world.device("desk", by=ann)):
        assert synced(stay).problems == []
        assert notes(stay, "login") == ["before", "afterwards"]
    synced(late)
    assert "afterwards" not in notes(late, "login")
    cat = world.person("cat")
    ann.shares.add("login", person_of(cat))
    assert errors(synced(cat)) == [Locked], "she cannot check keys that she cannot open"
    named = [
        str(error).rpartition(": ")[2].rstrip(")") for m in reported.sessions for error in m.aside
    ]
    assert {name.split("/")[2] for name in named} == {"k", "p", "w"}
    for name in named:
        (world.remote / name).unlink()
    for stay in (ann, cat):
        assert synced(stay).problems == []
    assert notes(cat, "login") == ["before", "afterwards"]


def test_keys_of_a_revoked_device_are_reported_with_a_hint(world: World, ann: Forestay) -> None:
    lost = world.device("lost", by=ann)
    for stay in (ann, lost):
        synced(stay)
    ann.devices.revoke(identity(lost.context).key.id)
    lost.devices.keys.rotate()
    synced(lost)
    ann.session("login").note("afterwards")
    (reported,) = synced(ann).problems
    assert isinstance(reported.error, Locked) and "delete that object" in reported.error.hint
    (world.remote / reported.error.why.rpartition(": ")[2]).unlink()
    assert synced(ann).problems == [] and ann.remotes.unpushed() == 0
    desk = world.device("desk", by=ann)
    assert synced(desk).problems == [] and "afterwards" in notes(desk, "login")


def test_doubted_keys_that_open_nowhere_are_skipped(world: World, ann: Forestay) -> None:
    lost, desk = world.device("lost", by=ann), world.device("desk", by=ann)
    for stay in (ann, lost, desk):
        synced(stay)
    ann.devices.revoke(identity(lost.context).key.id)
    lost.devices.keys.rotate()
    lost.session("login").note("for itself")
    synced(lost)
    ann.session("login").note("afterwards")
    (reported,) = synced(ann).problems
    assert isinstance(reported.error, Locked) and "--doubt s/" in reported.error.hint
    fake = reported.error.why.rpartition(": ")[2]
    (report,) = ann.remotes.pull(sessions=["login"], doubt=[fake])
    (pack,) = report.sessions[0].aside
    assert isinstance(pack, NotEntitled) and report.problems == []
    assert (synced(ann).worst, ann.remotes.unpushed()) == (None, 0), (
        "reported once, and the sync continues"
    )
    folder, _, name = fake.rpartition("/")
    good = next(path.name for path in (world.remote / folder).iterdir() if path.name != name)
    (report,) = ann.remotes.pull(sessions=["login"], doubt=[f"{folder}/{good}"])
    assert "can decrypt these keys" in str(report.problems[0].error)
    (reported,) = synced(desk).problems
    assert isinstance(reported.error, Locked) and f"--doubt {fake}" in reported.error.hint
    (report,) = desk.remotes.pull(sessions=["login"], doubt=[fake])
    assert report.problems == [] and notes(desk, "login") == ["precious", "afterwards"]
    (report,) = ann.remotes.pull(sessions=["login"], believe=[fake])
    assert [type(one.error) for one in report.problems] == [Locked]


def test_doubted_keys_count_as_soon_as_they_open(world: World, ann: Forestay) -> None:
    """A sync tool transferred them before the statement of the group that made them."""
    desk = world.device("desk", by=ann)
    for stay in (ann, desk):
        synced(stay)
    before = world.files("c").keys()
    ann.devices.keys.rotate()
    ann.session("login").note("afterwards")
    synced(ann)
    late = {path: data for path, data in world.files("c").items() if path not in before}
    for path in late:
        Path(path).unlink()
    (reported,) = synced(desk).problems
    assert isinstance(reported.error, Locked)
    desk.remotes.pull(sessions=["login"], doubt=[reported.error.why.rpartition(": ")[2]])
    assert notes(desk, "login") == ["precious"]
    for path, data in late.items():
        Path(path).write_bytes(data)
    assert synced(desk).worst is None and notes(desk, "login") == ["precious", "afterwards"]
    desk.session("login").note("by the new keys")
    assert synced(desk).worst is None and synced(ann).worst is None
    assert notes(ann, "login")[-1] == "by the new keys"


def test_a_session_with_doubted_keys_can_be_shared(world: World, ann: Forestay) -> None:
    lost, bob = world.device("lost", by=ann), world.person("bob")
    for stay in (ann, lost):
        synced(stay)
    ann.devices.revoke(identity(lost.context).key.id)
    for _ in range(2):
        lost.devices.keys.rotate()
        synced(lost)
    for _ in range(2):
        (reported,) = synced(ann).problems
        assert isinstance(reported.error, Locked)
        ann.remotes.pull(sessions=["login"], doubt=[reported.error.why.rpartition(": ")[2]])
    ann.shares.add("login", person_of(bob))
    assert ann.remotes.unpushed() == 0


# --- content that several events name -----------------------------------------------------------


def test_forgetting_an_event_leaves_the_content_that_an_event_of_another_pack_names(
    world: World, ann: Forestay
) -> None:
    desk, blank = world.device("desk", by=ann), world.device("blank", by=ann)
    here, there = world.folder / "f.txt", world.folder / "g.txt"
    for path in (here, there):
        path.write_text("the same content " * 20)
    first = ann.session("login").record.artifact(str(here))
    synced(ann)
    synced(desk)
    second = desk.session("login").record.artifact(str(there))
    synced(desk)
    synced(ann)
    assert isinstance(second.body, ArtifactSaved)
    (usb,) = ann.context.store.machine.remotes.all()
    ann.context.store.machine.remotes.remove(usb)
    ann.context.store.machine.remotes.add("two", f"folder:{world.folder / 'two'}", "", 1)
    assert synced(ann).problems == []  # both chains in one push
    forget.forget_events(ann.context, "login", [str(first.seq)], actor="user")
    assert synced(ann).problems == []
    (usb,) = blank.context.store.machine.remotes.all()
    blank.context.store.machine.remotes.remove(usb)
    blank.context.store.machine.remotes.add("two", f"folder:{world.folder / 'two'}", "", 1)
    assert synced(blank).problems == []
    assert blank.context.store.blob(second.body.digest) is not None


# --- devices that came later --------------------------------------------------------------------


def test_members_accept_packs_of_a_later_device_of_the_owner(world: World, ann: Forestay) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob))
    synced(bob)
    later = world.device("later", by=ann)
    synced(later)
    later.session("login").note("from the later one")
    assert synced(later).up == 1
    assert synced(bob).problems == []
    assert notes(bob, "login") == ["precious", "from the later one"]


# --- invalid objects ----------------------------------------------------------------------------

DEEP = b'{"session":' + b"[" * 100_000
CLAIMS = {"deep": DEEP, "no utf-8": b'{"session":"\xff"}', "surrogate": b'{"session":"\\ud800"}'}


def test_unreadable_ring_stops_no_sync(world: World, ann: Forestay) -> None:
    synced(ann)
    to = [key_text.read_person_key(person_of(ann)).recipient]
    made = [envelope.enclose("RING", one, b"{}", keys.new_key(), to) for one in CLAIMS.values()]
    for number, data in enumerate([*made, b"FORESTAY RING 2\nxx", b"hello"]):
        name = object_names.ring_name(f"{number:032x}", 1, data)
        FolderRemote(str(world.remote)).put(name, data)
    report = synced(ann)
    assert (report.problems, report.foreign) == ([], 5)


@pytest.mark.parametrize("name", ["readme.txt", object_names.hash_of(b"hi")])
def test_foreign_object_next_to_those_of_the_group_does_not_stop_a_sync(
    world: World, ann: Forestay, name: str
) -> None:
    synced(ann)
    prefix = object_names.group_prefix(identity(ann.context).group.id)
    FolderRemote(str(world.remote)).put(prefix + name, b"hi")
    ann.session("login").note("goes on")
    assert synced(ann).up == 1


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_unreadable_claim_is_tampering(claim: bytes) -> None:
    with pytest.raises(Tampered):
        sealed_pack._read(claim)
    with pytest.raises(Tampered):
        device_group.STATEMENTS.parsed(claim)
    with pytest.raises(Tampered):
        key_ring.STATEMENTS.parsed(claim)


# --- who owns a chain --------------------------------------------------------------------------


def holds(stay: Forestay, text: str) -> bool:
    with stay.context.store.view("login") as view:
        return any(text.encode() in (stored.data or b"") for stored in view.events())


def test_erasure_by_a_member_is_not_applied_through_another_remote(
    world: World, ann: Forestay
) -> None:
    desk, bob = world.device("desk", by=ann), world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    seqs = [str(line.event.seq) for line in bob.session("login").log()]
    forget.forget_events(bob.context, "login", seqs[1:2], actor="user")
    assert synced(bob).up == 1
    synced(ann)
    for stay in (ann, desk):
        stay.context.store.machine.remotes.add("own", f"folder:{world.folder / 'own'}", "", 1)
        own = stay.context.store.machine.remotes.find("own")
        assert own is not None
        assert visit(stay.context, own, SyncOptions(patience=())).problems == []
        assert holds(stay, "precious")


def test_imported_chain_is_pushed_by_its_author(world: World, ann: Forestay) -> None:
    desk, bob = world.device("desk", by=ann), world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    synced(desk)
    path = str(world.folder / "carried.fspack")
    desk.session("login").note("while away")
    desk.session("login").export(path)
    bob.backups.import_(path)
    report = synced(bob)
    assert (report.problems, report.up, report.waiting) == ([], 0, 1)
    desk.session("login").note("later")
    assert synced(desk).up == 2
    assert synced(bob).waiting == 0
    synced(ann)
    assert notes(ann, "login") == ["precious", "while away", "later"]


# --- false reports of heads ---------------------------------------------------------------------


def pushed_with(by: Forestay, heads: dict[str, tuple[int, str]]) -> None:
    """Push a pack that reports more events of others than exist."""
    real = SessionKeys.seal

    def seal(self: SessionKeys, *given: Any, **how: Any) -> tuple[str, bytes]:
        return real(self, *given, **{**how, "heads": heads})

    by.session("login").note("by whoever lies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SessionKeys, "seal", seal)
        assert synced(by).up == 1


@pytest.mark.parametrize("n", [-1, 0, 1 << 70])
def test_claim_with_impossible_numbers_is_set_aside(world: World, ann: Forestay, n: int) -> None:
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    pushed_with(bob, {ann.context.store.machine.device: (n, "")})
    ann.session("login").note("goes on")
    report = synced(ann)
    assert (type(report.worst), report.problems, report.up) == (Tampered, [], 1)


def test_member_who_reports_missing_heads_is_named_and_can_be_removed(
    world: World, ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("forestay.base.clock.Clock.sleep", lambda self, seconds: None)
    bob = world.person("bob")
    ann.shares.add("login", person_of(bob), mode=key_ring.CONTINUE)
    synced(bob)
    pushed_with(bob, {ann.context.store.machine.device: (1000, "f" * 64)})
    ann.session("login").note("goes on")
    (problem,) = synced(ann).problems
    group = identity(bob.context).group
    assert isinstance(problem.error, Truncated) and group.fingerprint in problem.error.why
    ann.shares.remove("login", group.id)
    report = synced(ann)
    assert (report.problems, report.waiting) == ([], 0)
    assert notes(ann, "login") == ["precious", "goes on"]


def test_member_can_doubt_and_believe_the_reports_of_another(
    world: World, ann: Forestay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the owner can remove the other member."""
    monkeypatch.setattr("forestay.base.clock.Clock.sleep", lambda self, seconds: None)
    bob, cat = world.person("bob"), world.person("cat")
    for one in (bob, cat):
        ann.shares.add("login", person_of(one), mode=key_ring.CONTINUE)
        synced(one)
    synced(bob)
    pushed_with(bob, {ann.context.store.machine.device: (1000, "f" * 64)})
    cat.session("login").note("goes on")
    (problem,) = synced(cat).problems
    who = identity(bob.context).group.fingerprint
    assert problem.error is not None
    assert f"forestay sync --pull usb --session login --doubt {who}" in problem.error.hint
    (report,) = cat.remotes.pull("usb", sessions=["login"], doubt=[who])
    assert report.worst is None
    for n in (1001, 1002):  # each lie is reported once, and nothing stops
        report = synced(cat)
        assert (report.worst, report.waiting) == (None, 0)
        pushed_with(bob, {ann.context.store.machine.device: (n, "f" * 64)})
        (report,) = cat.remotes.pull()
        assert (type(report.worst), report.problems) == (Truncated, [])
        assert f"--believe {who}" in report.sessions[0].noticed[0].hint
    assert notes(cat, "login").count("by whoever lies") == 3
    assert cat.context.journal.verify("login").ok
    cat.remotes.pull("usb", sessions=["login"], believe=[who])
    pushed_with(bob, {ann.context.store.machine.device: (1003, "f" * 64)})
    assert errors(synced(cat)) == [Truncated]


def test_device_without_the_session_can_doubt_a_member(
    world: World,
    ann: Forestay,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("forestay.base.clock.Clock.sleep", lambda self, seconds: None)
    bob, cat = world.person("bob"), world.person("cat")
    for one in (bob, cat):
        ann.shares.add("login", person_of(one), mode=key_ring.CONTINUE)
    ann.start("another", id="other")
    synced(ann)
    synced(bob)
    pushed_with(bob, {ann.context.store.machine.device: (1000, "f" * 64)})
    who = identity(bob.context).group.fingerprint
    for stay in (cat, world.device("desk", by=ann)):
        stay.close()
        text = ["--home", stay.context.settings.home, "sync", "--pull", "usb", "--session"]
        assert main([*text, "login"]) and f"--doubt {who}" in capsys.readouterr().err
        assert main([*text, "login", "--doubt", who]) == 0
        assert notes(world.again(Path(stay.context.settings.home).name), "login") == [
            "precious",
            "by whoever lies",
        ]
        assert main([*text, "nosuch"]) == 3 and "no session nosuch" in capsys.readouterr().err
        assert main(["--home", stay.context.settings.home, "list", "--json"]) == 0
        assert '"other"' not in capsys.readouterr().out


def test_unknown_persons_and_oneself_cannot_be_doubted(world: World, ann: Forestay) -> None:
    synced(ann)
    mine = identity(ann.context).group.fingerprint
    for who in ("0000-0000-0000-0000-0000", mine):
        (report,) = ann.remotes.pull("usb", sessions=["login"], doubt=[who])
        assert isinstance(report.worst, InvalidInput)
    with pytest.raises(InvalidInput, match="need the option --session"):
        ann.remotes.pull(doubt=[mine])
