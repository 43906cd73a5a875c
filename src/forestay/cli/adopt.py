"""The command adopt: turn session files and transcripts of other programs into sessions."""

from __future__ import annotations

import os
from itertools import count

from forestay.base.text import plural
from forestay.base.vocabulary import FINISHED
from forestay.cli.arguments import Command, arg, flag
from forestay.cli.files import WORKFLOWS
from forestay.cli.suggestions import quoted_path, short_path, shorten_paths
from forestay.cli.terminal import pick
from forestay.errors import DAMAGED, InvalidInput
from forestay.formats.port import load_format

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from forestay.agents.transcripts.find import Transcript
    from forestay.api.values import TranscriptInfo
    from forestay.cli.types import Forestay, Namespace, Screen
    from forestay.mirror.adopt import Adopted

_PROBLEMS, _KINDS = 6, 6
_MOST_SHOWN = 40
_OUTCOMES = {
    "adopted": "green",
    "edited": "green",
    "moved": "green",
    "grown": "green",
    "known": "dim",
    "copy": "dim",
    "template": "dim",
    "recorded": "dim",
    "empty": "dim",
    "forgotten": "dim",
    "rival": "yellow",
    "unreadable": "red",
}
_CHANGES = ("adopted", "edited", "moved", "grown")
_WHY = {
    "recorded": "its hooks already recorded it",
    "empty": "nothing was asked or done in it",
    "forgotten": "you erased it",
}


def run_adopt(options: Namespace, stay: Forestay, screen: Screen) -> int:
    if options.transcripts:
        return _adopt_transcripts(options, stay, screen)
    if options.since:
        raise InvalidInput(
            "--since works only with --transcripts", hint="forestay adopt --transcripts AGENT"
        )
    met, shown = count(1), count()

    def show(one: Adopted) -> None:
        screen.progress(f"{next(met)} read: {short_path(one.path)}")
        if one.problems or _is_shown(next(shown), options, screen):
            screen.progress()
            _print_adopted(one, screen, dry_run=options.dry_run)

    given = pick(options, "dry_run templates workflows")
    found = stay.files.adopt(options.path, **given, on_adopted=show)
    screen.progress()
    names = "path format? native_id=native? session? outcome new=is_new events artifacts bound"
    reading = "generation? complete status? progress warning?"
    values = [
        {**pick(one, names, "problems errors"), **pick(one.reading, reading)} for one in found
    ]
    screen.answer(adopted=values)
    if not found:
        where = short_path(options.path) if options.path else "this project"
        screen.prose(("nothing  ", "yellow"), f"no session files found in {where}")
    elif len(found) > 1:
        # One session can have files in several formats.
        sessions = len({one.session or one.path for one in found})
        places = "" if sessions == len(found) else f" in {len(found)} places"
        _print_counts(f"{plural(sessions, 'session')}{places}", found, options, screen)
    warnings = [one.reading.warning for one in found if one.session and one.reading.warning]
    for warning in dict.fromkeys(warnings):
        many = plural(warnings.count(warning), "session")
        screen.prose(("warning    ", "yellow"), f"{warning} ({many})")
    new = [one for one in found if one.outcome == "adopted" and one.reading.status not in FINISHED]
    if new and not options.dry_run:
        screen.hint("resume one: ", f"forestay resume {new[0].session}")
    way = " ".join(filter(None, ["forestay adopt", options.path and quoted_path(options.path)]))
    if any(one.outcome == "template" for one in found):
        screen.hint("to include templates: ", f"{way} --templates")
    if all(one.path.endswith(".jsonl") and not one.format for one in found):
        screen.hint("conversations of an agent: ", f"{way} --transcripts claude-code")
    stuck = any(one.outcome in ("rival", "unreadable") for one in found)
    return DAMAGED if stuck and not any(one.session for one in found) else 0


def _is_shown(number: int, options: Namespace, screen: Screen) -> bool:
    """Return whether a result without problems is shown; on a terminal only the first ones."""
    return options.all or number < _MOST_SHOWN or not screen.is_terminal


def _verb(outcome: str, dry_run: bool) -> str:
    return f"would be {outcome}" if dry_run and outcome in _CHANGES else outcome


def _print_counts(
    what: str, found: Sequence[Adopted | TranscriptInfo], options: Namespace, screen: Screen
) -> None:
    outcomes = [one.outcome for one in found]
    counts = [(outcomes.count(word), _verb(word, options.dry_run)) for word in _OUTCOMES]
    screen.done(f"{what}: {', '.join(f'{number} {verb}' for number, verb in counts if number)}")
    if screen.is_terminal and len(found) > _MOST_SHOWN and not options.all:
        screen.done(("all of them: --all", "dim"))


def _print_adopted(one: Adopted, screen: Screen, *, dry_run: bool) -> None:
    indent = " " * (18 if dry_run else 11)
    counts = [plural(one.events, "event")] if one.events else []
    counts += [plural(one.artifacts, "artifact")] if one.artifacts else []
    about = ", ".join(filter(None, [one.format, *counts]))
    # Copies of one session have the same id, so show their paths.
    what = short_path(one.path) if one.outcome == "copy" or not one.session else one.session
    verb = _verb(one.outcome, dry_run).ljust(len(indent))
    screen.line((verb, _OUTCOMES[one.outcome]), what, (f"  {about}" if about else "", "dim"))
    for problem in one.problems[:_PROBLEMS]:
        screen.prose(indent, shorten_paths(problem), "yellow")
    more = one.problems[_PROBLEMS:]
    counts = [f"{len(more)} more"] if more else []
    counts += [plural(one.errors, "error")] if one.errors else []
    if counts:
        # Where a session consists of several files, `files check` needs their folder.
        has_folder = one.format and "/" in load_format(one.format).files(one.native or "x")[0]
        path = os.path.dirname(one.path) if has_folder else one.path
        # What was saved from unreadable files is shown by `doctor`, not by `files check`.
        was_saved = any(problem.startswith(("inferred: ", "lost: ")) for problem in more)
        shows = "doctor" if was_saved else "files check"
        screen.line(indent, (f"{', '.join(counts)}:", "dim"))
        screen.suggest(f"{indent}→ ", f"forestay {shows} {quoted_path(path)}")


# -- transcripts -------------------------------------------------------------------------------


def _adopt_transcripts(options: Namespace, stay: Forestay, screen: Screen) -> int:
    found: list[TranscriptInfo] = []

    def part(one: Transcript, entries: int) -> None:
        screen.progress(f"{len(found)} done, {entries:,} entries read in {short_path(one.path)}")

    def show(one: TranscriptInfo) -> None:
        found.append(one)
        screen.progress(f"{len(found)} done: {short_path(one.path)}")
        if one.problems or _is_shown(len(found) - 1, options, screen):
            screen.progress()
            _print_transcript(one, screen, dry_run=options.dry_run)

    given = pick(options, "since dry_run")
    stay.agents.adopt_transcripts(
        options.transcripts, options.path, **given, on_part=part, on_adopted=show
    )
    screen.progress()
    names = "agent native_id=native path folder? session? outcome goal? events missed problems"
    values = []
    for one in found:
        times = {name: one.as_json()[name] for name in ("began_at", "last_at")}
        values.append({**pick(one, names), **times})
    screen.answer(transcripts=values)
    if not found:
        where = short_path(options.path) if options.path else "the agent's usual folder"
        since = f" since {options.since}" if options.since else ""
        nothing = f"no transcripts of {options.transcripts} found in {where}{since}"
        screen.prose(("nothing  ", "yellow"), nothing)
        screen.hint(
            "if they are elsewhere: ", f"forestay adopt --transcripts {options.transcripts} PATH"
        )
        return 0
    _print_counts(plural(len(found), "conversation"), found, options, screen)
    new = [one.session for one in found if one.outcome in _CHANGES]
    if new and not options.dry_run:
        screen.hint("their content is unconfirmed; resume one: ", f"forestay resume {new[-1]}")
    return DAMAGED if all(one.outcome == "unreadable" for one in found) else 0


def _print_transcript(one: TranscriptInfo, screen: Screen, *, dry_run: bool) -> None:
    indent = " " * (18 if dry_run else 11)
    began = f"{one.began_at:%Y-%m-%d}" if one.began_at else ""
    counts = plural(one.events, "event") if one.events else ""
    about = ", ".join(filter(None, [began, counts, _WHY.get(one.outcome, "")]))
    verb = _verb(one.outcome, dry_run).ljust(len(indent))
    what = one.session or short_path(one.path)
    screen.line((verb, _OUTCOMES[one.outcome]), what, (f"  {about}", "dim"))
    if one.goal:
        screen.line(indent, one.goal)
    if one.missed:
        most = sorted(one.missed.items(), key=lambda item: (-item[1], item[0]))
        kinds = [f"{kind} {number:,}" for kind, number in most[:_KINDS]]
        rest = sum(number for _, number in most[_KINDS:])
        kinds += [f"others {rest:,}"] if rest else []
        screen.line(indent, (f"not understood: {', '.join(kinds)}", "yellow"))
    for problem in one.problems:
        screen.line(indent, (problem, "yellow"))


_TRANSCRIPTS = "import the conversations that this agent has stored"
_STORED_BY = ("claude-code", "codex", "gemini")

COMMANDS = {
    "adopt": Command(
        run_adopt,
        arg("path?", "PATH", "a file or folder; default: this project and your essays"),
        arg("--transcripts", "", _TRANSCRIPTS, choices=_STORED_BY),
        arg("--since", "WHEN", "transcripts changed since: 36h, 30d, 2026-01-31"),
        flag("--dry-run", "only show what would be adopted"),
        WORKFLOWS,
        flag("--templates", "also templates that are not filled in"),
        flag("--all", "print every session, also if there are many"),
        "forestay adopt",
        "forestay adopt ../old-project --dry-run",
        "forestay adopt --transcripts claude-code --since 30d",
    )
}
