"""Messages about an essay's session: the pause, the list of sessions, the resume.

The specification puts brackets around the variable parts of its messages; they are not printed, and
parts that do not apply are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from forestay.base.text import plural
from forestay.formats import timestamps
from forestay.formats.coerce import mapping, sequence
from forestay.formats.essay.fields import (
    STAGES,
    is_count,
    read_session_status,
    read_unit_status,
    section_of,
    sections,
    stage_of,
    value_at,
)
from forestay.formats.port import Where

HOUR = 3_600_000
DAY = 24 * HOUR
PAUSE_AFTER = DAY
ABANDONED_AFTER = 7 * DAY

_UNITS = ((DAY, "day"), (HOUR, "hour"), (60_000, "minute"))


def place(doc: dict[str, Any], *, paragraphs: bool = True) -> str:
    """Return the current position in the essay, such as `Stage 4, Section 2, Paragraph 3`."""
    stage = stage_of(doc) or 1
    section = section_of(doc, stage)
    paragraph = value_at(doc, "stages.stage_4.current_paragraph") if stage == 4 else None
    parts = [f"Stage {stage}"]
    parts += [f"Section {section}"] if section else []
    parts += [f"Paragraph {paragraph}"] if paragraphs and section and is_count(paragraph, 1) else []
    return ", ".join(parts)


def pause_message(doc: dict[str, Any]) -> str:
    how = "To resume, invoke essay-pipeline and select this session."
    return f"Session paused at {place(doc)}. {how}"


def ago(moment: int, now: int) -> str:
    """Return how long ago a time was, in the largest unit that fits, such as `2 hours ago`."""
    for length, unit in _UNITS:
        if (count := (now - moment) // length) > 0:
            return f"{plural(count, unit)} ago"
    return "just now"


def session_list(found: Iterable[tuple[str, dict[str, Any] | None]], where: Where) -> str:
    """Return the list of sessions by folder name; None stands for a file that cannot be read."""
    lines = []
    for number, (name, doc) in enumerate(found, 1):
        moment = timestamps.read(mapping(doc).get("last_activity"), where.naive)
        active = "unknown" if moment is None else ago(moment, where.now)
        status = read_session_status(mapping(doc).get("status"))
        if doc is None:
            what = "State unreadable"
        elif status in ("completed", "abandoned"):
            what = str(status).title()  # an ended session has no current position
        else:
            what = place(doc, paragraphs=False)
        lines.append(f"{number}. {name} -- {what} -- Last active: {active}")
    return "\n".join(["Sessions found:", *lines]) if lines else "No sessions found."


_STATUS_WORDS = {"pending": "not started", "running": "in progress", "done": "completed"}


def resume_summary(doc: dict[str, Any]) -> str:
    """Return a sentence about the state of the work, for a user who resumes it."""
    stage = stage_of(doc) or 1
    status = read_unit_status(value_at(doc, f"stages.stage_{stage}.status")) or "pending"
    word = _STATUS_WORDS.get(status, status.replace("_", " "))
    parts = [f"{STAGES[stage].title} {word}", *_section_parts(doc, stage)]
    deferred = map(mapping, sequence(doc.get("deferred_verifications")))
    waiting = sum(not entry.get("resolved") for entry in deferred)
    parts += [f"{plural(waiting, 'claim')} to verify"] if waiting else []
    return f"Resuming at Stage {stage}. Here's where you left off: {', '.join(parts)}."


def _section_parts(doc: dict[str, Any], stage: int) -> list[str]:
    found = sections(doc, stage)
    current, total = section_of(doc, stage), value_at(doc, "stages.stage_3.total_sections")
    total = total if is_count(total, 1) else len(found)
    done = sum(read_unit_status(section.get("status")) == "done" for section in found.values())
    parts = [f"Section {current}" + (f" of {total}" if total else "")] if current else []
    paragraph = value_at(doc, "stages.stage_4.current_paragraph")
    if stage == 4 and current and is_count(paragraph, 1):
        parts.append(f"Paragraph {paragraph}")
    return [*parts, f"{plural(done, 'section')} completed"] if done else parts


def abandoned_for(doc: dict[str, Any] | None, where: Where) -> int:
    """Return for how many days an open essay was idle; 0 if too few to count as abandoned."""
    state = mapping(doc)
    moment = timestamps.read(state.get("last_activity"), where.naive)
    if moment is None or read_session_status(state.get("status")) not in ("active", "paused"):
        return 0
    idle = where.now - moment
    return idle // DAY if idle >= ABANDONED_AFTER else 0
