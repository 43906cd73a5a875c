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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.agents.transcripts.find import Transcript
    from forestay.api.values import TranscriptInfo
    from forestay.cli.types import Any, Forestay, Namespace, Screen
    from forestay.mirror.adopt import Adopted

_PROBLEMS, _KINDS = 6, 6
_MOST_SHOWN = 40
_OUTCOMES = {
    "adopted": "green",
    "edited": "green",
    "moved": "green",
    "known": "dim",
    "copy": "dim",
    "template": "dim",
    "rival": "yellow",
    "unreadable": "red",
}
_CHANGES = ("adopted", "edited", "moved")
_TRANSCRIPT_OUTCOMES = {
    "adopted": "green",
    "grown": "green",
    "known": "dim",
    "recorded": "dim",
    "empty": "dim",
    "forgotten": "dim",
    "unreadable": "red",
}
_WHY = {
    "recorded": "its hooks already recorded it",
    "empty": "nothing was asked or done in it",
    "forgotten": "you erased it",
}


# -- session files -----------------------------------------------------------------------------


def run_adopt(options: Namespace, stay: Forestay, screen: Screen) -> int:
    if options.transcripts:
        return run_transcripts(options, stay, screen)
    if options.since:
        raise InvalidInput("--since is for transcripts", hint="forestay adopt --transcripts AGENT")
    met = count(1)
    shown: list[Adopted] = []

    def show(one: Adopted) -> None:
        screen.progress(f"{next(met)} read: {short_path(one.path)}")
        if options.all or one.problems or len(shown) < _MOST_SHOWN or not screen.is_terminal:
            shown.append(one)
            screen.progress()
            _print_adopted(one, screen, dry_run=options.dry_run)

    adopted = stay.files.adopt(
        options.path,
        dry_run=options.dry_run,
        templates=options.templates,
        workflows=options.workflows,
        on_adopted=show,
    )
    screen.progress()
    screen.answer({"adopted": [_adopted_values(one) for one in adopted]})
    _print_all_adopted(adopted, options, screen, hidden=len(adopted) - len(shown))
    stuck = any(one.outcome in ("rival", "unreadable") for one in adopted)
    return DAMAGED if stuck and not any(one.session for one in adopted) else 0


def _verb(outcome: str, dry_run: bool) -> str:
    return f"would be {outcome}" if dry_run and outcome in _CHANGES else outcome


def _print_adopted(one: Adopted, screen: Screen, *, dry_run: bool) -> None:
    indent = " " * (18 if dry_run else 11)
    counts = [plural(one.events, "event")] if one.events else []
    counts += [plural(one.artifacts, "artifact")] if one.artifacts else []
    about = ", ".join(filter(None, [one.layout, *counts]))
    # Of several copies of one session, name the file.
    what = short_path(one.path) if one.outcome == "copy" or not one.session else one.session
    verb = _verb(one.outcome, dry_run).ljust(len(indent))
    screen.line((verb, _OUTCOMES[one.outcome]), what, (f"  {about}" if about else "", "dim"))
    for problem in one.problems[:_PROBLEMS]:
        screen.prose(indent, shorten_paths(problem), "yellow")
    more = one.problems[_PROBLEMS:]
    counts = [f"{len(more)} more"] if more else []
    counts += [plural(one.errors, "error")] if one.errors else []
    if counts:
        screen.line(indent, (f"{', '.join(counts)}:", "dim"))
        # A session of several files is checked as a folder.
        path = one.path if one.layout != "ai-session" else os.path.dirname(one.path)
        # What was saved from unreadable files is not a finding.
        was_saved = any(problem.startswith(("inferred: ", "lost: ")) for problem in more)
        shows = "doctor" if was_saved else "files check"
        screen.suggest(f"{indent}→ ", f"forestay {shows} {quoted_path(path)}")


def _print_all_adopted(
    adopted: list[Adopted], options: Namespace, screen: Screen, *, hidden: int
) -> None:
    if hidden:
        screen.line((f"           {hidden} more like these (all of them: --all)", "dim"))
    if not adopted:
        where = short_path(options.path) if options.path else "this project"
        screen.prose(("nothing  ", "yellow"), f"no session file is in {where}")
    elif len(adopted) > 1:
        outcomes = [one.outcome for one in adopted]
        counts = [(outcomes.count(word), _verb(word, options.dry_run)) for word in _OUTCOMES]
        # One session may have files in several formats.
        sessions = len({one.session or one.path for one in adopted})
        places = "" if sessions == len(adopted) else f" in {len(adopted)} places"
        message = ", ".join(f"{number} {verb}" for number, verb in counts if number)
        screen.done(f"{plural(sessions, 'session')}{places}: {message}")
    warnings = [one.reading.warning for one in adopted if one.session and one.reading.warning]
    for warning in dict.fromkeys(warnings):
        many = plural(warnings.count(warning), "session")
        screen.prose(("warning    ", "yellow"), f"{warning} ({many})")
    new = [one for one in adopted if one.outcome == "adopted"]
    for one in [one for one in new if one.reading.status not in FINISHED][:1]:
        if not options.dry_run:
            screen.hint("resume one: ", f"forestay resume {one.session}")
    way = " ".join(filter(None, ["forestay adopt", options.path and quoted_path(options.path)]))
    if any(one.outcome == "template" for one in adopted):
        screen.hint("to include templates: ", f"{way} --templates")
    if all(one.path.endswith(".jsonl") and not one.layout for one in adopted):
        screen.hint("conversations of an agent: ", f"{way} --transcripts claude-code")


def _adopted_values(one: Adopted) -> dict[str, Any]:
    names = "path layout? native_id=native? session? outcome new=is_new events artifacts bound"
    reading = pick(one.reading, "generation? complete status? progress warning?")
    return {**pick(one, names, "problems errors"), **reading}


# -- transcripts -------------------------------------------------------------------------------


def run_transcripts(options: Namespace, stay: Forestay, screen: Screen) -> int:
    found: list[TranscriptInfo] = []

    def part(one: Transcript, entries: int) -> None:
        screen.progress(f"{len(found)} done, {entries:,} entries read in {short_path(one.path)}")

    def show(one: TranscriptInfo) -> None:
        found.append(one)
        screen.progress(f"{len(found)} done: {short_path(one.path)}")
        if options.all or one.problems or len(found) <= _MOST_SHOWN or not screen.is_terminal:
            screen.progress()
            _print_transcript(one, screen, dry_run=options.dry_run)

    stay.agents.adopt_transcripts(
        options.transcripts,
        options.path,
        since=options.since,
        dry_run=options.dry_run,
        on_part=part,
        on_adopted=show,
    )
    screen.progress()
    screen.answer({"transcripts": [_transcript_values(one) for one in found]})
    _print_all_transcripts(found, options, screen)
    return DAMAGED if found and all(one.outcome == "unreadable" for one in found) else 0


def _transcript_values(one: TranscriptInfo) -> dict[str, Any]:
    names = "agent native_id=native path folder? session? outcome goal? events missed problems"
    values = one.as_json()
    return {**pick(one, names), "began_at": values["began_at"], "last_at": values["last_at"]}


def _print_transcript(one: TranscriptInfo, screen: Screen, *, dry_run: bool) -> None:
    verb = "would be" if dry_run and one.outcome == "adopted" else one.outcome
    began = f"{one.began_at:%Y-%m-%d}" if one.began_at else ""
    counts = plural(one.events, "event") if one.events else ""
    about = ", ".join(filter(None, [began, counts, _WHY.get(one.outcome, "")]))
    what = one.session or short_path(one.path)
    screen.line((f"{verb:<11}", _TRANSCRIPT_OUTCOMES[one.outcome]), what, (f"  {about}", "dim"))
    if one.goal:
        screen.line("           ", one.goal)
    if one.missed:
        most = sorted(one.missed.items(), key=lambda item: (-item[1], item[0]))
        kinds = [f"{kind} {number:,}" for kind, number in most[:_KINDS]]
        rest = sum(number for _, number in most[_KINDS:])
        kinds += [f"others {rest:,}"] if rest else []
        screen.line("           ", (f"not understood: {', '.join(kinds)}", "yellow"))
    for problem in one.problems:
        screen.line("           ", (problem, "yellow"))


def _print_all_transcripts(found: list[TranscriptInfo], options: Namespace, screen: Screen) -> None:
    if not found:
        where = short_path(options.path) if options.path else "the agent's usual folder"
        since = f" since {options.since}" if options.since else ""
        nothing = f"no transcript of {options.transcripts} is in {where}{since}"
        screen.prose(("nothing  ", "yellow"), nothing)
        return
    outcomes = [one.outcome for one in found]
    would = ("adopted", "grown") if options.dry_run else ()
    counts = [
        (outcomes.count(word), "would be " * (word in would) + word)
        for word in _TRANSCRIPT_OUTCOMES
    ]
    message = ", ".join(f"{number} {verb}" for number, verb in counts if number)
    screen.done(f"{plural(len(found), 'conversation')}: {message}")
    new = [one.session for one in found if one.outcome in ("adopted", "grown")]
    if new and not options.dry_run:
        screen.hint("their content is unconfirmed; resume one: ", f"forestay resume {new[-1]}")


COMMANDS = {
    "adopt": Command(
        run_adopt,
        arg("path?", "PATH", "a file or folder; default: this project and your essays"),
        arg(
            "--transcripts",
            "",
            "import the conversations that this agent has stored",
            choices=("claude-code", "codex", "gemini"),
        ),
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
