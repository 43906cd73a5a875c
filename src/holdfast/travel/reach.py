"""A remote of this home, opened as what is remembered of it demands.

One that was in use before must show its mark: a mount point without its stick is not begun anew.
One that proved to be careless is handled with care.
"""

from __future__ import annotations

from holdfast.errors import Tampered
from holdfast.remote import Probe, Remote, names, open_remote
from holdfast.remote.careful import Careful
from holdfast.store.remotes import Known

_LATE = "late"
"""Begins what is kept of a probe where what is written is not listed at once."""


def reached(known: Known) -> Remote:
    """The remote, opened."""
    remote = open_remote(known.address, known=bool(known.synced))
    return Careful(remote, late=known.probe.startswith(_LATE)) if known.probe else remote


def told(probe: Probe) -> str:
    """What to remember of a probe: nothing, if all is well."""
    if probe.conditional and probe.lists:
        return ""
    return f"{'' if probe.lists else f'{_LATE}: '}{probe.why or 'not careful'}"


def circle_bytes(remote: Remote, name: str) -> bytes:
    """What lies under the name of a circle object, if it is what was put there."""
    data = remote.get(name)
    if not names.is_of(name, data):
        raise Tampered("what is told of your devices is not as it was put there", why=name)
    return data
