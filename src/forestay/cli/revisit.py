"""Going back to a step: what it would mean, doing it, and taking it back."""

from __future__ import annotations

from forestay.cli.arguments import Command, Parser, with_key
from forestay.cli.common import confirm, meant
from forestay.errors import DONE, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.cli.terminal import Screen
    from forestay.plans.revisit import Look

_IMPACTS = ("minor", "moderate", "major")
_COLOURS = {"minor": "green", "moderate": "yellow", "major": "red"}
_LINES = {"+": "green", "-": "red"}


def _revisit_arguments(parser: Parser) -> None:
    add = parser.add_argument
    add("step", nargs="?", default="", metavar="STEP", help="a phase or stage, or a task's id")
    add("--impact", choices=_IMPACTS, default="", help="minor, moderate or major, if not as shown")
    add("--apply", action="store_true", help="do it; without, nothing is changed")
    add("--undo", action="store_true", help="take the last one back, with its files")
    add("--because", default="", metavar="REASON", help="why")
    with_key(parser)


def run_revisit(options: Namespace, stay: Forestay, screen: Screen) -> int:
    if bool(options.step) == options.undo:
        raise InvalidInput("name a step, or use --undo", hint="forestay revisit 1")
    if options.undo and (options.apply or options.impact):
        raise InvalidInput("--undo takes nothing but --because", hint="forestay revisit --undo")
    if options.undo:
        return _undo(meant(stay, finished=True), options, screen)
    if options.apply:
        return _apply(meant(stay, finished=True), options, screen)
    if options.because or options.key:
        raise InvalidInput("--because and --key go with --apply", hint="forestay revisit --apply 1")
    return _assess(stay.current(), options, screen)


def _assess(session: Session, options: Namespace, screen: Screen) -> int:
    look = session.revisit.preview(options.step, impact=options.impact)
    if screen.json:
        screen.answer({**session.status(), **look_values(look), "applied": False})
        return DONE
    screen.long()
    _tell(look, screen)
    chosen = f" --impact {options.impact}" if options.impact else ""
    screen.line("")
    screen.line("Nothing is changed yet. To do it: ", (_line(options.step, chosen), "cyan"))
    return DONE


def _line(step: str, chosen: str) -> str:
    return f'forestay revisit {step}{chosen} --apply --because "…"'


def _tell(look: Look, screen: Screen) -> None:
    found = look.assessment
    for line in found.diff:
        screen.line((line, _LINES.get(line[:1], "")))
    if found.diff:
        screen.line("")
    other = f" (proposed: {found.proposed})" if found.impact != found.proposed else ""
    screen.line("Impact: ", (found.impact, _COLOURS[found.impact]), other)
    for reason in found.reasons:
        screen.line(f"  because {reason}")
    if found.impact == "major":
        screen.line(("  all later work would begin anew", "yellow"))
    screen.fields(
        [
            ("goes on with", found.step),
            ("to review", ", ".join(found.review)),
            ("begins anew", ", ".join(found.reset)),
            *_versions(look),
            ("left to do", "; ".join(look.pending)),
        ]
    )


def _versions(look: Look) -> list[tuple[str, str]]:
    """A line for every file that becomes a version."""
    lines = [f"{path} → {name}" for path, name in look.versions.items()]
    return [("kept as" if place == 0 else "", line) for place, line in enumerate(lines)]


def _apply(session: Session, options: Namespace, screen: Screen) -> int:
    look, event = session.revisit.apply(
        options.step, impact=options.impact, because=options.because, key=options.key
    )
    found = look.assessment
    said = f"back at {found.step}, impact {found.impact}"
    counts = [
        f"{len(found.review)} to review" if found.review else "",
        f"{len(found.reset)} begin anew" if found.reset else "",
        f"{len(look.versions)} kept as versions" if look.versions else "",
    ]
    told = ", ".join(filter(None, counts))
    values = {**look_values(look), "applied": True} if screen.json else {}
    confirm(session, event, screen, f"{said}{f'; {told}' if told else ''}", **values)
    screen.done(("  to take it back: ", "dim"), ("forestay revisit --undo", "cyan"))
    return DONE


def _undo(session: Session, options: Namespace, screen: Screen) -> int:
    event = session.revisit.undo(because=options.because, key=options.key)
    confirm(
        session, event, screen, "the last revisit is taken back; its files have their names again"
    )
    return DONE


def look_values(look: Look) -> dict[str, Any]:
    """An assessment as JSON values."""
    found = look.assessment
    return {
        "step": found.step,
        "impact": found.impact,
        "proposed": found.proposed,
        "reasons": list(found.reasons),
        "diff": list(found.diff),
        "review": list(found.review),
        "reset": list(found.reset),
        "archive": list(found.archive),
        "versions": dict(look.versions),
        "pending": list(look.pending),
    }


COMMANDS = {
    "revisit": Command(
        _revisit_arguments,
        run_revisit,
        "forestay revisit 1",
        'forestay revisit 1 --impact moderate --apply --because "a better thesis"',
        "forestay revisit --undo",
    ),
}
