"""Describe events for people: one word for what happened, and a line about it."""

from __future__ import annotations

from forestay.base.text import plural
from forestay.base.vocabulary import PAUSE_REASONS, undecided

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from forestay.journal.history import LogLine

    Describe = Callable[[Any], str]


def describe_event(line: LogLine) -> tuple[str, str]:
    """Return a word for the kind of event, and its content in one line."""
    event = line.event
    word, describe = _LINES.get(event.kind, (event.kind, _raw))
    body: Any = event.body
    kind = type(body).__name__
    if kind == "Erased":
        return word, _forgotten(line.forgotten)
    if kind == "EventForgotten":
        numbers = " ".join(f"#{number}" for number in line.targets)
        return word, _join(numbers or describe(body), body.because)
    if kind == "EventRetracted" and line.target:
        return word, _join(f"#{line.target}", body.because)
    if kind == "SessionArchived" and not body.archived:
        return "unarchived", ""
    if kind == "Unknown":
        return event.kind, _raw(body)
    return _as_unit(word, getattr(body, "step", "")), describe(body)


def _forgotten(stone: Any) -> str:
    if stone is None:
        return "(erased)"
    import time

    try:
        day = time.strftime(" on %Y-%m-%d", time.localtime(stone.head.at / 1000))
    except (OverflowError, OSError, ValueError):
        day = ""
    return f"(forgotten{day} by {stone.head.actor})"


def _as_unit(word: str, step: str) -> str:
    """Return the word with the plan's own name for its steps: `phase start`, not `task start`."""
    unit = step.rpartition("/")[2].partition("-")[0]
    is_planned = word.startswith("task") and unit in ("phase", "stage", "section")
    return word.replace("task", unit) if is_planned else word


def kind_word(kind: str) -> str:
    """Return the word for a kind of event."""
    return _LINES[kind][0] if kind in _LINES else kind


def spell_out(word: str) -> str:
    """Return a word of the journal with spaces: `timed out`, `user request`."""
    return word.replace("_", " ")


def _raw(body: Any) -> str:
    """Return the stored data of an event of another version."""
    return str(getattr(body, "raw", "") or "")


def _join(*parts: str, by: str = " – ") -> str:
    return by.join(part for part in parts if part)


def _field(*names: str) -> Describe:
    """Return a function that joins fields of a body; lists are separated by commas."""

    def describe(body: Any) -> str:
        values = [getattr(body, name) for name in names]
        return _join(*(", ".join(v) if isinstance(v, list) else str(v) for v in values if v))

    return describe


_FILES = ("created", "modified", "deleted")


def _note(body: Any) -> str:
    """Return a note; a long one is stored separately, and its event has only the beginning."""
    if not body.blob or len(body.text.encode()) >= body.size:
        return str(body.text)
    return f"{body.text}… ({body.size:,} bytes; all of it: forestay log --full)"


def _paused(body: Any) -> str:
    asked = body.reason == PAUSE_REASONS[0] and body.context
    return _join("" if asked else spell_out(body.reason), body.context)


def describe_decision(what: str, chosen: str, options: list[str], because: str) -> str:
    """Return a decision, what was rejected or is still open, and the reason, in one line."""
    rejected = [one for one in options if chosen and one != chosen]
    left = undecided(what, chosen, options)
    return _join(
        what,
        chosen,
        f"still open: {', '.join(left)}" if left else "",
        f"not {', '.join(rejected)}" if rejected else "",
        f"because {because}" if because else "",
    )


def _decision(body: Any) -> str:
    return describe_decision(body.what, body.chosen, body.options, body.because)


def _command(body: Any) -> str:
    took = f"{body.duration_ms:,} ms" if body.duration_ms is not None else ""
    name = _join(body.name, body.arguments, by=" ")
    return _join(name, body.status if body.status != "success" else "", body.error, took)


def _file(body: Any) -> str:
    added = f"+{body.added}" if body.added else ""
    removed = f"-{body.removed}" if body.removed else ""
    return _join(body.action, body.path, added, removed, by=" ")


def _agent_start(body: Any) -> str:
    waits = f"waits for {body.blocking_on}" if body.blocking_on else ""
    return _join(body.agent, body.type, body.task, waits or body.status)


def _artifact(body: Any) -> str:
    return f"{body.path} ({body.size:,} bytes{'' if body.kept else ', digest only'})"


def _agent_so_far(body: Any) -> str:
    far = "" if body.fraction is None else f" {body.fraction:.0%}"
    return _join(body.agent + far, _field("result", *_FILES)(body))


def _proof(body: Any) -> str:
    import shlex

    word = "timed out" if body.timed_out else "interrupted" if body.interrupted else ""
    ended = word or ("" if not body.exit else f"exit {body.exit}")
    return _join(body.step, body.proof, shlex.join(body.argv), ended, f"{body.duration_ms:,} ms")


_LINES: dict[str, tuple[str, Describe]] = {
    "session.started": ("started", _field("goal")),
    "session.adopted": ("adopted", _field("goal", "origin")),
    "session.renamed": ("renamed", _field("goal")),
    "session.paused": ("paused", _paused),
    "session.resumed": ("resumed", _field("git_branch")),
    "session.completed": ("completed", _field("because")),
    "session.failed": ("failed", _field("because")),
    "session.aborted": ("aborted", _field("because")),
    "session.abandoned": ("abandoned", _field("because")),
    "session.reopened": ("reopened", _field("because")),
    "session.archived": ("archived", lambda body: ""),
    "session.interrupted": ("interrupted", _field("doing", "agents")),
    "session.forgotten": ("forgotten", lambda body: ""),
    "event.retracted": ("undo", _field("event", "because")),
    "event.forgotten": ("forgotten", lambda body: f"{len(body.hashes)} events"),
    "plan.set": ("plan", _field("workflow", "version")),
    "plan.resolved": ("plan", lambda body: plural(body.total, "phase")),
    "step.added": ("task", _field("step", "title")),
    "step.started": ("task start", _field("step", "agent")),
    "step.progressed": ("task", lambda body: f"{body.step} {body.fraction:.0%}"),
    "step.completed": ("task done", _field("step", "outcome", "files")),
    "step.failed": ("task failed", _field("step", "because")),
    "step.blocked": ("blocked", _field("step", "because")),
    "step.unblocked": ("unblocked", _field("step")),
    "step.skipped": ("skipped", _field("step", "because")),
    "step.needs_review": ("review", _field("step", "because")),
    "step.revisited": ("revisited", _field("step", "because")),
    "step.reset": ("reset", _field("step", "because")),
    "checkpoint.passed": ("passed", _field("step", "issue")),
    "checkpoint.failed": ("not passed", _field("step", "issue")),
    "checkpoint.overridden": ("overridden", _field("step", "because")),
    "checkpoint.rolled_back": ("rolled back", _field("step", "because")),
    "agent.started": ("agent", _agent_start),
    "agent.progressed": ("agent", _agent_so_far),
    "agent.finished": ("agent done", _field("agent", "status", "result", *_FILES)),
    "agent.failed": ("agent fail", _field("agent", "error")),
    "agent.timed_out": ("timeout", _field("agent", "error")),
    "agent.retried": ("retry", _field("agent")),
    "decision.made": ("decision", _decision),
    "file.changed": ("file", _file),
    "artifact.saved": ("artifact", _artifact),
    "artifact.versioned": ("artifact", _field("path", "version")),
    "command.ran": ("command", _command),
    "context.measured": ("context", lambda body: _join(f"{body.tokens:,} tokens", body.agent)),
    "context.compressed": ("compressed", _field("summary")),
    "error.raised": ("error", _field("message")),
    "note.added": ("note", _note),
    "claim.deferred": ("claim", _field("claim", "text", "reason")),
    "claim.resolved": ("claim", _field("claim")),
    "claim.overridden": ("claim", _field("claim", "result", "because")),
    "attribute.set": ("attribute", lambda body: f"{body.key} = {body.value}"),
    "contract.acknowledged": ("contract", _field("agent", "version")),
    "foreign.edited": ("edited", _field("path", "cause")),
    "evidence.observed": ("proof", _proof),
    "message.sent": ("message", lambda body: f"{body.role}: {_note(body)}"),
}
