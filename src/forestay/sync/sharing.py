"""Share a session with other persons, on every remote that has it.

A session is pushed first, then its keys are changed: a new epoch, encrypted to everyone who can
read from now on. Each remote has its own key ring, so the change is made on each. An unreachable
remote has the old keys: the next sync removes a person there; to add one, the user repeats the
command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from forestay.base.text import clean_input
from forestay.errors import (
    Busy,
    ForestayError,
    InvalidInput,
    NotEntitled,
    Refused,
    RemoteFailed,
)
from forestay.journal.context import Context
from forestay.mirror.session_files import write_files
from forestay.store.machine.remotes import DOUBT, KEY_CHANGE, UNSHARE
from forestay.sync.connect import connect_remote
from forestay.sync.crypto import key_ring, key_text
from forestay.sync.crypto.key_ring import CONTINUE, READ, KeyRing, Member
from forestay.sync.crypto.key_text import PersonKey, same_fingerprint
from forestay.sync.device_list import identity
from forestay.sync.keychain import Spread
from forestay.sync.lock import exclusive_sync
from forestay.sync.remotes import object_names
from forestay.sync.run import SyncOptions, visit_alone
from forestay.sync.session_keys import SessionKeys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.store.machine.remotes import Known
    from forestay.sync.remotes.port import Remote

Change = Callable[[KeyRing], Member]


class Shared(NamedTuple):
    """The persons a session is shared with, its owner, and which remotes have the change."""

    session: str
    owner: str
    members: list[Member]
    spread: list[Spread]


def share(
    context: Context, session: str, person: PersonKey, *, mode: str = "", email: str = ""
) -> Shared:
    """Share a session with a person, to read or to continue it."""
    now = context.clock.now()
    for known in context.store.machine.remotes.all():
        _record_removal(context, known, session, person.circle, owed=False)
    email = clean_input(email, "the address", limit=200, lines=False) if email else ""
    return _everywhere(
        context,
        session,
        lambda ring: key_ring.share(ring, person, mode=mode, made=now, email=email),
    )


def unshare(context: Context, session: str, who: str) -> Shared:
    """Remove a person from a session; that person still has what was pulled before."""
    now = context.clock.now()
    is_key = who.lower().startswith(key_text.PERSON)
    wanted = {key_text.read_person_key(who).circle} if is_key else set[str]()

    def change(ring: KeyRing) -> Member:
        wanted.add(_meant(ring, who).circle)
        return key_ring.unshare(ring, _meant(ring, who).circle, made=now)

    def record_removal(known: Known) -> bool:
        for group in wanted:
            _record_removal(context, known, session, group)
        return bool(wanted)

    return _everywhere(context, session, change, record_removal)


def _record_removal(
    context: Context, known: Known, session: str, group_id: str, *, owed: bool = True
) -> None:
    """Record whether a person still has to be removed on a remote."""
    before = context.store.machine.remotes.notes(known, session).get(UNSHARE, {})
    after = {each: "" for each in before if each != group_id} | ({group_id: ""} if owed else {})
    if after != before:
        context.store.machine.remotes.note(known, session, UNSHARE, after)


def shares(context: Context, session: str) -> Shared:
    """Return the persons a session is shared with, as its remotes show."""
    found: list[KeyRing] = []
    spread = []
    for known in context.store.machine.remotes.all():
        try:
            with _keys(context, known, session) as (keys, _):
                found += [keys.ready()] if keys.ring else []
            spread.append(Spread(known.name))
        except ForestayError as error:
            spread.append(Spread(known.name, str(error)))
    return _summarize(session, found, spread)


def _everywhere(
    context: Context,
    session: str,
    change: Change,
    record_removal: Callable[[Known], bool] | None = None,
) -> Shared:
    """Make a change on every remote; call `record_removal` for those that fail."""
    remotes = context.store.machine.remotes.all()
    if not remotes:
        hint = "forestay remote add usb folder:/media/usb/forestay"
        what = "a session can be shared only through a remote, and there is none"
        raise Refused(what, hint=hint, session=session)
    found, spread = [], []
    failed: list[tuple[Known, ForestayError]] = []
    for known in remotes:
        try:
            is_ending = record_removal is not None
            found.append(_change_member(context, known, session, change, ending=is_ending))
            spread.append(Spread(known.name))
        except ForestayError as error:
            failed.append((known, error))
            spread.append(Spread(known.name, str(error)))
    for known, why in failed:
        may_come = isinstance(why, RemoteFailed | Busy) and not isinstance(why, NotEntitled)
        if record_removal is not None and may_come and record_removal(known):
            why.hint = "; ".join(filter(None, (why.hint, "the next sync tries again there")))
    if not found:
        raise failed[0][1]
    shared = _summarize(session, found, spread)
    context.store.machine.remotes.record_shared(session, [title(each) for each in shared.members])
    write_files(context, session)  # session files show the persons it is shared with
    return shared


def _change_member(
    context: Context, known: Known, session: str, change: Change, *, ending: bool
) -> KeyRing:
    """Change the keys on one remote; remove a member even if the session cannot be synced."""
    with exclusive_sync(context):
        report = visit_alone(context, known, SyncOptions(sessions=(session,)))
        for problem in () if ending else report.problems:
            if problem.error is not None:
                raise problem.error
        with _keys(context, known, session) as (keys, remote):
            held = keys.change_member(remote.put, context.clock.now(), change)
            context.store.machine.remotes.note(known, session, KEY_CHANGE, keys.turns)
            return held


@contextmanager
def _keys(context: Context, known: Known, session: str) -> Iterator[tuple[SessionKeys, Remote]]:
    """Yield the keys of a session on a remote."""
    me, remotes = identity(context), context.store.machine.remotes
    there, noted = remotes.session(known, session), remotes.notes(known, session)
    place = (there.place if there else "") or object_names.place(me.group.name_key, session)
    with closing(connect_remote(known)) as remote:
        listed = {one.name: one.size for one in remote.list(object_names.within(place))}
        sound = {one.name for one in remotes.objects(known, session)}
        keys = SessionKeys(
            me,
            session,
            listed,
            get=remote.get,
            place=place,
            owner=there.owner if there else "",
            turns=noted.get(KEY_CHANGE, {}),
            sound=lambda: sound,
            doubted=noted.get(DOUBT, ()),
        )
        yield keys, remote


def _summarize(session: str, found: list[KeyRing], spread: list[Spread]) -> Shared:
    members = {each.circle: each for ring in found for each in ring.members}
    owner = found[0].owner.id if found else ""
    return Shared(session, owner, list(members.values()), spread)


def _meant(ring: KeyRing, who: str) -> Member:
    """Return the member with this address, fingerprint, id or key."""
    if who.lower().startswith(key_text.PERSON):
        group = key_text.read_person_key(who).circle
        found = [each for each in ring.members if each.circle == group]
    else:
        found = [each for each in ring.members if _is_called(each, who)]
    if len(found) == 1:
        return found[0]
    known = ", ".join(title(each) for each in found or ring.members)
    why = f"it is shared with {known or 'no one'}"
    none = f"the session is not shared with {who!r}"
    what = f"{who} matches several persons" if found else none
    raise InvalidInput(what, why=why, hint="forestay share list", session=ring.session)


def _is_called(member: Member, who: str) -> bool:
    shown = (key_text.grouped(member.circle), PersonKey(member.circle, member.key).fingerprint)
    named = bool(member.email) and member.email.casefold() == who.strip().casefold()
    begun = len(who) >= 8 and member.circle.startswith(who)
    return named or begun or any(same_fingerprint(who, one) for one in shown)


def title(member: Member) -> str:
    """Return the name of a person for lists."""
    return member.email or key_text.grouped(member.circle)


__all__ = ["CONTINUE", "READ", "Shared", "share", "shares", "title", "unshare"]
