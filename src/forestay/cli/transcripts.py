"""What agents wrote down of their conversations, as sessions: what became of each, in lines."""

from __future__ import annotations

from forestay.base.clock import iso
from forestay.base.text import plural
from forestay.cli.suggestions import shown_path
from forestay.errors import DAMAGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.agents.import_transcripts import TranscriptImport
    from forestay.agents.transcripts.find import Transcript
    from forestay.api.forestay import Forestay
    from forestay.cli.terminal import Screen

_MOST_SHOWN = 40
_KINDS = 6
_OUTCOMES = {
    "adopted": "green",
    "grown": "green",
    "known": "dim",
    "recorded": "dim",
    "empty": "dim",
    "forgotten": "dim",
    "unreadable": "red",
}
_WHY = {
    "recorded": "its hooks told it already",
    "empty": "nothing was asked or done in it",
    "forgotten": "you let it be forgotten",
}


def run_transcripts(options: Namespace, stay: Forestay, screen: Screen) -> int:
    found: list[TranscriptImport] = []

    def part(one: Transcript, heard: int) -> None:
        screen.progress(f"{len(found)} done, {heard:,} things heard in {shown_path(one.path)}")

    def tell(one: TranscriptImport) -> None:
        found.append(one)
        screen.progress(f"{len(found)} done: {shown_path(one.path)}")
        if options.all or one.problems or len(found) <= _MOST_SHOWN or not screen.is_terminal:
            screen.progress()
            _tell(one, screen, dry_run=options.dry_run)

    stay.agents.adopt_transcripts(
        options.transcripts,
        options.path,
        since=options.since,
        dry_run=options.dry_run,
        on_part=part,
        on_adopted=tell,
    )
    screen.progress()
    screen.answer({"transcripts": [_values(one) for one in found]})
    _tell_all(found, options, screen)
    bad = found and all(one.outcome == "unreadable" for one in found)
    return DAMAGED if bad else 0


def _values(one: TranscriptImport) -> dict[str, Any]:
    return {
        "agent": one.agent,
        "native_id": one.native,
        "path": one.path,
        "folder": one.folder or None,
        "session": one.session or None,
        "outcome": one.outcome,
        "goal": one.goal or None,
        "began_at": iso(one.began) if one.began else None,
        "last_at": iso(one.last) if one.last else None,
        "events": one.events,
        "missed": one.missed,
        "problems": one.problems,
    }


def _tell(one: TranscriptImport, screen: Screen, *, dry_run: bool) -> None:
    verb = "would be" if dry_run and one.outcome == "adopted" else one.outcome
    when = iso(one.began)[:10] if one.began else ""
    counts = plural(one.events, "event") if one.events else ""
    about = ", ".join(filter(None, [when, counts, _WHY.get(one.outcome, "")]))
    what = one.session or shown_path(one.path)
    screen.line((f"{verb:<11}", _OUTCOMES[one.outcome]), what, (f"  {about}", "dim"))
    if one.goal:
        screen.line("           ", one.goal)
    if one.missed:
        screen.line("           ", (f"not understood: {_kinds(one.missed)}", "yellow"))
    for problem in one.problems:
        screen.line("           ", (problem, "yellow"))


def _kinds(missed: dict[str, int]) -> str:
    most = sorted(missed.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{kind} {n:,}" for kind, n in most[:_KINDS]]
    rest = sum(n for _, n in most[_KINDS:])
    return ", ".join([*shown, *([f"others {rest:,}"] if rest else [])])


def _tell_all(found: list[TranscriptImport], options: Namespace, screen: Screen) -> None:
    if not found:
        where = shown_path(options.path) if options.path else "the place where it keeps them"
        since = f" since {options.since}" if options.since else ""
        nothing = f"no transcript of {options.transcripts} is in {where}{since}"
        screen.prose(("nothing  ", "yellow"), nothing)
        return
    counts = {word: sum(one.outcome == word for one in found) for word in _OUTCOMES}
    would = ("adopted", "grown") if options.dry_run else ()
    said = ", ".join(f"{n} {'would be ' * (w in would)}{w}" for w, n in counts.items() if n)
    screen.done(f"{plural(len(found), 'conversation')}: {said}")
    new = [one.session for one in found if one.outcome in ("adopted", "grown")]
    if new and not options.dry_run:
        screen.hint("their words are unconfirmed; pick one up: ", f"forestay resume {new[-1]}")
