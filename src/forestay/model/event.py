"""Events: the envelope, its hashes, and every kind of thing that can happen in a session.

An event is stored as three byte strings: `header`, `salt` and `data`. `data` is the JSON of a
body (what happened), `digest` in the header is SHA-256(salt + data), and the event's `hash` is
SHA-256(header). So content and salt can be erased and the chain over the headers still verifies.

    !! The bytes made here are stored forever. Names, order and defaults of header and body
    !! fields are pinned by tests/golden; a new field may only be added at the end, with a
    !! default, and is left out of the bytes while it has that default.

A kind that this version does not know is read as `Unknown`, an erased one as `Erased`: both
survive every copy byte for byte, because stored bytes are never encoded again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from forestay.base.clock import to_datetime
from forestay.base.hashing import digest_of
from forestay.errors import Damaged, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

FORMAT = 1
"""Version of the envelope, bound by every hash."""

SALT_BYTES = 16
MAX_EVENT_BYTES = 16 * 1024
"""An event is small; what is larger lives in a blob that the event names."""

MAX_DEPTH = 64
"""How deep data may nest. A fixed limit, so that every machine reads the same bytes alike."""

FIRST = ""
"""`prev` of the first event of a chain."""

Number = Annotated[int, Meta(ge=1, le=2**53)]
Moment = Annotated[int, Meta(ge=-(2**53), le=2**53)]


class Header(Struct, frozen=True, omit_defaults=True, gc=False):
    """Everything about an event but its content. `hash` covers its encoded bytes."""

    v: Number
    id: str
    session: str
    device: str
    n: Number
    clock: Number
    at: Moment
    actor: str
    kind: str
    digest: str
    prev: str
    # device → n, hash, … (a device whose home was copied can have two heads, hence a flat list)
    seen: dict[str, list[int | str]] = {}
    must: str = ""

    def seen_heads(self) -> list[tuple[str, int, str]]:
        """Return the heads of other chains that became visible with this event."""
        return [(device, *pair) for device, flat in self.seen.items() for pair in pairs(flat)]


def pairs(flat: list[int | str]) -> list[tuple[int, str]]:
    """Return the (n, hash) pairs of a flat list of heads; skip items that form no pair."""
    return [
        (n, digest)
        for n, digest in zip(flat[::2], flat[1::2], strict=False)
        if isinstance(n, int) and isinstance(digest, str)
    ]


class Body(Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What happened. `redacted` names the kinds of secrets that were removed first."""

    redacted: list[str] = []


# -- session -----------------------------------------------------------------------------------


class SessionStarted(Body, frozen=True):
    goal: str
    mode: str = "default"
    from_session: str = field(name="from", default="")
    project: str = ""
    git_branch: str = ""
    git_commit: str = ""
    tool: str = ""


class SessionAdopted(Body, frozen=True):
    """A session that began elsewhere: in a format file or another agent's transcript."""

    goal: str
    origin: str
    native_id: str = ""
    mode: str = "default"
    status: str = "active"
    began_at: int | None = None
    project: str = ""
    git_branch: str = ""
    git_commit: str = ""


def with_checkout(body: Body, branch: str, commit: str) -> Body:
    """Return the body with branch and commit; its kind must have these fields."""
    return msgspec.structs.replace(body, git_branch=branch, git_commit=commit)


class SessionRenamed(Body, frozen=True):
    goal: str


class SessionPaused(Body, frozen=True):
    reason: str = "user_request"
    context: str = ""
    git_branch: str = ""
    git_commit: str = ""


class SessionResumed(Body, frozen=True):
    git_branch: str = ""
    git_commit: str = ""


class Ending(Body, frozen=True):
    """Shared by the four ways in which a session ends: why, and what was checked out then."""

    because: str = ""
    git_branch: str = ""
    git_commit: str = ""


class SessionCompleted(Ending, frozen=True):
    """The goal was reached."""


class SessionFailed(Ending, frozen=True):
    """The work broke off; it may be resumed."""


class SessionAborted(Ending, frozen=True):
    """The session was stopped for good: nothing can reopen it."""


class SessionAbandoned(Ending, frozen=True):
    """The session was given up; it may be reopened."""


class SessionReopened(Body, frozen=True):
    because: str


class SessionArchived(Body, frozen=True):
    archived: bool = True


class SessionInterrupted(Body, frozen=True):
    """The last process working on the session died; recorded by the process that resumes."""

    doing: str = ""
    agents: list[str] = []


class SessionForgotten(Body, frozen=True):
    """The tombstone of the whole session: its content is erased for good."""


class EventRetracted(Body, frozen=True):
    event: str
    because: str = ""


class EventForgotten(Body, frozen=True):
    """Events whose content is erased for good: their hashes, and their ids in the same order.

    The hash identifies the event in every store; the id also identifies each copy that another
    device made from the same source.
    """

    hashes: list[str]
    ids: list[str] = []
    because: str = ""


# -- plan, steps, checkpoints ------------------------------------------------------------------


class PlanSet(Body, frozen=True):
    workflow: str
    version: str = ""
    base: int = 1
    total: int | None = None
    target: str = ""
    snapshot: str = ""
    unit: str = "phase"


class PlanResolved(Body, frozen=True):
    total: int


class StepAdded(Body, frozen=True):
    step: str
    title: str
    unit: str = "task"
    parent: str = ""
    agent: str = ""


class StepStarted(Body, frozen=True):
    step: str
    agent: str = ""


class StepProgressed(Body, frozen=True):
    step: str
    fraction: float


class StepCompleted(Body, frozen=True):
    step: str
    outcome: str = ""
    files: list[str] = []


class StepFailed(Body, frozen=True):
    step: str
    because: str = ""


class StepBlocked(Body, frozen=True):
    step: str
    because: str


class StepUnblocked(Body, frozen=True):
    step: str


class StepSkipped(Body, frozen=True):
    step: str
    because: str = ""


class StepNeedsReview(Body, frozen=True):
    step: str
    because: str = ""


class StepRevisited(Body, frozen=True):
    """`archived` are the files of later steps that became versions, by their new names."""

    step: str
    because: str = ""
    impact: str = ""
    archived: list[str] = []


class StepReset(Body, frozen=True):
    step: str
    because: str = ""


class Verdict(Body, frozen=True):
    """Shared by the four checkpoint kinds: what was submitted for a phase, and the result.

    `blob` names the whole evidence when only its short values fit into the event.
    """

    step: str
    evidence: dict[str, Any] = {}
    observed: bool = False
    issue: str = ""
    because: str = ""
    blob: str = ""
    size: int = 0


class CheckpointPassed(Verdict, frozen=True):
    """The evidence meets the gate of the phase."""


class CheckpointFailed(Verdict, frozen=True):
    """The evidence does not meet the gate of the phase."""


class CheckpointOverridden(Verdict, frozen=True):
    """The user accepted the phase without the evidence."""


class CheckpointRolledBack(Verdict, frozen=True):
    """The phase has to be done again."""


# -- agents ------------------------------------------------------------------------------------


class AgentStarted(Body, frozen=True):
    """`status` is given for an agent that does not run yet: it is pending or blocked."""

    agent: str
    type: str = ""
    task: str = ""
    blocking_on: str = ""
    status: str = ""


class AgentProgressed(Body, frozen=True):
    """How far an agent is, or what it has made so far."""

    agent: str
    fraction: float | None = None
    result: str = ""
    created: list[str] = []
    modified: list[str] = []
    deleted: list[str] = []


class AgentFinished(Body, frozen=True):
    """`status` is given for an agent that was cancelled: it is skipped."""

    agent: str
    result: str = ""
    created: list[str] = []
    modified: list[str] = []
    deleted: list[str] = []
    status: str = ""


class AgentFailed(Body, frozen=True):
    """`retries` and `retried_at` are given if the retries were not recorded one by one."""

    agent: str
    error: str = ""
    category: str = "logical"
    retries: int = 0
    retried_at: int | None = None


class AgentTimedOut(Body, frozen=True):
    agent: str
    error: str = ""
    retries: int = 0
    retried_at: int | None = None


class AgentRetried(Body, frozen=True):
    agent: str


# -- facts -------------------------------------------------------------------------------------


class DecisionMade(Body, frozen=True):
    decision: str
    what: str
    because: str = ""
    options: list[str] = []
    chosen: str = ""


class FileChanged(Body, frozen=True):
    path: str
    action: str = "modified"
    agent: str = ""
    added: int | None = None
    removed: int | None = None
    before: str = ""
    after: str = ""


class ArtifactSaved(Body, frozen=True):
    path: str
    digest: str
    size: int
    kept: bool = True


class ArtifactVersioned(Body, frozen=True):
    path: str
    version: int
    digest: str
    size: int = 0


class CommandRan(Body, frozen=True):
    name: str
    arguments: str = ""
    status: str = "success"
    duration_ms: int | None = None
    error: str = ""
    agent: str = ""
    task: str = ""
    model: str = ""


class ContextMeasured(Body, frozen=True):
    tokens: int
    agent: str = ""


class ContextCompressed(Body, frozen=True):
    summary: str = ""


class ErrorRaised(Body, frozen=True):
    message: str
    category: str = "logical"
    agent: str = ""


class NoteAdded(Body, frozen=True):
    """`blob` names the whole text when only its beginning fits into the event."""

    text: str
    for_next: bool = False
    blob: str = ""
    size: int = 0


class ClaimDeferred(Body, frozen=True):
    claim: str
    text: str
    reason: str
    section: int | None = None
    paragraph: int | None = None


class ClaimResolved(Body, frozen=True):
    claim: str


class ClaimOverridden(Body, frozen=True):
    claim: str
    result: str
    because: str


class AttributeSet(Body, frozen=True):
    key: str
    value: str | int | float | bool | None


class ContractAcknowledged(Body, frozen=True):
    agent: str
    version: str
    checksum: str


class ForeignEdited(Body, frozen=True):
    """A format file was changed by someone else; ordinary events with actor file:… follow."""

    format: str
    path: str
    digest: str
    cause: str = ""
    residue: str = ""


class EvidenceObserved(Body, frozen=True):
    """A command that Forestay ran: how it ended, and the inputs it had.

    `exit` is the exit status of a shell (128 plus the number of the signal it died of); `output`
    is the digest of its output, `tail` the end of that, both without secrets; `blob` names the
    digests of its inputs. `changed` is whether inputs changed while it ran.
    """

    proof: str
    argv: list[str]
    exit: int
    step: str = ""
    duration_ms: int = 0
    output: str = ""
    printed: int = 0
    tail: str = ""
    globs: list[str] = []
    blob: str = ""
    size: int = 0
    files: int = 0
    changed: bool = False
    timed_out: bool = False
    interrupted: bool = False
    folder: str = ""


class MessageSent(Body, frozen=True):
    """A message of a conversation, by a `user`, by the `agent`, or by a `machine` in the user's
    place. `blob` names the whole text when only its beginning fits into the event.
    """

    role: str
    text: str
    blob: str = ""
    size: int = 0


class Unknown(Body, frozen=True):
    """A kind of a newer version, or data that does not fit its kind: stored, shown, not folded."""

    raw: str = ""


class Erased(Body, frozen=True):
    """Content and salt are gone; the header still proves the chain."""


KINDS: dict[str, type[Body]] = {
    "session.started": SessionStarted,
    "session.adopted": SessionAdopted,
    "session.renamed": SessionRenamed,
    "session.paused": SessionPaused,
    "session.resumed": SessionResumed,
    "session.completed": SessionCompleted,
    "session.failed": SessionFailed,
    "session.aborted": SessionAborted,
    "session.abandoned": SessionAbandoned,
    "session.reopened": SessionReopened,
    "session.archived": SessionArchived,
    "session.interrupted": SessionInterrupted,
    "session.forgotten": SessionForgotten,
    "event.retracted": EventRetracted,
    "event.forgotten": EventForgotten,
    "plan.set": PlanSet,
    "plan.resolved": PlanResolved,
    "step.added": StepAdded,
    "step.started": StepStarted,
    "step.progressed": StepProgressed,
    "step.completed": StepCompleted,
    "step.failed": StepFailed,
    "step.blocked": StepBlocked,
    "step.unblocked": StepUnblocked,
    "step.skipped": StepSkipped,
    "step.needs_review": StepNeedsReview,
    "step.revisited": StepRevisited,
    "step.reset": StepReset,
    "checkpoint.passed": CheckpointPassed,
    "checkpoint.failed": CheckpointFailed,
    "checkpoint.overridden": CheckpointOverridden,
    "checkpoint.rolled_back": CheckpointRolledBack,
    "agent.started": AgentStarted,
    "agent.progressed": AgentProgressed,
    "agent.finished": AgentFinished,
    "agent.failed": AgentFailed,
    "agent.timed_out": AgentTimedOut,
    "agent.retried": AgentRetried,
    "decision.made": DecisionMade,
    "file.changed": FileChanged,
    "artifact.saved": ArtifactSaved,
    "artifact.versioned": ArtifactVersioned,
    "command.ran": CommandRan,
    "context.measured": ContextMeasured,
    "context.compressed": ContextCompressed,
    "error.raised": ErrorRaised,
    "note.added": NoteAdded,
    "claim.deferred": ClaimDeferred,
    "claim.resolved": ClaimResolved,
    "claim.overridden": ClaimOverridden,
    "attribute.set": AttributeSet,
    "contract.acknowledged": ContractAcknowledged,
    "foreign.edited": ForeignEdited,
    "evidence.observed": EvidenceObserved,
    "message.sent": MessageSent,
}
KIND_OF: dict[type[Body], str] = {body: kind for kind, body in KINDS.items()}

MUST = {"event.forgotten": "0.1.0"}
"""Kinds that a version has to know to act on a session, and the first version that does: an older
one would continue to show, and pack, what was erased."""

DIGESTS = frozenset("before after digest checksum blob snapshot output hashes".split())
"""Fields that hold digests: exempt from redaction by type."""


class Sealed(Struct, frozen=True, gc=False):
    """The stored form: exactly the bytes that were hashed."""

    header: bytes
    salt: bytes | None
    data: bytes | None

    @property
    def hash(self) -> str:
        return digest_of(self.header)


class Event(Struct, frozen=True, gc=False):
    """An event as read: header, its hash, the typed body, and this store's arrival number."""

    head: Header
    hash: str
    body: Body
    seq: int = 0

    @property
    def kind(self) -> str:
        return self.head.kind

    @property
    def id(self) -> str:
        return self.head.id

    @property
    def time(self) -> datetime:
        """Return when the event was recorded, by the clock of its device."""
        return to_datetime(self.head.at)

    @property
    def is_read(self) -> bool:
        """Return whether the event was read from a format file that another program wrote."""
        return self.head.actor.startswith("file:")

    @property
    def address(self) -> str:
        """Return the portable name of the event, the same in every store."""
        return f"{self.head.device}:{self.head.n}"


_encode = msgspec.json.Encoder().encode
_decode_header = msgspec.json.Decoder(Header).decode
_decoders: dict[str, Callable[[bytes], Any]] = {}


def encode_body(body: Body) -> bytes:
    """Return the data bytes of a body; refuse what cannot be stored in one event."""
    try:
        data = _encode(body)
    except UnicodeEncodeError:
        raise InvalidInput(
            "the text holds half a character (a lone surrogate)",
            why="it cannot be written as UTF-8",
        ) from None
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput("the event cannot be written as JSON", why=str(error)) from None
    if len(data) > MAX_EVENT_BYTES:
        raise InvalidInput(
            f"this is too large for one event: {len(data):,} bytes, at most {MAX_EVENT_BYTES:,}",
            hint="write large text to a file and record that with: forestay record artifact PATH",
        )
    if _nests_too_deep(data):
        raise InvalidInput(f"the event nests too deep: at most {MAX_DEPTH} levels are allowed")
    return data


def as_stored(body: Body) -> Body:
    """Return the body as its bytes will be read again; refuse values of the wrong type."""
    kind = KIND_OF[type(body)]
    try:
        stored: Body = _decoder(kind)(encode_body(body))
    except msgspec.ValidationError as error:
        why = str(error)  # names the field and the types, never the value
        raise InvalidInput(f"{kind} was given values of the wrong type", why=why) from None
    return stored


def decode_body(kind: str, data: bytes | None) -> Body:
    """Return the body of stored data; what this version cannot read becomes `Unknown`."""
    if data is None:
        return Erased()
    decode = _decoders.get(kind) or (_decoder(kind) if kind in KINDS else None)
    if decode is None or _nests_too_deep(data):
        return Unknown(raw=data.decode("utf-8", "replace"))
    try:
        body: Body = decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Unknown(raw=data.decode("utf-8", "replace"))
    return body


def _decoder(kind: str) -> Callable[[bytes], Any]:
    # Made when first needed: making all sixty would slow down every start.
    decode = _decoders.get(kind)
    if decode is None:
        decode = _decoders[kind] = msgspec.json.Decoder(KINDS[kind]).decode
    return decode


# Compiled when first needed: most data is too short to nest so deep.
_STRING = rb'(?s)"(?:[^"\\]|\\.)*+"?'
_BRACKET = rb"[\[\]{}]"
_LIST, _MAP = b"[{"


def _nests_too_deep(data: bytes) -> bool:
    if _LIST not in data and data.find(_MAP, 1) < 0:
        return False  # true of most data, and cheap to find out
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    depth = 0
    for bracket in re.findall(_BRACKET, re.sub(_STRING, b"", data)):
        depth += 1 if bracket in b"[{" else -1
        if depth > MAX_DEPTH:
            return True
    return False


def seal(header: Header, salt: bytes, data: bytes) -> Sealed:
    return Sealed(_encode(header), salt, data)


def content_digest(salt: bytes, data: bytes) -> str:
    return digest_of(salt + data)


def parse_header(raw: bytes) -> Header:
    try:
        return _decode_header(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged("an event's header cannot be read", why=str(error)) from error


def read(sealed: Sealed, seq: int = 0) -> Event:
    """Return the typed event of stored bytes. Hashes are checked by `check`, not here."""
    header = parse_header(sealed.header)
    return Event(header, sealed.hash, decode_body(header.kind, sealed.data), seq)


def check(sealed: Sealed, header: Header) -> str:
    """Return what is wrong with one event alone, or an empty string."""
    if header.v > FORMAT:
        return f"its envelope is of version {header.v}; this Forestay knows {FORMAT}"
    if sealed.data is None or sealed.salt is None:
        return "" if sealed.data is None and sealed.salt is None else "its content is half erased"
    if len(sealed.salt) != SALT_BYTES:
        # Otherwise bytes could move from salt to data without a change of the digest.
        return f"its salt has {len(sealed.salt)} bytes instead of {SALT_BYTES}"
    if content_digest(sealed.salt, sealed.data) != header.digest:
        return "its content is not what was written (digest differs)"
    return ""
