"""The commands resume and brief: what the next agent must know, within a budget of tokens."""

from __future__ import annotations

import os

from forestay.api.followers import is_idle
from forestay.api.status import count_waiting
from forestay.base.text import plural, shorten
from forestay.base.vocabulary import FORMATS, LEAST, MOST, STYLES
from forestay.cli.arguments import Command, arg, count, fixed, flag
from forestay.cli.common import is_essay, other_holders, warn_other_current, warn_others
from forestay.cli.terminal import pick
from forestay.errors import DAMAGED, DONE, UNSETTLED, ForestayError, NoSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.briefing.brief import Briefing
    from forestay.cli.types import Any, Forestay, Namespace, Part, Screen, Session
    from forestay.sync.arrival import Pulled, Put


_FEW, _GOAL = 3, 40
_PROCEED = "How do you want to proceed?"
_CHOICES = {
    "mend": "put the files back, or write them again; then: forestay resume",
    "revisit": "repeat the stage whose result is missing",
    "continue": "continue with the recorded state",
}
_RESTORED = {
    "written": "written",
    "same": "already here, with the same content",
    "differs": "not written: the file here differs; to replace it: --force",
    "blocked": "not written: a folder or a link has this path",
    "denied": "not written: permission denied; check owner and permissions of its folder",
    "unknown": "not written: the session has only its digest, not its content",
    "refused": "not written: tools could run it without asking, or it is outside the project",
}


# -- resume ------------------------------------------------------------------------------------


def run_resume(options: Namespace, stay: Forestay, screen: Screen) -> int:
    if count_waiting(stay.context):
        stay.agents.catch_up()
    pulled = _pull(options, stay, screen)
    session = _find_session(options, pulled, stay, screen)
    others, idle = other_holders(session), _idle_values(session, stay)
    restored = session.files.restore_artifacts(force=options.force) if options.restore else []
    brief, is_resumed = _resume(session, options, screen)
    more: dict[str, Any] = {}
    wrong: list[str] = []
    if is_essay(session):
        from forestay.plans.essay_sessions import discrepancies, resume_summary  # start-up

        if summary := resume_summary(stay.context, session.id):
            more["summary"] = summary
            screen.line(summary)
        if not getattr(options, "anyway", False):
            wrong = discrepancies(stay.context, session.id)
    more |= {"discrepancies": wrong, "question": _PROCEED, "choices": _CHOICES} if wrong else {}
    more |= {"expiry": idle} if idle else {}
    more |= _arrival_values(stay, brief, pulled, restored)
    more |= {} if is_resumed else {"resumed": False}
    _print_brief(brief, session, options, screen, others=others, **more)
    if idle:
        from forestay.cli.status import warn_idle  # start-up

        warn_idle(idle, screen)
    _print_arrival(pulled, restored, session, stay, screen)
    warn_other_current(session, screen)
    warn_others(others, screen)
    if unadopted := _unadopted(stay):
        adopt = (screen.as_typed("forestay adopt"), "cyan")
        what = f"session files of other programs in {unadopted}"
        screen.warn(("also here: ", "yellow"), what, ("; to adopt them: ", "dim"), adopt)
    code = _warn(brief, screen, strict=options.strict)
    if not is_resumed:
        line = f"  not resumed; to resume it anyway: forestay resume {session.id}"
        screen.warn(screen.as_typed(line))
    if code or not wrong:
        return code
    # The user must decide what to do about contradictions between an essay and its files.
    for fault in wrong:
        screen.line(("error    ", "red"), fault)
    choices = "".join(f"\n  {word}: {description}" for word, description in _CHOICES.items())
    screen.block(_PROCEED + choices)
    return UNSETTLED


def _unadopted(stay: Forestay) -> str:
    """Return the paths of session files of other programs that can be adopted, or ""."""
    root = stay.context.workspace.tree.root
    return ", ".join(os.path.relpath(path, root) for path in stay.files.unadopted())


def _pull(options: Namespace, stay: Forestay, screen: Screen) -> Pulled | None:
    """Fetch from other devices first, if there is a remote and no option forbids it."""
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


def _find_session(
    options: Namespace, pulled: Pulled | None, stay: Forestay, screen: Screen
) -> Session:
    named = options.chosen or (stay.devices.last_session(options.device) if options.device else "")
    try:
        return _choose_session(named, stay, open_only=True)
    except NoSession as error:
        if error.choices and not named:
            _print_missed(pulled, screen)
        raise _explain_not_found(error, named, pulled, stay) from None


def _choose_session(chosen: str, stay: Forestay, *, open_only: bool) -> Session:
    """Return the session to brief about; the error also names files of other programs."""
    try:
        return stay.to_resume(chosen, open_only=open_only)
    except NoSession as error:
        here = "" if chosen or stay.context.settings.session else _unadopted(stay)
        if not here:
            raise
        why = f"{error.why}; session files of other programs are in {here}".removeprefix("; ")
        hint = "turn them into sessions: forestay adopt"
        raise NoSession(error.what, why=why, hint=hint, choices=error.choices) from None


def _explain_not_found(
    error: NoSession, named: str, pulled: Pulled | None, stay: Forestay
) -> NoSession:
    """Return the error with the reason why no remote had the session, and what to do."""
    asked = ", ".join(one.name for one in stay.context.store.machine.remotes.all())
    if not asked or (error.choices and not named):
        return error
    why, hint = f"{asked} has no session of this folder either", ""
    if pulled is None:
        why = "no remote was asked for it"
        hint = f"forestay resume {named}" if named else "forestay sync --pull"
    elif pulled.why:
        why = f"not every remote could be asked: {pulled.why}"
        hint = pulled.hint or "forestay remote check NAME"
    elif pulled.late:
        why, hint = pulled.late, "wait for it: forestay sync --pull"
    elif pulled.closed:
        verb = "is" if pulled.closed == 1 else "are"
        why = (
            f"{asked}: {plural(pulled.closed, 'session')} there {verb} encrypted for other devices"
        )
        own, shared = "forestay device add --new-key", "forestay device key show"
        hint = f"yours, from another device: {own}; shared with you: {shared}"
    elif named:
        why = f"{asked} has no session that this device can read"
        hint = "on the device where it is: forestay sync --push"
    if named:
        hint = f"{hint}; sessions on this device: forestay list --all"
    else:
        why = f"{why}; {error.why}".removesuffix("; ")
        hint = f"{hint}; or {error.hint}".removeprefix("; or ")
    return NoSession(error.what, why=why, hint=hint, choices=error.choices, session=named)


def _resume(session: Session, options: Namespace, screen: Screen) -> tuple[Briefing, bool]:
    """Return the briefing, and whether the session was resumed.

    Resuming records the present checkout, so with --strict the check comes first: otherwise a
    second try would find nothing changed.
    """
    brief_options = _brief_options(options, screen)
    if options.strict and has_changed(seen := session.brief(**brief_options)):
        return seen, False
    return session.resume(**brief_options), True


def _idle_values(session: Session, stay: Forestay) -> dict[str, Any]:
    """Return how inactive the session was, before resuming changes that."""
    try:
        if not is_idle(stay.context, session.id):
            return {}
        from forestay.cli.status import idle_values  # start-up

        return idle_values(session.status().as_json(), stay)
    except ForestayError:
        return {}  # the briefing reports damage


def _arrival_values(
    stay: Forestay, brief: Briefing, pulled: Pulled | None, restored: list[Put]
) -> dict[str, Any]:
    """Return what was received from other devices; {} for a session that is only on this one."""
    if not (brief.came_from or brief.lacking or pulled or restored):
        return {}
    problem = (pulled.why or pulled.late) if pulled else ""
    arrival = {
        "from": stay.devices.name_of(brief.came_from) if brief.came_from else None,
        "synced": pulled is not None and not problem,
        "new": pulled.new if pulled else [],
        "events": pulled.events if pulled else 0,
        "problem": problem,
        "lacking": [{"what": w, "text": t, "command": command} for w, t, command in brief.lacking],
        "restored": [pick(one, "path result=word") for one in restored],
    }
    return {"arrival": arrival}


def _print_arrival(
    pulled: Pulled | None, restored: list[Put], session: Session, stay: Forestay, screen: Screen
) -> None:
    """Print what was received from other devices, and which artifacts were written."""
    if pulled and pulled.events:
        screen.warn(("received from other devices: ", "green"), plural(pulled.events, "event"))
    _print_missed(pulled, screen)
    for one in restored:
        screen.warn(f"{one.path}: {_RESTORED[one.word]}")
    if any(one.word == "refused" for one in restored) and not (screen.json or screen.quiet):
        screen.advise("read what was not written: forestay record artifact PATH --to FILE")
    new = [one for one in (pulled.new if pulled else []) if one != session.id]
    for id in new[:_FEW]:
        line = (screen.as_typed(f"forestay resume {id}"), "cyan")
        screen.warn(("also new here: ", "green"), shorten(stay.goal(id), _GOAL), ": ", line)
    if len(new) > _FEW:
        line = (screen.as_typed("forestay list --all"), "cyan")
        screen.warn(("also new here: ", "green"), f"{len(new) - _FEW} more: ", line)


def _print_missed(pulled: Pulled | None, screen: Screen) -> None:
    """Warn that the work of other devices could not be fetched."""
    if pulled is None or not (pulled.why or pulled.late) or screen.json or screen.quiet:
        return
    if pulled.late:
        screen.explain(("still waiting for remotes: ", "yellow"), pulled.late)
        screen.advise("it continues in the background; to wait for it: forestay sync --pull")
    else:
        screen.explain(("remotes not reached: ", "yellow"), pulled.why)
        only = "the briefing has only what is on this device; you can work, and sync later"
        screen.explain("  ", only)
        screen.advise(pulled.hint or "forestay remote list")


# -- brief -------------------------------------------------------------------------------------


def run_brief(options: Namespace, stay: Forestay, screen: Screen) -> int:
    session = _choose_session(options.chosen, stay, open_only=False)
    brief = session.brief(**_brief_options(options, screen))
    waiting = count_waiting(stay.context)
    _print_brief(brief, session, options, screen, **({"waiting": waiting} if waiting else {}))
    if waiting:
        from forestay.cli.status import warn_waiting  # start-up

        warn_waiting(stay, screen)
    return _warn(brief, screen, strict=options.strict)


def _brief_options(options: Namespace, screen: Screen) -> dict[str, Any]:
    fenced = options.fence or not (options.no_fence or screen.is_terminal)
    return {**pick(options, "budget style fmt=format"), "fenced": fenced}


def _print_brief(
    brief: Briefing, session: Session, options: Namespace, screen: Screen, **more: object
) -> None:
    if screen.json:
        import json  # start-up

        text = json.loads(brief.text) if options.format == "json" else brief.text
        values = pick(brief, "attention briefing_tokens=tokens budget unknown_outcomes disputes")
        screen.answer(session.status, values, briefing=text, **more)
        return
    screen.start_paging()
    for line in brief.text.rstrip("\n").split("\n"):
        first, *rest = screen.wrap(line)
        screen.line(*_highlight(first))
        for left in rest:
            screen.line(left)


def _highlight(line: str) -> list[Part]:
    """Return the parts of a line: headings and labels stand out on a terminal."""
    label, colon, rest = line.partition(":")
    if not colon or not label[:1].isupper() or (rest and " " in label):
        return [line]
    return [(label + colon, "title"), rest]


def _warn(brief: Briefing, screen: Screen, *, strict: bool) -> int:
    """Explain an exit code other than 0 on the error stream; return the code."""
    code = exit_code(brief, strict=strict)
    warnings = {
        DAMAGED: "this session is damaged; do not rely on it: forestay verify",
        UNSETTLED: "not everything is settled; check it before you continue (exit 7)",
    }
    if code:
        screen.warn(("attention: ", "yellow"), screen.as_typed(warnings[code]))
    unknown = [item.id for item in brief.items if item.section == "unknown"]
    if code == UNSETTLED and any(id != "interrupted" for id in unknown):
        line = "  when you know how it ended: forestay agent done|fail|retry ID"
        screen.warn(screen.as_typed(line))
    if code == UNSETTLED and brief.disputes:
        screen.warn(screen.as_typed("  see both sides and settle it: forestay settle"))
    return code


def exit_code(brief: Briefing, *, strict: bool) -> int:
    """Return the exit code of `brief`: 0 only if the next agent can rely on the briefing."""
    if "damaged" in brief.attention:
        return DAMAGED
    if brief.unknown_outcomes or brief.disputes or (strict and has_changed(brief)):
        return UNSETTLED
    return DONE


def has_changed(brief: Briefing) -> bool:
    """Return whether files, the checkout or the tools differ from how they were left."""
    return not {"drifted", "stale", "lacking"}.isdisjoint(brief.attention)


_BRIEF_ARGUMENTS = (
    arg("--budget", "N", f"at most this many tokens, from {LEAST} to {MOST}", type=count),
    arg("--style", "STYLE", f"{', '.join(STYLES[:-1])} or {STYLES[-1]}", default=STYLES[0]),
    arg("--format", "", "the format of the briefing", choices=FORMATS, default=FORMATS[0]),
    flag("--strict", "exit 7 also when files or the branch changed; then nothing is resumed"),
    flag("--fence", "always mark the session's words as quoted, for a model"),
    flag("--no-fence", "never mark them; default: only outside a terminal"),
)
RESUME_ARGUMENTS = (
    *_BRIEF_ARGUMENTS,
    fixed(device="", sync="false", no_sync=True, restore=False, force=False),
)
"""The options of resume with default values, for commands that find a session by its files."""
_SESSION = arg("chosen?", "SESSION", "default: the current one")

COMMANDS = {
    "resume": Command(
        run_resume,
        _SESSION,
        *_BRIEF_ARGUMENTS,
        arg("--device", "NAME", "the session last used on this device"),
        arg("--sync", "", "false: do not ask remotes", choices=("true", "false"), default="true"),
        flag("--no-sync", "the same as --sync false"),
        flag("--restore", "write saved artifacts of the session that are missing here"),
        flag("--force", "with --restore: also replace files that differ"),
        "forestay resume fix-login --budget 500",
        "forestay resume --device laptop --restore",
        "forestay resume --strict && run-the-agent",
    ),
    "brief": Command(
        run_brief,
        _SESSION,
        *_BRIEF_ARGUMENTS,
        "forestay brief",
        "forestay brief --budget 300 --format markdown",
        "forestay brief --style orchestrator",
    ),
}
