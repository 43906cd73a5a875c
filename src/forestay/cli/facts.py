"""Facts: what was noted, decided, run, changed and kept, and what is withdrawn again."""

from __future__ import annotations

import os

from forestay.base.text import shorten
from forestay.base.vocabulary import ACTIONS, CATEGORIES, COMMAND_STATUSES, undecided
from forestay.cli.arguments import Command, Parser, count, spoken, with_key
from forestay.cli.common import confirm, meant, tell_finished

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Part, Screen
    from forestay.model.event import Event

_SAID = 60


def with_category(parser: Parser) -> None:
    parser.add_argument(
        "--category",
        choices=CATEGORIES,
        default="logical",
        metavar="WORD",
        help=f"{', '.join(CATEGORIES)} (default: logical)",
    )


def _note_arguments(parser: Parser) -> None:
    parser.add_argument("text", metavar="TEXT", help="the remark; - reads it from stdin")
    parser.add_argument("--for-next", action="store_true", help="first in the next briefing")
    with_key(parser)


def run_note(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    text = spoken(options.text, screen)
    event = session.note(text, for_next=options.for_next, key=options.key)
    kept = "noted for whoever comes next" if options.for_next else "noted"
    confirm(session, event, screen, kept)
    tell_finished(session, screen)


def _decide_arguments(parser: Parser) -> None:
    parser.add_argument("what", metavar="WHAT", help="what was decided; - reads it from stdin")
    parser.add_argument("--because", default="", metavar="REASON", help="why")
    parser.add_argument(
        "--option",
        dest="options",
        action="append",
        default=[],
        metavar="OPTION",
        help="what could have been chosen; once for each",
    )
    parser.add_argument("--chosen", default="", metavar="OPTION", help="the option that was taken")
    with_key(parser)


def run_decide(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.decide(
        spoken(options.what, screen),
        because=options.because,
        options=options.options,
        chosen=options.chosen,
        key=options.key,
    )
    body: Any = event.body
    rejected = [one for one in body.options if body.chosen and one != body.chosen]
    left = undecided(body.what, body.chosen, body.options)
    said = f"decided; rejected: {', '.join(rejected)}" if rejected else "decided"
    said = f"kept; still open: {', '.join(left)}" if left else said
    confirm(session, event, screen, shorten(said, _SAID))


def _error_arguments(parser: Parser) -> None:
    parser.add_argument("message", metavar="MSG", help="what went wrong; - reads it from stdin")
    parser.add_argument("--agent", default="", metavar="AGENT", help="the agent it happened to")
    with_category(parser)
    with_key(parser)


def run_error(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.record.error(
        spoken(options.message, screen),
        category=options.category,
        agent=options.agent,
        key=options.key,
    )
    confirm(session, event, screen, f"{options.category} error kept")


def _command_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="the command that ran")
    add("--arguments", default="", metavar="TEXT", help="what it was given")
    add("--status", choices=COMMAND_STATUSES, default=COMMAND_STATUSES[0], help="how it ended")
    add("--duration-ms", type=count, default=None, metavar="N", help="how long it took")
    add("--error", default="", metavar="TEXT", help="what it said when it failed")
    add("--agent", default="", metavar="AGENT", help="who ran it")
    add("--task", default="", metavar="TASK", help="the task it was run for")
    add("--model", default="", metavar="MODEL", help="the model at work")
    with_key(parser)


def run_command(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.record.command(
        options.name,
        arguments=options.arguments,
        status=options.status,
        duration_ms=options.duration_ms,
        error=options.error,
        agent=options.agent,
        task=options.task,
        model=options.model,
        key=options.key,
    )
    said = shorten(f"{getattr(event.body, 'name', '')}: {options.status}", _SAID)
    confirm(session, event, screen, said)


def _file_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("path", metavar="PATH", help="a file of the project")
    add("--action", choices=ACTIONS, default="", help="what was done")
    add("--agent", default="", metavar="AGENT", help="who did it")
    add("--added", type=count, default=None, metavar="N", help="lines added")
    add("--removed", type=count, default=None, metavar="N", help="lines removed")
    add("--before", default="", metavar="SHA", help="SHA-256 before the change")
    add("--after", default="", metavar="SHA", help="SHA-256 after it")
    with_key(parser)
    parser.description = f"{parser.description} What is not given is worked out."


def run_file(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.record.file(
        options.path,
        action=options.action,
        agent=options.agent,
        added=options.added,
        removed=options.removed,
        before=options.before,
        after=options.after,
        key=options.key,
    )
    body: Any = event.body
    lines = [f"+{body.added}" if body.added else "", f"-{body.removed}" if body.removed else ""]
    said = " ".join(filter(None, [body.action, body.path, *lines]))
    hashed = body.after or body.action == "deleted"
    confirm(session, event, screen, said, "" if hashed else _not_hashed(options.path))


def _not_hashed(path: str) -> Part:
    """Why a change of the file will not be noticed."""
    try:
        size = os.path.getsize(path)
    except OSError:
        return " (not hashed: it is not there)"
    return f" ({size:,} bytes, not hashed: later changes will not be noticed)", "yellow"


def _artifact_arguments(parser: Parser) -> None:
    parser.add_argument("path", metavar="PATH", help="a file of the project")
    parser.add_argument("--to", default="", metavar="FILE", help="write what is kept of it there")
    parser.add_argument("--force", action="store_true", help="with --to: also over a file")
    with_key(parser)


def run_artifact(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    if options.to:
        _write_artifact(options, session, screen)
        return
    event = session.record.artifact(options.path, key=options.key)
    body: Any = event.body
    if body.kept:
        said = f"kept {body.path} ({body.size:,} bytes)"
    else:
        said = f"kept only the digest of {body.path}: it holds secrets"
    confirm(session, event, screen, said)


def _write_artifact(options: Namespace, session: Session, screen: Screen) -> None:
    import os

    to = os.path.abspath(options.to)
    size = session.files.write_artifact(options.path, to, overwrite=options.force)
    screen.answer({"session": session.id, "path": options.path, "file": to, "size": size})
    screen.done(("Wrote ", "green"), f"{options.path} to {to} ({size:,} bytes)")


def _tokens_arguments(parser: Parser) -> None:
    parser.add_argument("count", type=count, metavar="N", help="tokens in the context now")
    parser.add_argument("--agent", default="", metavar="AGENT", help="of this agent")
    with_key(parser)


def run_tokens(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.record.tokens(options.count, agent=options.agent, key=options.key)
    confirm(session, event, screen, f"{options.count:,} tokens")


def _compressed_arguments(parser: Parser) -> None:
    parser.add_argument("--summary", default="", metavar="TEXT", help="what it was reduced to")
    with_key(parser)


def run_compressed(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay)
    event = session.record.compaction(spoken(options.summary, screen), key=options.key)
    confirm(session, event, screen, "compression kept", then="forestay brief")


def _undo_arguments(parser: Parser) -> None:
    parser.add_argument(
        "event", nargs="?", metavar="EVENT", help="its number in the log, or its id"
    )
    parser.add_argument("--because", default="", metavar="REASON", help="why")
    with_key(parser)


def run_undo(options: Namespace, stay: Forestay, screen: Screen) -> None:
    session = meant(stay, finished=True)
    event = session.undo(options.event, because=options.because, key=options.key)
    said = "" if screen.json else _withdrawn(session, event)
    confirm(session, event, screen, said)
    line = screen.as_typed(f"forestay undo {event.seq}")
    screen.done(("  to bring it back: ", "dim"), (line, "cyan"))


def _withdrawn(session: Session, last: Event) -> str:
    """What an undo took back, by its last event: all that was recorded together."""
    from forestay.cli.event_lines import about

    lines = list(session.log())
    ours = [line.event for line in lines if line.event.id.startswith(last.id)]
    gone = {getattr(event.body, "event", "") for event in ours}
    told = [(line.event.seq, *about(line)) for line in lines if line.event.id in gone]
    words = [f"#{seq} {word} {text}" for seq, word, text in told]
    return shorten(f"withdrawn: {', '.join(words)}", 2 * _SAID)


COMMANDS = {
    "note": Command(
        _note_arguments,
        run_note,
        'forestay note "the primary method is bootstrap"',
        'forestay note --for-next "run the slow tests first"',
        "git diff --stat | forestay note -",
    ),
    "decide": Command(
        _decide_arguments,
        run_decide,
        'forestay decide "keep sessions in SQLite" --because "one file, no server"',
        'forestay decide "database" --option SQLite --option Postgres --chosen SQLite',
    ),
    "record error": Command(
        _error_arguments,
        run_error,
        'forestay record error "the API answers 503" --category transient',
    ),
    "record command": Command(
        _command_arguments,
        run_command,
        'forestay record command pytest --arguments "-q tests" --duration-ms 5300',
        'forestay record command make --status failure --error "no rule to make target x"',
    ),
    "record file": Command(
        _file_arguments,
        run_file,
        "forestay record file src/login.py",
        "forestay record file a.py --agent code-1",
    ),
    "record artifact": Command(
        _artifact_arguments,
        run_artifact,
        "forestay record artifact report.pdf",
        "forestay record artifact report.pdf --to old-report.pdf",
    ),
    "record tokens": Command(
        _tokens_arguments,
        run_tokens,
        "forestay record tokens 25000",
        "forestay record tokens 900 --agent code-1",
    ),
    "record compaction": Command(
        _compressed_arguments, run_compressed, "forestay record compaction"
    ),
    "undo": Command(
        _undo_arguments, run_undo, "forestay undo", 'forestay undo 12 --because "wrong session"'
    ),
}
