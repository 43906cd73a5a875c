"""The commands status, list, and `forestay` alone: read from the catalogue, without the model."""

from __future__ import annotations

from forestay.api.status import count_waiting, may_expire
from forestay.base.text import ago, plural
from forestay.base.vocabulary import FINISHED, STATUSES
from forestay.cli.arguments import Command, arg, count, flag
from forestay.cli.terminal import format_size, pick
from forestay.errors import InvalidInput, NoSession

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from forestay.cli.types import Any, Forestay, Namespace, Part, Screen

_SHOWN = 50
_HOUR = 3_600_000
_FEW = 10
_COLORS = {"active": "green", "paused": "yellow", "failed": "red", "completed": "cyan"}
_HINTS = {
    "active": 'forestay note "…" · forestay log · forestay pause',
    "created": "forestay resume",
    "paused": "forestay resume",
    "failed": "forestay resume",
    "completed": 'forestay start "GOAL" · forestay session archive',
    "abandoned": 'forestay start "GOAL" · forestay session reopen --because "…"',
    "aborted": 'forestay start "GOAL"',
}


# -- status ------------------------------------------------------------------------------------


def run_status(options: Namespace, stay: Forestay, screen: Screen) -> None:
    waiting = count_waiting(stay.context)
    try:
        shown = stay.status().as_json()
    except NoSession as error:
        if waiting:
            error.hint = "record waiting hook events first: forestay ingest"
        raise
    idle = idle_values(shown, stay)
    more: dict[str, Any] = {"expiry": idle} if idle else {}
    more |= {"waiting": waiting} if waiting else {}
    unpushed = stay.context.store.machine.remotes.waiting(shown["session"])
    more |= {} if unpushed is None else {"unpushed": unpushed}
    screen.answer(shown, more)
    print_status(shown, stay, screen)
    if shown["status"] == "active" and idle.get("state") == "pause":
        hours = plural(idle["idle_ms"] // _HOUR, "hour")
        screen.warn((f"no work on this session for {hours}", "yellow"), ": it counts as paused")
    warn_idle(idle, screen)
    warn_waiting(stay, screen)


def idle_values(shown: dict[str, Any], stay: Forestay) -> dict[str, Any]:
    """Return the consequence of long inactivity of a session; {} if there is none."""
    then = _milliseconds(shown["updated_at"])
    # Load the session's plan only for an idle session, because that is slow.
    if shown["status"] in FINISHED or not then or stay.context.clock.now() - then < _HOUR:
        return {}
    if not (shown["workflow"] or may_expire(stay.context, shown["session"])):
        return {}
    idle = stay.session(shown["session"]).lifecycle.inactivity()
    if idle.word == "active":
        return {}
    values = pick(idle, "state=word idle_ms") | pick(idle.limits, "pause_hours? abandon_hours?")
    return {**values, "choices": [pick(one, "what=title command") for one in idle.choices]}


def warn_idle(idle: dict[str, Any], screen: Screen) -> None:
    """Warn that a session counts as abandoned, and print the choices of the user."""
    if not idle or not idle["choices"]:
        return
    days = idle["idle_ms"] // (24 * _HOUR)
    screen.warn(("no work on this session for ", "yellow"), plural(days, "day"))
    for one in idle["choices"]:
        screen.warn("  ", one["what"], ": " if one["command"] else "", (one["command"], "cyan"))


def warn_waiting(stay: Forestay, screen: Screen) -> None:
    if count := count_waiting(stay.context):
        waiting = plural(count, "hook event")
        line = (screen.as_typed("forestay ingest"), "cyan")
        screen.warn(("not recorded yet: ", "yellow"), waiting, ("; to record them: ", "dim"), line)


def print_status(shown: dict[str, Any], stay: Forestay, screen: Screen) -> None:
    """Print one session: its goal, then names and values."""
    now = stay.context.clock.now()
    screen.prose("", shown["goal"], "bold")
    project = f" in {shown['project']}" if shown["project"] else ""
    screen.fields(
        [
            ("session", shown["session"] + project),
            ("status", _status_words(shown)),
            ("attention", (_attention(shown), "yellow")),
            (shown["phase"]["unit"] if shown["phase"] else "", _phase(shown)),
            ("next", shown["next"]),
            ("agents", _agents(shown)),
            ("context", f"{shown['tokens']:,} tokens" if shown.get("tokens") else ""),
            ("working", _holders(shown, now, dead=False)),
            ("died", (_holders(shown, now, dead=True), "red")),
            ("began", since(shown["began_at"], now)),
            ("last", f"#{shown['seq']}, {since(shown['updated_at'], now)}"),
            ("remote", _unpushed(shown, stay)),
            ("files", (_unwritten_files(shown), "yellow")),
        ]
    )
    if shown.get("suspended"):
        screen.hint("to fix it: ", "forestay doctor")


def _unpushed(shown: dict[str, Any], stay: Forestay) -> str:
    remotes = stay.context.store.machine.remotes
    count = remotes.waiting(shown["session"])
    if not count:
        return ""
    failed = ", ".join(one.name for one in remotes.all() if one.result == "failed")
    why = f"; the last sync with {failed} failed: forestay remote list" if failed else ""
    return f"{plural(count, 'event')} not pushed{why}"


def _unwritten_files(shown: dict[str, Any]) -> str:
    if not shown.get("suspended"):
        return ""
    from forestay.cli.suggestions import shorten_paths

    names: dict[str, list[str]] = {}
    for one in shown["suspended"]:
        names.setdefault(shorten_paths(one["why"]), []).append(one["format"])
    return "; ".join(f"{', '.join(found)} not written: {why}" for why, found in names.items())


def _status_words(shown: dict[str, Any]) -> Part:
    words = shown["status"] + (" (archived)" if shown["archived"] else "")
    if shown["status"] == "paused" and shown.get("paused_reason"):
        words += f" ({shown['paused_reason'].replace('_', ' ')})"
    steps = shown.get("steps", {})
    if shown["phase"]:
        return words, _COLORS.get(shown["status"], "")
    if steps.get("total"):
        words += f" · {steps['done']} of {plural(steps['total'], 'task')} done"
        words += f", {steps['skipped']} skipped" if steps.get("skipped") else ""
    elif shown["progress_from"] not in ("none", "agents"):
        words += f" · {shown['progress']:.0%} done"
    return words, _COLORS.get(shown["status"], "")


def _phase(shown: dict[str, Any]) -> str:
    """Return the current phase of the plan, and an estimate of the time for the rest."""
    phase, timing = shown["phase"], shown["timing"]
    if not phase:
        return ""
    from forestay.model.timing import brief

    of = "" if phase["total"] is None else f" of {phase['total']}"
    name = "" if phase["name"].lower() == f"{phase['unit']} {phase['current']}" else phase["name"]
    figures = (
        ("percent_complete", "{}% complete"),
        ("time_in_phase", "{} in it"),
        ("avg_phase_duration", "average {}"),
        ("estimated_remaining", "about {} left"),
    )
    estimates = [
        template.format(value if key == "percent_complete" else brief(value))
        for key, template in figures
        if (value := timing[key]) is not None and shown["status"] != "completed"
    ]
    where = f"{phase['current']}{of}" + (f": {name}" if name else "")
    return " · ".join([where, *estimates])


def _attention(shown: dict[str, Any]) -> str:
    doing = f" during: {shown['doing']}" if shown.get("doing") else ""
    more = {"interrupted": doing, "disputed": " (both sides: forestay settle)"}
    words = [w.replace("_", " ") + more.get(w, "") for w in shown["attention"]]
    return ("; " if doing else ", ").join(words)


def _agents(shown: dict[str, Any]) -> str:
    agents, running = shown.get("agents", {}), shown.get("running", [])
    parts = [f"{agents[word]} {word}" for word in ("running", "done", "failed") if agents.get(word)]
    alive = {one["agent"] for one in shown["holders"] if one["state"] == "alive"}
    quiet = "" if alive.issuperset(running) else "; process not tracked"
    return ", ".join(parts) + (f" ({', '.join(running)}{quiet})" if running else "")


def _holders(shown: dict[str, Any], now: int, *, dead: bool) -> str:
    held = []
    for one in shown["holders"]:
        if (one["state"] == "dead") == dead:
            doubt = ", possibly ended" if one["state"] == "unknown" else ""
            started = f"started {since(one['since'], now)}"
            held.append(f"{one['name']} (pid {one['pid']}{doubt}, {started})")
    return "; ".join(held)


def since(stamp: str | None, now: int) -> str:
    """Return how long ago a time was; the time itself where it cannot be computed."""
    then = _milliseconds(stamp)
    return ago(now - then) if then else stamp or ""


def _milliseconds(stamp: str | None) -> int:
    """Return a time in milliseconds, 0 where it cannot be computed."""
    from datetime import datetime

    try:
        return round(datetime.fromisoformat(stamp or "").timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


# -- list --------------------------------------------------------------------------------------


def run_list(options: Namespace, stay: Forestay, screen: Screen) -> None:
    most = options.n or -1
    which = {"all": options.all, "archived": options.archived, "status": options.status}
    listed = stay.list(**which, limit=most + 1 if most > 0 else -1)
    found = [one.as_json() for one in listed]
    shown, more = (found[:most], len(found) > most) if most > 0 else (found, False)
    current = _current(stay)
    totals: dict[str, Any] = {}
    if options.size:
        for one in shown:
            one["size"] = stay.session(one["session"]).size()
        words = [one["status"] for one in shown]
        totals = {"sessions": len(shown), "events": sum(one["seq"] for one in shown)}
        totals["size"] = sum(one["size"] for one in shown)
        totals["by_status"] = {word: words.count(word) for word in words}
    known = {"sessions": shown, "current": current or None, "more": more}
    screen.answer(known, {"totals": totals} if totals else {})
    screen.start_paging()
    if shown:
        right = "34" if options.size else "3"
        screen.table(list(_rows(shown, current, stay, with_project=options.all)), right=right)
    elif not screen.json:
        _print_nothing(options, stay, screen)
    if totals and shown:
        sessions, events = plural(len(shown), "session"), f"{totals['events']:,} events"
        statuses = ", ".join(f"{n} {word}" for word, n in totals["by_status"].items())
        screen.line(f"{sessions} ({statuses}), {events}, {format_size(totals['size'])} in all")
    if any("damaged" in one["attention"] for one in shown):
        screen.line(("Some of these sessions are damaged: ", "red"), "forestay doctor --fix")
    if any(one["attention"] for one in shown):
        screen.line(("! needs attention: forestay status --session SESSION", "dim"))
    if more:
        screen.line(("… and more; all of them: forestay list -n 0", "dim"))


def _current(stay: Forestay) -> str:
    try:
        return stay.context.workspace.current()
    except InvalidInput:
        return ""  # the folder does not exist any more


def _rows(
    sessions: list[dict[str, Any]], current: str, stay: Forestay, *, with_project: bool
) -> Iterator[list[Part]]:
    now = stay.context.clock.now()
    sized = ["SIZE"] * any("size" in one for one in sessions)
    project = ["PROJECT"] * with_project
    head = ["", "SESSION", "STATUS", "DONE", *sized, "LAST EVENT", *project, "GOAL"]
    yield [(word, "dim") for word in head]
    for one in sessions:
        is_current = one["session"] == current
        word = "archived" if one["archived"] else one["status"]
        status: Part = (word, _COLORS.get(word, "dim"))
        yield [
            ("*" if is_current else "", "green"),
            (one["session"], "bold" if is_current else ""),
            (f"{word}!", "yellow") if one["attention"] else status,
            "" if one["progress_from"] == "none" else f"{one['progress']:.0%}",
            *([format_size(one["size"])] if sized else []),
            (since(one["updated_at"], now), "dim"),
            *[one.get("project", "")] * with_project,
            one["goal"],
        ]


def _print_nothing(options: Namespace, stay: Forestay, screen: Screen) -> None:
    word = "archived" if options.archived else ""
    which = " ".join(filter(None, ["no", options.status, word, "sessions"]))
    if options.all:
        screen.line(f"There are {which}. Start one: ", ('forestay start "GOAL"', "cyan"))
        return
    screen.line(f"There are {which} in this project.")
    archived = 0 if options.archived else len(stay.list(archived=True, status=options.status))
    if archived:
        screen.line(f"  {archived} archived: ", ("forestay list --archived", "cyan"))
    elif stay.list(all=True, limit=1):
        screen.line("  elsewhere: ", ("forestay list --all", "cyan"))
    screen.line("  start one: ", ('forestay start "GOAL"', "cyan"))


# -- forestay alone ----------------------------------------------------------------------------


def run_alone(options: Namespace, stay: Forestay, screen: Screen) -> None:
    """Print the current session and what to type next; having none is not an error."""
    try:
        shown = stay.status().as_json()
    except NoSession as error:
        if stay.context.settings.session:
            raise
        _print_choices(error, stay, screen)
    else:
        screen.answer(shown)
        print_status(shown, stay, screen)
        screen.line()
        screen.line("→ ", (screen.as_typed(_next_command(shown)), "cyan"))
    warn_waiting(stay, screen)


def _next_command(shown: dict[str, Any]) -> str:
    if "interrupted" in shown["attention"]:
        return "forestay resume"
    if "disputed" in shown["attention"]:
        return "forestay settle"
    if shown["archived"]:
        return 'forestay start "GOAL" · forestay session unarchive'
    return _HINTS[shown["status"]]


def _print_choices(error: NoSession, stay: Forestay, screen: Screen) -> None:
    ids = {id for id, _, _ in error.choices}
    found = [one.as_json() for one in stay.list() if one.session in ids] if ids else []
    screen.answer(session=None, sessions=found, hint=error.hint)
    if not found:
        _welcome(stay, screen)
        return
    screen.line(("Open sessions of this project, none of them current in this folder:", "bold"))
    screen.table(list(_rows(found[:_FEW], "", stay, with_project=False)), right="3")
    if len(found) > _FEW:
        screen.line((f"… and {len(found) - _FEW} more: forestay list", "dim"))
    screen.line()
    line = screen.as_typed(f"forestay resume {found[0]['session']}")
    screen.line("→ ", (line, "cyan"))


_WELCOME = """
There is no session in this folder yet. Start one:

  forestay start "what you want to get done"

Then record what matters, and resume after a crash or a break:

  forestay note "…"                     save a note
  forestay decide "…" --because "…"     record a decision
  forestay task add "…"                 add a task
  forestay resume                       what happened, what comes next
"""


def _welcome(stay: Forestay, screen: Screen) -> None:
    screen.line(("Forestay keeps the work of AI agents from getting lost.", "bold"))
    screen.block(_WELCOME)
    screen.line()
    if stay.files.unadopted():
        screen.line(
            "This project has session files of other programs; to adopt them: forestay adopt"
        )
    if stay.list(all=True, limit=1):
        screen.line("Sessions of other folders: forestay list --all")
    screen.line("All commands: forestay --help")


_ONE_OF = f"only those that are {', '.join(STATUSES[:-1])} or {STATUSES[-1]}"

COMMANDS = {
    "": Command(run_alone, "forestay"),
    "status": Command(run_status, "forestay status", "forestay status --json"),
    "list": Command(
        run_list,
        flag("--all", "all projects, and archived sessions"),
        flag("--archived", "only archived sessions"),
        flag("--size", "show the size of each, and the total"),
        arg("--status", "WORD", _ONE_OF, choices=STATUSES),
        arg("-n", "N", f"at most N (default {_SHOWN}; 0: all)", type=count, default=_SHOWN),
        "forestay list",
        "forestay list --all --status paused -n 20",
    ),
}
