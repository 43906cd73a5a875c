"""Forgotten events are erased on the remote and on other devices; only a tombstone erases."""

from __future__ import annotations

from forestay.api.forestay import Forestay
from forestay.errors import Tampered
from forestay.model.event import Sealed
from forestay.sync.device_list import identity
from forestay.sync.pack_codec import load, make
from forestay.sync.plan import Stretch
from forestay.sync.remotes import object_names as named
from forestay.sync.session_keys import SessionKeys
from tests.faulty_remotes import MemoryRemote
from tests.sync.travelling import Travellers, hashes, travel

CANARY = "canary in a note"


def session_keys(home: Forestay, session: str, remote: MemoryRemote) -> SessionKeys:
    listed = {name: len(data) for name, data in remote.objects.items()}
    made = SessionKeys(identity(home.context), session, listed, get=remote.get)
    made.ready()
    return made


def packs(remote: MemoryRemote) -> list[named.PackName]:
    return [one for one in map(named.as_pack, sorted(remote.objects)) if one]


def pack_contents(home: Forestay, session: str, remote: MemoryRemote) -> bytes:
    """Return the decrypted content of all packs of a session."""
    keys = session_keys(home, session, remote)
    rows = [load(keys.open(name, remote.objects[name.name])[1])[0] for name in packs(remote)]
    return b"".join(sealed.data or b"" for row in rows for sealed in row.range.events)


def held(home: Forestay, session: str) -> bytes:
    with home.context.store.view(session) as view:
        return b"".join(stored.data or b"" for stored in view.events())


def test_forgotten_event_is_erased_from_every_pack_and_home(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b, c = (travellers.make(name) for name in "abc")
    session = a.start("x")
    session.note("before")
    wrong = session.note(CANARY)
    session.note("after")
    for home in (a, b):
        travel(home, remote=remote)
    assert CANARY.encode() in pack_contents(a, session.id, remote)
    assert CANARY.encode() in held(b, session.id)
    session.lifecycle.forget(wrong.hash)
    report = travel(a, remote=remote)
    assert report.sessions[0].packs_up == 2
    assert CANARY.encode() not in pack_contents(a, session.id, remote)
    for home in (b, c):
        assert not travel(home, remote=remote).problems
        assert CANARY.encode() not in held(home, session.id)
        assert b"after" in held(home, session.id)
        assert hashes(home, session.id) == hashes(a, session.id)
    assert travel(a, remote=remote).sessions[0].packs_up == 0


def test_stale_pack_does_not_restore_a_forgotten_event(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    wrong = session.note(CANARY)
    for home in (a, b):
        travel(home, remote=remote)
    stale = {name.name: remote.objects[name.name] for name in packs(remote)}
    session.lifecycle.forget(wrong.hash)
    travel(a, remote=remote)
    remote.objects.update(stale)
    for home in (b, a, b):
        travel(home, remote=remote)
        assert home is not a or CANARY.encode() not in held(a, session.id)
    assert CANARY.encode() not in held(b, session.id)
    # A device that finds the old pack there again replaces it again.
    assert CANARY.encode() not in pack_contents(a, session.id, remote)


def test_pack_with_missing_content_and_no_tombstone_is_tampering(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    """Only a holder of the keys can make such a pack: a broken or stolen device."""
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    session.note("keep this")
    travel(a, remote=remote)
    for stone in ("", "0" * 64):
        twin = dict(remote.objects)
        (name,) = packs(remote)
        keys = session_keys(a, session.id, remote)
        claim, body = keys.open(name, remote.objects[name.name])
        whole, stretch = load(body)[0].range, Stretch.of(claim)
        blank = [Sealed(one.header, None, None) for one in whole.events]
        erased = make(session.id, stretch, blank, []).finish(created=1, tool="t", what="sync")
        made, data = keys.seal(stretch, erased, heads=claim.heads, now=1, tombstone=stone)
        del twin[name.name]
        twin[made] = data
        assert type(travel(b, remote=MemoryRemote(twin)).worst) is Tampered
        assert not hashes(b, session.id)
    assert not travel(b, remote=remote).problems


def test_forgotten_session_is_erased_on_other_devices(
    travellers: Travellers, remote: MemoryRemote
) -> None:
    a, b = travellers.make("a"), travellers.make("b")
    session = a.start("x")
    session.note(CANARY)
    for home in (a, b):
        travel(home, remote=remote)
    session.lifecycle.forget()
    assert not travel(a, remote=remote).problems
    assert CANARY.encode() not in pack_contents(a, session.id, remote)
    assert not travel(b, remote=remote).problems
    assert CANARY.encode() not in held(b, session.id)
    assert not b.list(all=True)
    for home in (a, b, a):
        report = travel(home, remote=remote)
        assert not report.problems
        assert (report.up, report.down) == (0, 0)
