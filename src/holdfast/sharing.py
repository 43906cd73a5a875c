"""Sharing: with whom a session travels, on every remote that has it.

A session is pushed first, then its ring is turned: a new epoch, sealed to everyone who may read
from now on. Each remote has a ring of its own, so a change is made on each. One that cannot be
reached keeps the old keys: that someone is put out is then said there by the next sync, that
someone is let in when the same is asked for again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from holdfast.errors import (
    Busy,
    HoldfastError,
    InvalidInput,
    NotEntitled,
    Refused,
    RemoteFailed,
)
from holdfast.home import Holdfast
from holdfast.keychain import Spread
from holdfast.remote import code, names
from holdfast.remote import ring as rings
from holdfast.remote.code import PersonKey, same_fingerprint
from holdfast.remote.ring import CONTINUE, READ, Member, Ring
from holdfast.store.remotes import DOUBT, TURN, UNSHARE
from holdfast.travel.alone import alone
from holdfast.travel.circling import identity
from holdfast.travel.reach import reached
from holdfast.travel.session_keys import SessionKeys
from holdfast.travel.visit import Manner, visit_alone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.remote import Remote
    from holdfast.store.remotes import Known

Change = Callable[[Ring], Member]


class Shared(NamedTuple):
    """With whom a session is shared now, who owns it, and which remotes know of it."""

    session: str
    owner: str
    members: list[Member]
    spread: list[Spread]


def share(
    home: Holdfast, session: str, person: PersonKey, *, mode: str = "", email: str = ""
) -> Shared:
    """Let a person read a session, or continue it; compare the fingerprint of the key first."""
    now = home.clock.now()
    for known in home.store.remotes.all():
        _owe(home, known, session, person.circle, owed=False)
    return _everywhere(
        home,
        session,
        lambda ring: rings.share(ring, person, mode=mode, made=now, email=_address(email)),
    )


def unshare(home: Holdfast, session: str, who: str) -> Shared:
    """Let someone read no more of a session from now on; what they have read they still have."""
    now = home.clock.now()
    is_key = who.lower().startswith(code.PERSON)
    meant = {code.read_person_key(who).circle} if is_key else set[str]()

    def change(ring: Ring) -> Member:
        meant.add(_meant(ring, who).circle)
        return rings.unshare(ring, _meant(ring, who).circle, made=now)

    def owe(known: Known) -> bool:
        for circle in meant:
            _owe(home, known, session, circle)
        return bool(meant)

    return _everywhere(home, session, change, owe)


def _owe(home: Holdfast, known: Known, session: str, circle: str, *, owed: bool = True) -> None:
    """Remember that someone is still to be put out on a remote, or that they are not."""
    before = home.store.remotes.noted(known, session).get(UNSHARE, {})
    after = {each: "" for each in before if each != circle} | ({circle: ""} if owed else {})
    if after != before:
        home.store.remotes.note(known, session, UNSHARE, after)


def shares(home: Holdfast, session: str) -> Shared:
    """With whom a session is shared, as its remotes tell."""
    found: list[Ring] = []
    spread = []
    for known in home.store.remotes.all():
        try:
            with _keys(home, known, session) as (keys, _):
                found += [keys.ready()] if keys.ring else []
            spread.append(Spread(known.name))
        except HoldfastError as error:
            spread.append(Spread(known.name, str(error)))
    return _told(session, found, spread)


def _everywhere(
    home: Holdfast, session: str, change: Change, owe: Callable[[Known], bool] | None = None
) -> Shared:
    """Make a change on every remote; `owe` hears of those that could not be reached."""
    remotes = home.store.remotes.all()
    if not remotes:
        hint = "holdfast remote add usb folder:/media/usb/holdfast"
        raise Refused("there is no remote that others could read", hint=hint, session=session)
    found, spread = [], []
    failed: list[tuple[Known, HoldfastError]] = []
    for known in remotes:
        try:
            found.append(_turned(home, known, session, change, ending=owe is not None))
            spread.append(Spread(known.name))
        except HoldfastError as error:
            failed.append((known, error))
            spread.append(Spread(known.name, str(error)))
    for known, why in failed:
        may_come = isinstance(why, RemoteFailed | Busy) and not isinstance(why, NotEntitled)
        if owe is not None and may_come and owe(known):
            why.hint = "; ".join(filter(None, (why.hint, "the next sync says it there")))
    if not found:
        raise failed[0][1]
    told = _told(session, found, spread)
    home.store.remotes.share(session, [title(each) for each in told.members])
    home.reflect(session)  # its files tell with whom it is shared
    return told


def _turned(home: Holdfast, known: Known, session: str, change: Change, *, ending: bool) -> Ring:
    """Turn the keys there. Whoever is put out may be what is wrong with the session."""
    with alone(home):
        report = visit_alone(home, known, Manner(sessions=(session,)))
        for problem in () if ending else report.problems:
            if problem.error is not None:
                raise problem.error
        with _keys(home, known, session) as (keys, remote):
            held = keys.turn(remote.put, home.clock.now(), change)
            home.store.remotes.note(known, session, TURN, keys.turns)
            return held


@contextmanager
def _keys(home: Holdfast, known: Known, session: str) -> Iterator[tuple[SessionKeys, Remote]]:
    """The keys of a session as a remote shows them."""
    me, remotes = identity(home), home.store.remotes
    there, noted = remotes.session(known, session), remotes.noted(known, session)
    place = (there.place if there else "") or names.place(me.circle.name_key, session)
    with closing(reached(known)) as remote:
        listed = {one.name: one.size for one in remote.list(names.within(place))}
        sound = {one.name for one in remotes.objects(known, session)}
        yield (
            SessionKeys(
                me,
                session,
                listed,
                get=remote.get,
                place=place,
                owner=there.owner if there else "",
                turns=noted.get(TURN, {}),
                sound=lambda: sound,
                doubted=noted.get(DOUBT, ()),
            ),
            remote,
        )


def _told(session: str, found: list[Ring], spread: list[Spread]) -> Shared:
    members = {each.circle: each for ring in found for each in ring.members}
    owner = found[0].owner.id if found else ""
    return Shared(session, owner, list(members.values()), spread)


def _meant(ring: Ring, who: str) -> Member:
    """The member that an address, a fingerprint, an id or a key means."""
    if who.lower().startswith(code.PERSON):
        circle = code.read_person_key(who).circle
        found = [each for each in ring.members if each.circle == circle]
    else:
        found = [each for each in ring.members if _is_called(each, who)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(title(each) for each in found or ring.members)
    why = f"it is shared with {known or 'nobody'}"
    what = f"{who} may mean several persons" if found else f"it is not shared with {who!r}"
    raise InvalidInput(what, why=why, hint="holdfast share --list", session=ring.session)


def _is_called(member: Member, who: str) -> bool:
    shown = (code.grouped(member.circle), PersonKey(member.circle, member.key).fingerprint)
    named = bool(member.email) and member.email.casefold() == who.strip().casefold()
    begun = len(who) >= 8 and member.circle.startswith(who)
    return named or begun or any(same_fingerprint(who, one) for one in shown)


def title(member: Member) -> str:
    """How a person is called in lists."""
    return member.email or code.grouped(member.circle)


def _address(email: str) -> str:
    from holdfast.text import clean_input

    return clean_input(email, "the address", limit=200, lines=False) if email else ""


__all__ = ["CONTINUE", "READ", "Shared", "share", "shares", "title", "unshare"]
