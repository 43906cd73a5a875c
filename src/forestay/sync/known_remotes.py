"""Add, check, find and remove the remotes of a home, by name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import NamedTuple

from forestay.errors import Downgraded, InvalidInput, NotThere, Outdated
from forestay.journal.context import Context
from forestay.store.machine.remotes import Known
from forestay.sync.connect import describe_probe
from forestay.sync.remotes import object_names
from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import FORMAT, Object, Oddity, Probe, Remote

_NEWER = re.compile(rb"forestay remote (?!1\n)[1-9][0-9]{0,8}\n")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")


class Checked(NamedTuple):
    """The result of a check: what a remote can do, and unexpected files on it."""

    name: str
    address: str
    backend: str
    probe: Probe
    oddities: Sequence[Oddity]
    sessions: int


def select_remotes(context: Context, name: str = "") -> list[Known]:
    """Return the named remote, or all without a name: those that failed last time come last."""
    every = sorted(context.store.machine.remotes.all(), key=lambda one: one.result == "failed")
    found = [one for one in every if one.name == name] if name else every
    if found:
        return found
    if every:
        why = f"known remotes: {', '.join(one.name for one in every)}"
        raise InvalidInput(f"there is no remote {name}", why=why, hint="forestay remote list")
    hint = "forestay remote add usb folder:/media/usb/forestay"
    raise InvalidInput("there is no remote yet", hint=hint)


def add(context: Context, name: str, address: str) -> Checked:
    """Check a remote and store it under a name."""
    if not _NAME.fullmatch(name):
        why = "a name has at most 40 lower-case letters, digits, dots, dashes and underscores"
        raise InvalidInput(f"{name!r} cannot be the name of a remote", why=why)
    if context.store.machine.remotes.find(name):
        raise InvalidInput(f"there is a remote {name} already", hint="forestay remote list")
    with closing(open_remote(address)) as remote:
        kind, _, path = remote.address.partition(":")
        own = os.path.realpath(context.settings.home)
        if kind == "folder" and f"{os.path.realpath(path)}/".startswith(f"{own}/"):
            raise InvalidInput(
                f"{path} cannot be a remote: it is inside the home of Forestay",
                why="if this disk fails, the home and the remote are lost together",
                hint="use a folder on a USB stick, or one that a sync tool uploads",
            )
        found = _checked(name, remote)
    same = [one.name for one in context.store.machine.remotes.all() if one.address == found.address]
    if same:
        raise InvalidInput(f"{found.address} is already a remote, with the name {same[0]}")
    probe = describe_probe(found.probe)
    context.store.machine.remotes.add(name, found.address, probe, context.clock.now())
    return found


def check(context: Context, name: str) -> Checked:
    """Check a remote again, and list unexpected files on it."""
    (known,) = select_remotes(context, name)
    with closing(open_remote(known.address, known=bool(known.synced))) as remote:
        found = _checked(name, remote)._replace(oddities=remote.oddities())
    context.store.machine.remotes.record_probe(known, describe_probe(found.probe))
    return found


def _checked(name: str, remote: Remote) -> Checked:
    require_format(remote, make=False)
    probe = remote.probe()
    places = by_place(remote.list(object_names.SESSIONS))
    return Checked(name, remote.address, remote.backend, probe, (), len(places))


def remove(context: Context, name: str) -> Known:
    """Remove a remote from this home; nothing on the remote is changed."""
    (known,) = select_remotes(context, name)
    context.store.machine.remotes.remove(known)
    return known


def by_place(listed: Iterable[Object]) -> dict[str, list[Object]]:
    found: dict[str, list[Object]] = {}
    for one in listed:
        if place := object_names.place_of(one.name):
            found.setdefault(place, []).append(one)
    return found


def require_format(remote: Remote, *, make: bool) -> bool:
    """Require that the remote has the format mark of this version; return False if it is empty."""
    try:
        mark = remote.get(FORMAT)
    except NotThere:
        if make:
            remote.put(FORMAT, object_names.MARK)
        return make
    if mark == object_names.MARK:
        return True
    if _NEWER.fullmatch(mark):
        what = "the remote has a format of a newer Forestay"
        why = mark[:40].decode("ascii", "replace").strip()
        raise Outdated(what, why=why, hint="update Forestay on this device")
    raise Downgraded(
        "the format mark of the remote was changed",
        why=f"{FORMAT} begins with {mark[:20]!r}, not with {object_names.MARK!r}",
        hint="if this is a remote of Forestay, restore that line; if not, choose another address",
    )
