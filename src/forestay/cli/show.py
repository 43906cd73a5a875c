"""The commands show and diff: the state of a session at a point, and changes between two points."""

from __future__ import annotations

from forestay.base.clock import iso
from forestay.base.text import one_line, shorten
from forestay.base.vocabulary import PAUSE_REASONS
from forestay.cli.arguments import Command, arg
from forestay.cli.event_lines import describe_decision, spell_out
from forestay.cli.log import when
from forestay.cli.terminal import json_text, pick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from forestay.cli.types import Any, Forestay, Namespace, Part, Screen
    from forestay.journal.history import Change

    Row = dict[str, Any]

_POINT = "a number in the log (12), an event's id, or a time"
_LONG = 100
_TEXT = 3
"""The index of the text in a row of the state."""


# -- show --------------------------------------------------------------------------------------


def run_show(options: Namespace, stay: Forestay, screen: Screen) -> None:
    shown = stay.current().show(options.at).as_json()
    screen.answer(shown, at=options.at or None)
    screen.start_paging()
    _print_core(shown, options.at, stay, screen)
    for table, (title, cells) in _TABLES.items():
        if rows := shown["rows"].get(table, []):
            screen.line()
            screen.line((f"{title} ({len(rows)})", "title"))
            screen.table([cells(row) for row in rows], indent=2)
    # Of notes, commands and pauses the state has only the newest; the log has all.
    core = shown["core"]
    counts = core.get("counts", {})
    commands = sum(n for name, n in counts.items() if name.startswith("command."))
    notes = counts.get("notes", 0) - counts.get("note", 0)
    for name, total in {"notes": notes, "commands": commands, "pauses": 0}.items():
        texts = [line[_TEXT] for line in core.get(name, [])]
        if texts:
            screen.line()
            screen.line((f"{name.title()} ({max(total, len(texts))})", "title"))
        for text in texts:
            screen.prose("  ", one_line(spell_out(text) if text in PAUSE_REASONS else text))
        if texts and total > len(texts):
            screen.line((f"  {total - len(texts)} older: forestay log", "dim"))


def _print_core(shown: dict[str, Any], at: str, stay: Forestay, screen: Screen) -> None:
    core, now = shown["core"], stay.context.clock.now()
    screen.prose("", shown["goal"], "bold")
    began, paused, ended = (
        when(core[name], now) if core.get(name) else ""
        for name in ("began_at", "paused_at", "ended_at")
    )
    branch = " ".join(filter(None, [core.get("git_branch"), core.get("git_commit", "")[:12]]))
    used = core.get("tokens") or core.get("agent_tokens", 0)
    done = f" · {shown['progress']:.0%} done" if shown["progress_from"] != "none" else ""
    if paused:
        reason = core.get("pause_context", "") or spell_out(core.get("pause_reason", ""))
        paused = " – ".join(filter(None, [paused, reason]))
    screen.fields(
        [
            ("session", shown["session"]),
            ("at", (at, "yellow")),
            ("status", f"{shown['status']}{done}"),
            ("because", core.get("because", "")),
            ("mode", core.get("mode", "")),
            ("model", core.get("model", "")),
            ("continues", core.get("from_session", "")),
            ("branch", branch),
            ("began", began),
            ("paused", paused),
            ("ended", ended),
            ("tokens", f"{used:,}" if used else ""),
            ("events", str(shown["seq"])),
            ("secrets", _format_counts("left out: ", core.get("redacted", {}))),
            ("unread", _format_counts("events of a newer version: ", core.get("unknown", {}))),
        ]
    )


def _format_counts(lead: str, counts: dict[str, int]) -> str:
    return lead + ", ".join(f"{name} {n}" for name, n in counts.items()) if counts else ""


def _show_unit(*names: str) -> Callable[[Row], list[Part]]:
    colors = {"running": "green", "failed": "red", "blocked": "yellow", "timed_out": "red"}

    def cells(row: Row) -> list[Part]:
        status = row.get("status", "pending")
        done = f" {row['fraction']:.0%}" if row.get("fraction") and status == "running" else ""
        shown = (spell_out(status) + done, colors.get(status, "dim"))
        return [row["id"], shown, " – ".join(str(row[name]) for name in names if row.get(name))]

    return cells


def _decision(row: Row) -> list[Part]:
    more = (row.get("chosen", ""), row.get("options", []), row.get("because", ""))
    return [describe_decision(row["what"], *more)]


def _show_fields(*names: str) -> Callable[[Row], list[Part]]:
    return lambda row: [_cell(row.get(name, "")) for name in names]


def _cell(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return "" if value is None else shorten(str(value), _LONG)


def _file(row: Row) -> list[Part]:
    # Rows omit default values.
    return _show_fields("action", "path", "agent")({"action": "modified", **row})


def _artifact(row: Row) -> list[Part]:
    kept = "" if row.get("kept", True) else "only its digest is stored: it contains secrets"
    return [row["path"], f"{row.get('size', 0):,} bytes", kept or f"SHA-256 {row['digest'][:12]}…"]


def _side(row: Row) -> list[Part]:
    sides = " or ".join(sorted({_shown_text(spell_out(str(side[3]))) for side in row["sides"]}))
    return [
        _subject(row["subject"].replace(":", " ", 1)),
        sides,
        "settled" if row.get("settled_by") else ("open", "yellow"),
    ]


_TABLES: dict[str, tuple[str, Callable[[Row], list[Part]]]] = {
    "dispute": ("Disputes", _side),
    "step": ("Tasks", _show_unit("title", "because", "outcome")),
    "agent": ("Agents", _show_unit("type", "task", "error", "result")),
    "decision": ("Decisions", _decision),
    "note": ("Notes for the next agent", _show_fields("text")),
    "checkpoint": ("Checkpoints", _show_fields("step", "verdict", "issue", "because")),
    "claim": ("Claims", _show_fields("id", "text", "reason", "result")),
    "error": ("Errors", _show_fields("category", "message", "agent")),
    "file": ("Files", _file),
    "artifact": ("Artifacts", _artifact),
    "attribute": ("Attributes", _show_fields("key", "value")),
    "contract": ("Contracts", _show_fields("agent", "version")),
    "edit": ("Edits by others", _show_fields("format", "path", "cause")),
}


# -- diff --------------------------------------------------------------------------------------


def run_diff(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = stay.current()
    changes = session.diff(options.a, options.b)
    values = [pick(change, "where before after") for change in changes]
    point = {"from": options.a, "to": options.b or None}
    screen.answer(session.status, point, changes=values)
    screen.start_paging()
    subjects: dict[str, list[Change]] = {}
    for change in changes:
        subjects.setdefault(change.where.rpartition(": ")[0], []).append(change)
    printed = [_print_subject(subject, found, screen) for subject, found in subjects.items()]
    if not any(printed):
        screen.line("No difference.")


def _print_subject(subject: str, found: list[Change], screen: Screen) -> bool:
    """Print an added, removed or changed row; "" is the session itself."""
    names = {change.where.rpartition(": ")[2] for change in found}
    shown = [c for c in found if c.where.rpartition(": ")[2] not in _HIDDEN_FIELDS]
    is_row = bool(subject and names & _KEYS)
    is_added = is_row and all(change.before is None for change in found)
    is_removed = is_row and all(change.after is None for change in found)
    if is_added or is_removed:
        sign, color = ("+", "green") if is_added else ("-", "red")
        shown.sort(key=lambda change: bool(_word(change)))  # its text before its fields
        texts = [_describe_change(c, _shown(c.after if is_added else c.before)) for c in shown]
        screen.prose((f"{sign} {_subject(subject)}  ", color), " · ".join(texts))
    elif shown:
        screen.line((f"~ {_subject(subject or 'session')}", "yellow"))
        for change in shown:
            values = f"{_shown(change.before)} → {_shown(change.after)}"
            screen.line("    ", _describe_change(change, values))
    return is_added or is_removed or bool(shown)


def _subject(text: str) -> str:
    """Return the name of a changed row for people: a step is a task, a note has no name."""
    table, _, key = text.partition(" ")
    word = {"step": "task", "contract": "contract of"}.get(table, table)
    return word if table in ("note", "error", "decision", "command") else f"{word} {key}".rstrip()


def _describe_change(change: Change, value: str) -> str:
    return f"{_word(change)} {value}".lstrip()


def _word(change: Change) -> str:
    name = change.where.rpartition(": ")[2]
    return _WORDS.get(name, spell_out(name))


_KEYS = frozenset({"id", "path", "event", "subject", "key", "step", "agent"})
# Fields that change with every event, repeat another field, or matter only to programs.
_HIDDEN_FIELDS = frozenset(
    "clock id event by attempts retracted key path held erased compressed_at before digest"
    " options goal_by goal_device device paused_at paused_ms pauses unit summary kept changes"
    " versions".split()
)
_WORDS = {
    "title": "",
    "text": "",
    "message": "",
    "value": "",
    "what": "",
    "action": "",
    "fraction": "progress",
    "parent": "part of",
    "blocking_on": "waits for",
    "from_session": "continues",
    "git_branch": "branch",
    "git_commit": "commit",
    "began_at": "began",
    "started_at": "started",
    "ended_at": "ended",
    "retried_at": "retried",
    "pause_context": "paused at",
    "pause_reason": "paused because of",
    "redacted": "secrets left out",
    "interrupted": "interrupted at",
    "after": "content",
    "settled_by": "settled by",
}


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, int) and not isinstance(value, bool) and value > _FIRST_TIME_MS:
        return iso(value)
    if value is None or value in ("", 0, {}):
        return "–"
    if isinstance(value, str):
        return _shown_text(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(one)}" for name, one in value.items())
    return json_text(value)


def _shown_text(value: str) -> str:
    is_digest = len(value) in (40, 64) and not set(value) - set("0123456789abcdef")
    if is_digest:
        return f"{value[:12]}…"
    plain = spell_out(value) if value in PAUSE_REASONS or value in _UNDERSCORED else value
    return shorten(plain, _LONG)


_UNDERSCORED = ("timed_out", "needs_review", "rolled_back")
_FIRST_TIME_MS = 10**12  # the year 2001: a larger number is a time, other values stay smaller


COMMANDS = {
    "show": Command(
        run_show,
        arg("--at", "POINT", f"as it was at {_POINT}"),
        "forestay show",
        "forestay show --at 12",
        'forestay show --at "2 hours ago"',
    ),
    "diff": Command(
        run_diff,
        arg("a", "POINT", _POINT),
        arg("b?", "POINT", "another point; default: now"),
        "forestay diff 3 12",
        "forestay diff yesterday now",
    ),
}
