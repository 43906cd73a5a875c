"""resume and brief: what whoever comes next must know, in the tokens they can spare."""

from __future__ import annotations

import os

from forestay.api.followers import is_idle
from forestay.base.text import plural, shorten
from forestay.base.vocabulary import FORMATS, LEAST, MOST, STYLES
from forestay.cli.arguments import Command, Parser, count
from forestay.cli.common import at_work, is_essay, tell_others, tell_outvoted
from forestay.errors import DAMAGED, DONE, UNSETTLED, ForestayError, NoSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import Any

    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.briefing.brief import Briefing
    from forestay.cli.terminal import Part, Screen
    from forestay.sync.arrival import Pulled, Put


_FEW, _GOAL = 3, 40


def _brief_arguments(parser: Parser) -> None:
    parser.add_argument(
        "chosen", nargs="?", default="", metavar="SESSION", help="else the one meant here"
    )
    brief_arguments(parser)


def _resume_arguments(parser: Parser) -> None:
    _brief_arguments(parser)
    add = parser.add_argument
    add("--device", default="", metavar="NAME", help="the one worked on last on this device")
    add("--sync", choices=("true", "false"), default="true", help="false: ask no remote first")
    add("--no-sync", action="store_true", help="the same as --sync false")
    add("--restore", action="store_true", help="write artifacts that came with it and are missing")
    add("--force", action="store_true", help="with --restore: also over files that differ")


def resume_arguments(parser: Parser) -> None:
    """What a resume may be told where the session is named by a file that is here."""
    brief_arguments(parser)
    parser.set_defaults(device="", sync="false", no_sync=True, restore=False, force=False)


def brief_arguments(parser: Parser) -> None:
    """What a briefing may be told, whoever asks for it."""
    add = parser.add_argument
    add("--budget", type=count, metavar="N", help=f"tokens it may cost, from {LEAST} to {MOST}")
    styles = f"{', '.join(STYLES[:-1])} or {STYLES[-1]}"
    add("--style", default=STYLES[0], metavar="STYLE", help=styles)
    add("--format", choices=FORMATS, default=FORMATS[0], help="of the briefing")
    strict = "exit 7 also when files or the branch changed, and take nothing up"
    add("--strict", action="store_true", help=strict)
    add("--fence", action="store_true", help="quote the session's words for a model, always")
    add("--no-fence", action="store_true", help="never; if unsaid: quoted unless on a terminal")


def run_resume(options: Namespace, stay: Forestay, screen: Screen) -> int:
    stay.agents.catch_up()
    pulled = _pull(options, stay, screen)
    session = _to_resume(options, pulled, stay, screen)
    others = at_work(session)
    idle = _idle(session, stay)
    restored = session.files.restore_artifacts(force=options.force) if options.restore else []
    brief, is_taken_up = _taken_up(session, options, screen)
    summary = essay_summary(stay, session)
    wrong = [] if getattr(options, "anyway", False) else _discrepancies(stay, session)
    if summary:
        screen.line(summary)
    question = {"discrepancies": wrong, "question": _PROCEED, "choices": _WAYS} if wrong else {}
    more = {**question, **({"expiry": idle} if idle else {})}
    more |= _arrival(stay, brief, pulled, restored) | ({} if is_taken_up else {"resumed": False})
    tell_brief(brief, session, options, screen, others=others, summary=summary, more=more)
    if idle:
        from forestay.cli.status import tell_idle

        tell_idle(idle, screen)
    _tell_arrival(pulled, restored, screen)
    _tell_new(pulled, session, stay, screen)
    tell_outvoted(session, screen)
    tell_others(others, screen)
    _tell_unadopted(stay, screen)
    code = _warned(brief, exit_code(brief, strict=options.strict), screen)
    if not is_taken_up:
        line = f"  not taken up; to go on all the same: forestay resume {session.id}"
        screen.aside(screen.as_typed(line))
    return code or _tell_discrepancies(wrong, screen)


def _to_resume(
    options: Namespace, pulled: Pulled | None, stay: Forestay, screen: Screen
) -> Session:
    named = options.chosen or (stay.devices.last_session(options.device) if options.device else "")
    try:
        return _meant(named, stay, open_only=True)
    except NoSession as error:
        if error.choices and not named:
            _tell_missed(pulled, screen)
        raise _not_found(error, named, pulled, stay) from None


def _taken_up(session: Session, options: Namespace, screen: Screen) -> tuple[Briefing, bool]:
    """The briefing, and whether the session was taken up.

    A resume says what is checked out here, and then nothing has changed: who asks for `--strict`
    once more would be let through.
    """
    manner = _manner(options, screen)
    if options.strict and has_changed(seen := session.brief(**manner)):
        return seen, False
    return session.resume(**manner), True


def _pull(options: Namespace, stay: Forestay, screen: Screen) -> Pulled | None:
    """Ask other devices first, if there is a remote and nobody said not to."""
    remotes = stay.context.store.machine.remotes.all()
    if options.no_sync or options.sync == "false" or not remotes:
        return None
    found = stay.context.store.resolve(options.chosen) if options.chosen else []
    screen.progress(f"asking {', '.join(one.name for one in remotes)} …")
    try:
        pulled = stay.remotes.fetch(found[0] if len(found) == 1 else "")
    finally:
        screen.progress()
    return pulled if pulled.asked else None


def _not_found(error: NoSession, named: str, pulled: Pulled | None, stay: Forestay) -> NoSession:
    """A session that is not here may be elsewhere: why it did not come, and how it would."""
    remotes = stay.context.store.machine.remotes.all()
    if not remotes or (error.choices and not named):
        return error
    why, hint = _why_not_here(named, pulled, ", ".join(one.name for one in remotes))
    if named:
        hint = f"{hint}; what is here: forestay list --all"
    else:
        why = f"{why}; {error.why}".removesuffix("; ")
        hint = f"{hint}; or {error.hint}".removeprefix("; or ")
    return NoSession(error.what, why=why, hint=hint, choices=error.choices, session=named)


def _why_not_here(named: str, pulled: Pulled | None, asked: str) -> tuple[str, str]:
    if pulled is None:
        return (
            "no remote was asked",
            f"forestay resume {named}" if named else "forestay sync --pull",
        )
    if pulled.why:
        check = pulled.hint or "forestay remote check NAME"
        return f"not every remote could be asked: {pulled.why}", check
    if pulled.late:
        return pulled.late, "wait for it: forestay sync --pull"
    if pulled.closed:
        verb = "is" if pulled.closed == 1 else "are"
        why = f"{asked}: {plural(pulled.closed, 'session')} there {verb} not for this device"
        own, shared = "forestay device add --new-key", "forestay device key show"
        return why, f"yours, from another device: {own}; someone's, who shares with you: {shared}"
    if named:
        why = f"{asked} has none that this device may read"
        return why, "on the device where it is: forestay sync --push"
    return f"{asked} has none for this folder either", ""


def _arrival(
    stay: Forestay, brief: Briefing, pulled: Pulled | None, restored: list[Put]
) -> dict[str, Any]:
    """What arriving from elsewhere means, as data; nothing for a session that never travelled."""
    if not (brief.came_from or brief.lacking or pulled or restored):
        return {}
    told = {
        "from": stay.devices.name_of(brief.came_from) if brief.came_from else None,
        "synced": pulled is not None and not (pulled.why or pulled.late),
        "new": pulled.new if pulled else [],
        "events": pulled.events if pulled else 0,
        "problem": (pulled.why or pulled.late) if pulled else "",
        "lacking": [
            {"what": what, "text": text, "command": command}
            for what, text, command in brief.lacking
        ],
        "restored": [{"path": one.path, "result": one.word} for one in restored],
    }
    return {"arrival": told}


_RESTORED = {
    "written": "written",
    "same": "there already",
    "differs": "differs here, left as it is; to write it anyway: --force",
    "blocked": "a folder, a link or something else is in its place",
    "denied": "may not be written here; check owner and permissions of its folder",
    "unknown": "only its digest came with the session",
    "refused": "left out: tools may run something by it unasked, or it lies outside the project",
}


def _tell_arrival(pulled: Pulled | None, restored: list[Put], screen: Screen) -> None:
    if pulled and pulled.events:
        screen.aside(("taken from other devices: ", "green"), plural(pulled.events, "event"))
    _tell_missed(pulled, screen)
    for one in restored:
        screen.aside(f"{one.path}: {_RESTORED[one.word]}")
    if any(one.word == "refused" for one in restored) and not (screen.json or screen.quiet):
        screen.advise("look at what was left out first: forestay record artifact PATH --to FILE")


def _tell_missed(pulled: Pulled | None, screen: Screen) -> None:
    """That others' work could not be had first, and what that means."""
    if pulled is None or not (pulled.why or pulled.late) or screen.json or screen.quiet:
        return
    lead = "went on without: " if pulled.late else "not asked: "
    screen.explain((lead, "yellow"), pulled.why or pulled.late)
    if pulled.late:
        screen.advise(
            "the request continues in the background; to wait for it: forestay sync --pull"
        )
    else:
        screen.explain("  ", "this is what this device knows; work goes on, and syncs later")
        screen.advise(pulled.hint or "forestay remote list")


def _tell_new(pulled: Pulled | None, session: Session, stay: Forestay, screen: Screen) -> None:
    """What else came from other devices just now."""
    others = [one for one in (pulled.new if pulled else []) if one != session.id]
    for id in others[:_FEW]:
        line = (screen.as_typed(f"forestay resume {id}"), "cyan")
        screen.aside(("also new here: ", "green"), shorten(stay.goal(id), _GOAL), ": ", line)
    if more := len(others[_FEW:]):
        line = (screen.as_typed("forestay list --all"), "cyan")
        screen.aside(("also new here: ", "green"), f"{more} more: ", line)


def _discrepancies(stay: Forestay, session: Session) -> list[str]:
    """Where the state of an essay and its files contradict each other."""
    if not is_essay(session):
        return []
    from forestay.plans.essay_sessions import discrepancies

    return discrepancies(stay.context, session.id)


_PROCEED = "How do you want to proceed?"
_WAYS = {
    "mend": "put the files back, or write them anew; then: forestay resume",
    "revisit": "do the stage anew whose result is gone",
    "continue": "go on as the state says",
}


def _tell_discrepancies(wrong: list[str], screen: Screen) -> int:
    """The state of an essay contradicts its files: how to proceed is the user's to say."""
    if not wrong:
        return DONE
    for fault in wrong:
        screen.line(("error    ", "red"), fault)
    screen.line(_PROCEED)
    for word, says in _WAYS.items():
        screen.line(f"  {word}: ", says)
    return UNSETTLED


def _idle(session: Session, stay: Forestay) -> dict[str, Any]:
    """What inactivity meant until now: what the resume itself takes away."""
    try:
        if not is_idle(stay.context, session.id):
            return {}
        from forestay.cli.status import idle_values

        return idle_values(session.status(), stay)
    except ForestayError:
        return {}  # what is damaged is told by the briefing


def essay_summary(stay: Forestay, session: Session) -> str:
    """Where an essay was left, in its document's words."""
    if not is_essay(session):
        return ""
    from forestay.plans.essay_sessions import resume_summary

    return resume_summary(stay.context, session.id)


def _tell_unadopted(stay: Forestay, screen: Screen) -> None:
    others = stay.files.unadopted()
    if others:
        here = [os.path.relpath(path, stay.context.workspace.tree.root) for path in others]
        screen.aside(
            ("also here: ", "yellow"),
            f"session files of other programs in {', '.join(here)}",
            ("; to take them up: ", "dim"),
            (screen.as_typed("forestay adopt"), "cyan"),
        )


def run_brief(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session = _meant(options.chosen, stay, open_only=False)
    brief = session.brief(**_manner(options, screen))
    count = stay.agents.waiting()
    tell_brief(brief, session, options, screen, more={"waiting": count} if count else {})
    if count:
        from forestay.cli.status import tell_waiting

        tell_waiting(stay, screen)
    return _warned(brief, exit_code(brief, strict=options.strict), screen)


def _warned(brief: Briefing, code: int, screen: Screen) -> int:
    """Say on the error stream what an exit code other than 0 means here."""
    meaning = {
        DAMAGED: "this session is damaged; do not rely on it: forestay verify",
        UNSETTLED: "not everything is settled; look at it before going on (exit 7)",
    }
    if code:
        screen.aside(("attention: ", "yellow"), screen.as_typed(meaning[code]))
    unknown = [item.id for item in brief.items if item.section == "unknown"]
    if code == UNSETTLED and any(id != "interrupted" for id in unknown):
        line = "  when you know what became of it: forestay agent done|fail|retry ID"
        screen.aside(screen.as_typed(line))
    if code == UNSETTLED and brief.disputes:
        line = "  look at both sides, then say what stands: forestay settle"
        screen.aside(screen.as_typed(line))
    return code


def exit_code(brief: Briefing, *, strict: bool) -> int:
    """0 only if whoever goes on may rely on what the briefing says."""
    if "damaged" in brief.attention:
        return DAMAGED
    if brief.unknown_outcomes or brief.disputes or (strict and has_changed(brief)):
        return UNSETTLED
    return DONE


def has_changed(brief: Briefing) -> bool:
    """Whether something is not as it was left: files, the checkout, what there was elsewhere."""
    return not {"drifted", "stale", "lacking"}.isdisjoint(brief.attention)


def _meant(chosen: str, stay: Forestay, *, open_only: bool) -> Session:
    try:
        return stay.to_resume(chosen, open_only=open_only)
    except NoSession as error:
        raise error if chosen else _with_files(stay, error) from None


def _with_files(stay: Forestay, error: NoSession) -> NoSession:
    """The error, which also names session files of other programs that are here."""
    others = [] if stay.context.settings.session else stay.files.unadopted()
    if not others:
        return error
    root = stay.context.workspace.tree.root
    here = ", ".join(os.path.relpath(path, root) for path in others)
    why = f"{error.why}; session files of other programs are in {here}".removeprefix("; ")
    hint = "make them sessions of yours: forestay adopt"
    return NoSession(error.what, why=why, hint=hint, choices=error.choices)


def _manner(options: Namespace, screen: Screen) -> dict[str, Any]:
    fenced = options.fence or not (options.no_fence or screen.is_terminal)
    return {
        "budget": options.budget,
        "style": options.style,
        "fmt": options.format,
        "fenced": fenced,
    }


def tell_brief(
    brief: Briefing,
    session: Session,
    options: Namespace,
    screen: Screen,
    *,
    others: list[dict[str, Any]] | None = None,
    summary: str = "",
    more: dict[str, Any] | None = None,
) -> None:
    if not screen.json:
        screen.long()
        for line in brief.text.rstrip("\n").split("\n"):
            first, *rest = screen.wrapped(line)
            screen.line(*_dressed(first))
            for left in rest:
                screen.line(left)
        return
    values = {
        **session.status(),
        "attention": brief.attention,
        "briefing": _parsed(brief.text) if options.format == "json" else brief.text,
        "briefing_tokens": brief.tokens,
        "budget": brief.budget,
        "unknown_outcomes": brief.unknown_outcomes,
        "disputes": brief.disputes,
    }
    if summary:
        values["summary"] = summary
    values |= more or {}
    screen.answer(values if others is None else {**values, "others": others})


def _dressed(line: str) -> list[Part]:
    """Headings and labels stand out; on a terminal, that is."""
    label, colon, rest = line.partition(":")
    if not colon or not label[:1].isupper() or (rest and " " in label):
        return [line]
    return [(label + colon, "title"), rest]


def _parsed(text: str) -> object:
    import json

    return json.loads(text)


COMMANDS = {
    "resume": Command(
        _resume_arguments,
        run_resume,
        "forestay resume fix-login --budget 500",
        "forestay resume --device laptop --restore",
        "forestay resume --strict && run-the-agent",
    ),
    "brief": Command(
        _brief_arguments,
        run_brief,
        "forestay brief",
        "forestay brief --budget 300 --format markdown",
        "forestay brief --style orchestrator",
    ),
}
