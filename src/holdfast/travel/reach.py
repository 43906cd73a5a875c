"""A remote of this home, opened as what is remembered of it demands.

One that was in use before must show its mark: a mount point without its stick is not begun anew.
One that proved to be careless is handled with care.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from threading import Thread

from holdfast.errors import NotThere, Tampered
from holdfast.remote import FORMAT, Probe, Remote, names, open_remote
from holdfast.remote.careful import Careful
from holdfast.store.remotes import Known

_LATE = "late"
"""Begins what is kept of a probe where what is written is not listed at once."""


def reached(known: Known) -> Remote:
    """The remote, opened."""
    remote = open_remote(known.address, known=bool(known.synced))
    return Careful(remote, late=known.probe.startswith(_LATE)) if known.probe else remote


Answer = Remote | BaseException
"""A remote that was reached, or what kept it from being so."""


def as_they_answer(found: Sequence[Known]) -> Iterator[tuple[Known, Answer]]:
    """All of these are asked at once: one that hangs keeps nobody from the others.

    One may answer, and hang in the middle of the visit. Who failed the last time comes last.
    """
    answers = SimpleQueue[tuple[Known, Answer]]()

    def ask(known: Known) -> None:
        answers.put((known, _asked(known)))

    for one in found:
        # Nothing waits for such a thread in the end: who is told to stop stops.
        Thread(target=ask, args=(one,), name=f"reach {one.name}", daemon=True).start()
    last = []
    for _ in found:
        known, answer = answers.get()
        if known.result == "failed":
            last.append((known, answer))
        else:
            yield known, answer
    yield from last


def _asked(known: Known) -> Answer:
    try:
        remote = reached(known)
        try:
            remote.get(FORMAT)
        except NotThere:
            pass  # it answered, which is all that was asked
        except BaseException:
            remote.close()
            raise
    except BaseException as error:
        return error
    return remote


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
