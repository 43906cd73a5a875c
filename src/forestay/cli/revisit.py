"""The command revisit: preview going back to a step, do it, and undo it."""

from __future__ import annotations

from forestay.cli.arguments import KEY, Command, arg, flag
from forestay.cli.common import confirm, current_session
from forestay.cli.terminal import pick
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.types import Any, Forestay, Namespace, Screen, Session
    from forestay.plans.revisit import Look

_COLORS = {"minor": "green", "moderate": "yellow", "major": "red"}
_LINES = {"+": "green", "-": "red"}


def run_revisit(options: Namespace, stay: Forestay, screen: Screen) -> None:
    if bool(options.step) == options.undo:
        raise InvalidInput("name a step, or use --undo", hint="forestay revisit 1")
    if options.undo and (options.apply or options.impact):
        raise InvalidInput("--undo accepts only --because", hint="forestay revisit --undo")
    if options.undo:
        session = current_session(stay, finished=True)
        event = session.revisit.undo(because=options.because, key=options.key)
        confirm(session, event, screen, "the last revisit is undone; its files are back")
    elif options.apply:
        _apply(current_session(stay, finished=True), options, screen)
    elif options.because or options.key:
        raise InvalidInput("--because and --key need --apply", hint="forestay revisit --apply 1")
    else:
        _preview(stay.current(), options, screen)


def _preview(session: Session, options: Namespace, screen: Screen) -> None:
    preview = session.revisit.preview(options.step, impact=options.impact)
    screen.answer(session.status, preview_values(preview), applied=False)
    screen.start_paging()
    found = preview.assessment
    for line in found.diff:
        screen.line((line, _LINES.get(line[:1], "")))
    if found.diff:
        screen.line()
    other = f" (proposed: {found.proposed})" if found.impact != found.proposed else ""
    screen.line("Impact: ", (found.impact, _COLORS[found.impact]), other)
    for reason in found.reasons:
        screen.line(f"  because {reason}")
    if found.impact == "major":
        screen.line(("  all later work would start again", "yellow"))
    versions = [f"{path} → {name}" for path, name in preview.versions.items()]
    screen.fields(
        [
            ("continues with", found.step),
            ("to review", ", ".join(found.review)),
            ("starts again", ", ".join(found.reset)),
            *(("saved as" if n == 0 else "", line) for n, line in enumerate(versions)),
            ("left to do", "; ".join(preview.pending)),
        ]
    )
    chosen = f" --impact {options.impact}" if options.impact else ""
    screen.line()
    line = f'forestay revisit {options.step}{chosen} --apply --because "…"'
    screen.line("Nothing is changed yet. To do it: ", (line, "cyan"))


def _apply(session: Session, options: Namespace, screen: Screen) -> None:
    given = pick(options, "impact because key")
    preview, event = session.revisit.apply(options.step, **given)
    found = preview.assessment
    counts = [
        f"{len(found.review)} to review" if found.review else "",
        f"{len(found.reset)} to start again" if found.reset else "",
        f"{len(preview.versions)} saved as versions" if preview.versions else "",
    ]
    counted = ", ".join(filter(None, counts))
    message = f"back at {found.step}, impact {found.impact}" + (f"; {counted}" if counted else "")
    values = {**preview_values(preview), "applied": True} if screen.json else {}
    confirm(session, event, screen, message, **values)
    screen.done(("  to undo it: ", "dim"), ("forestay revisit --undo", "cyan"))


def preview_values(preview: Look) -> dict[str, Any]:
    """Return a preview as JSON values."""
    lists = pick(preview.assessment, "reasons diff review reset archive")
    return {
        **pick(preview.assessment, "step impact proposed"),
        **{name: list(values) for name, values in lists.items()},
        "versions": dict(preview.versions),
        "pending": list(preview.pending),
    }


COMMANDS = {
    "revisit": Command(
        run_revisit,
        arg("step?", "STEP", "a phase or stage, or a task's id"),
        arg("--impact", "", "default: as proposed", choices=tuple(_COLORS)),
        flag("--apply", "do it; without this, nothing is changed"),
        flag("--undo", "undo the last one, with its files"),
        arg("--because", "REASON", "why"),
        KEY,
        "forestay revisit 1",
        'forestay revisit 1 --impact moderate --apply --because "a better thesis"',
        "forestay revisit --undo",
    )
}
