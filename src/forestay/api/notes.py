"""Notes and decisions, as a session and an agent record them."""

from __future__ import annotations

from forestay.base.hashing import sha256
from forestay.base.text import clean_input, short_name
from forestay.model.event import DecisionMade, NoteAdded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from forestay.journal.recorder import Recorder
    from forestay.model.event import Event

MAX_NOTE = 1024 * 1024
_NOTE_IN_EVENT = 6000


def add_note(recorder: Recorder, text: str, *, for_next: bool, key: str) -> Event:
    """Save a note; the full text of one that is too long for an event is stored as a blob."""
    if len(text.encode("utf-8", "replace")) <= _NOTE_IN_EVENT:
        return recorder.record(NoteAdded(text=text, for_next=for_next), key=key)
    journal, clean = recorder.context.journal, clean_input(text, "text", limit=MAX_NOTE, lines=True)
    # Remove secrets before cutting the text: half a secret would not be recognized.
    redacted, names = journal.redact(clean), journal.find_secrets(clean)
    data = redacted.encode()
    body = NoteAdded(
        text=redacted[:1000].strip(),
        for_next=for_next,
        blob=sha256(data).hexdigest(),
        size=len(data),
        redacted=sorted(set(names)),
    )
    return recorder.record(body, key=key, blobs=[(body.blob, data)])


def add_decision(
    recorder: Recorder, what: str, *, because: str, options: Sequence[str], chosen: str, key: str
) -> Event:
    """Record a decision; its id is derived from its text after secrets are removed."""
    body = DecisionMade(
        decision=short_name(recorder.context.journal.redact(what)),
        what=what,
        because=because,
        options=list(options),
        chosen=chosen,
    )
    return recorder.record(body, key=key)
