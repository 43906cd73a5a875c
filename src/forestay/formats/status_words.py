"""Translate between our statuses and the words that each format has for them.

There is one table for sessions and one for units (steps and agents). Where several statuses share
a word, reading returns the most common one (`PLAIN_SESSION`, `PLAIN_UNIT`); the exact one is stored
under our key `forestay`.
"""

from __future__ import annotations

from functools import lru_cache

Words = dict[str, dict[str, str]]
"""Format → status → word."""


def _by_format(formats: str, rows: dict[str, str]) -> Words:
    columns = zip(*(row.split() for row in rows.values()), strict=True)
    return {
        name: dict(zip(rows, words, strict=True))
        for name, words in zip(formats.split(), columns, strict=True)
    }


SESSION_WORDS = _by_format(
    "              ai-session craft       essay       orchestrator",
    {
        "created": "  active     in_progress in_progress created",
        "active": "   active     in_progress in_progress in_progress",
        "paused": "   paused     paused      paused      paused",
        "completed": "completed  completed   completed   complete",
        "failed": "   paused     error       paused      paused",
        "aborted": "  paused     aborted     abandoned   aborted",
        "abandoned": "paused     aborted     abandoned   aborted",
    },
)
UNIT_WORDS = _by_format(
    "                 ai-session  praxis  craft     essay        orchestrator",
    {
        "pending": "     pending     pending pending   not_started  in_progress",
        "running": "     in_progress pending running   in_progress  in_progress",
        "done": "        completed   passed  completed completed    complete",
        "failed": "      blocked     failed  error     in_progress  failure",
        "blocked": "     blocked     pending pending   in_progress  in_progress",
        "timed_out": "   blocked     failed  timeout   in_progress  failure",
        "needs_review": "in_progress pending running   needs_review in_progress",
        "skipped": "     completed   skipped completed not_started  complete",
    },
)

# Tried in this order, so that a shared word is read as the most common status.
PLAIN_SESSION = ("active", "paused", "completed", "failed", "aborted", "created", "abandoned")
PLAIN_UNIT = (
    *("running", "done", "pending", "blocked", "failed", "timed_out", "needs_review"),
    "skipped",
)

# Spellings found in real files in addition to the words of the specifications.
ALSO_SESSION = dict(zip(PLAIN_SESSION, PLAIN_SESSION, strict=True)) | {
    "complete": "completed",
    "done": "completed",
    "finished": "completed",
    "in_progress": "active",
    "in-progress": "active",
    "running": "active",
    "error": "failed",
}
ALSO_UNIT = {
    "complete": "done",
    "completed": "done",
    "done": "done",
    "passed": "done",
    "in_progress": "running",
    "in-progress": "running",
    "running": "running",
    "pending": "pending",
    "not_started": "pending",
    "blocked": "blocked",
    "error": "failed",
    "failure": "failed",
    "failed": "failed",
    "timeout": "timed_out",
    "needs_review": "needs_review",
    "skipped": "skipped",
}


def session_word(format_id: str, status: str) -> str:
    """Return the word that a format writes for the status of a session."""
    return SESSION_WORDS[format_id][status]


def session_status(format_id: str, word: str) -> str | None:
    """Return the most common session status for a format's word; None for an unknown word."""
    words = SESSION_WORDS.get(format_id, {})
    if words.get(word) == word:
        return word
    plain = (status for status in PLAIN_SESSION if words.get(status) == word)
    return next(plain, None) or ALSO_SESSION.get(word.lower())


def unit_word(format_id: str, status: str) -> str:
    """Return the word that a format writes for the status of a step or agent."""
    return UNIT_WORDS[format_id][status]


@lru_cache(maxsize=512)
def unit_status(format_id: str, word: str) -> str | None:
    """Return the most common unit status for a format's word; None for an unknown word."""
    words = UNIT_WORDS.get(format_id, {})
    plain = (status for status in PLAIN_UNIT if words.get(status) == word)
    return next(plain, None) or ALSO_UNIT.get(word.lower())
