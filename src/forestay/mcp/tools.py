"""What each tool does: one call of the façade, or a few, and what came of it as values.

Nothing of the protocol is known here. Arguments are held against the tool's own schema first, and
the façade refuses the rest; what it raises becomes a question or an error, never a trace. Writes
never guess: without a session they go to the current one of the project, or are asked about.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from forestay.api import error_values, json_values
from forestay.api.status import recorded
from forestay.base.clock import iso
from forestay.errors import ForestayError, InvalidInput
from forestay.journal.history import LogLine, event_to_json, state_to_json
from forestay.mcp import responses, schema_check
from forestay.mcp.responses import Answer, Values
from forestay.mcp.tool_schemas import TOOLS, VERBS, Tool, verb

if TYPE_CHECKING:
    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.model.event import Event
    from forestay.plans.run_command import Stop

Arguments = Mapping[str, Any]

_FEW, _PROOF_SECONDS, _ENDING = 20, 600, 15
_AT_ONCE = 1.0
"""How long payloads that agents left are taken in at once, in seconds."""
_INNER = frozenset({"chains", "tips", "clock", "held"})
_OF_EVENTS = ("seq", "id", "kind", "at", "actor", "data")


class Desk:
    """One home, served: tools by their name, and what others tell meanwhile."""

    def __init__(self, home: Forestay, notices: list[str], *, tools: Mapping[str, Tool] = TOOLS):
        self.home = home
        self.tools = tools
        self._notices = notices
        """Filled by the home's `on_notice`."""
        self._ending = threading.Event()
        self._proving = threading.Lock()

    def call(self, name: str, arguments: Arguments, stop: Stop | None = None) -> Answer:
        """What a tool answers; `stop` is asked now and then by one that takes long."""
        tool = self.tools[name]
        try:
            require_shape(tool, arguments)
            self.home.agents.catch_up()
            act = _ACTS.get(name) or self._prove(stop)
            values = act(self.home, arguments)
            return responses.done(name, values, self.home, self._taken())
        except ForestayError as error:
            return self._failed(tool, error)
        except Exception as error:
            told = error_values.bug(error, "report it; what was recorded before is safe")
            return self._failed(tool, told)

    def _prove(self, stop: Stop | None) -> Callable[..., Values]:
        """Proofs run one after another, and end when the server does."""

        def to_end() -> bool:
            return self._ending.is_set() or (stop is not None and stop())

        def act(home: Forestay, given: Arguments) -> Values:
            with self._proving:
                return _prove(home, given, to_end)

        return act

    def end_soon(self) -> None:
        """Let no proof run on; do not wait for it."""
        self._ending.set()

    def end(self) -> None:
        """End a proof that runs; what came of it is recorded, which takes a moment."""
        self.end_soon()
        if self._proving.acquire(timeout=_ENDING):
            self._proving.release()

    def _failed(self, tool: Tool, error: ForestayError) -> Answer:
        self._taken()
        return responses.failed(tool.name, error, self.home, reads=tool.hints[0])

    def _taken(self) -> list[str]:
        told, self._notices[:] = list(self._notices), []
        return told

    def ingest(self) -> None:
        """Take in what agents' hooks left; what fails there is no failure of a caller.

        Files that do not show their last event yet are written too.
        """
        self.home.context.finish()
        if self.home.agents.waiting():
            self.home.context.best_effort(lambda: self.home.agents.ingest(seconds=_AT_ONCE))


def require_shape(tool: Tool, arguments: Arguments) -> None:
    """Refuse arguments that the tool's schema does not allow."""
    if schema_check.is_huge(arguments):
        # Before anyone looks for secrets in it, or repeats it.
        why = f"at most {schema_check.MOST:,} characters can be kept; nothing was done"
        raise InvalidInput("a text is too long", why=why, hint="keep it in a file: event artifact")
    if told := schema_check.wrong(dict(arguments), tool.input_schema):
        raise InvalidInput(told, why=f"wrong arguments for {tool.name}; nothing was done")


# -- what changes something ------------------------------------------------------------------------


def _start(home: Forestay, given: Arguments) -> Values:
    before = _open_before(home)
    names = ("goal", "mode", "id", "workflow", "target", "formats", "key")
    more = {"from_session": given["from"]} if "from" in given else {}
    session = home.start(**_only(given, names), **more)
    return {
        "session": session.id,
        "repeated": session.repeated,
        "taken_up": session.was_open,
        **_if_any("before", before if before != session.id else ""),
        **_standing(session),
    }


def _standing(session: Session) -> Values:
    """Where a session stands, in a few words."""
    shown = session.status().as_json()
    told = {name: shown[name] for name in ("status", "next", "phase") if shown[name]}
    return told | _if_any("next", responses.by_tool(shown["next"]))


def _open_before(home: Forestay) -> str:
    """The open session that was current here, if any."""
    try:
        return home.current(open_only=True).id
    except ForestayError:
        return ""


def _resume(home: Forestay, given: Arguments) -> Values:
    arrival = _pulled(home, given.get("session", ""))
    session = home.to_resume(given.get("session", ""))
    if "reopen" in given:
        session.lifecycle.reopen(given["reopen"], key=_part(given, "reopen"))
    others = _others(session)
    told = session.resume(budget=given.get("budget"), key=given.get("key", ""))
    return {"session": session.id, **_briefed(session, told), "others": others, **arrival}


def _pulled(home: Forestay, named: str) -> Values:
    """Take what other devices did first; nothing to tell where there is no remote."""
    found = home.context.store.resolve(named) if named else []
    pulled = home.remotes.fetch(found[0] if len(found) == 1 else "")
    problem = pulled.why or pulled.late
    told = {"synced": not problem, "events": pulled.events, "problem": problem}
    return {"arrival": told} if pulled.asked else {}


def _briefed(session: Session, told: Any) -> Values:
    """The briefing is as it is for everyone, within its budget; what is next, in calls of ours."""
    return {
        "briefing": told.text,
        "next": responses.by_tool(session.status().next),
        "tokens": told.tokens,
        "attention": list(told.attention),
        "unknown_outcomes": told.unknown_outcomes,
        "disputes": told.disputes,
    }


def _record(home: Forestay, given: Arguments) -> Values:
    events = given["events"]
    for number, event in enumerate(events):
        _require_verb(event, number)
    session = _meant(home, given)
    kept: list[Values] = []
    for number, event in enumerate(events):
        key = _part(given, str(number)) if len(events) > 1 else given.get("key", "")
        try:
            kept.append(_kept(session, event, key))
        except ForestayError as error:
            return {**_refused(home, error, number), "session": session.id, "recorded": kept}
    told = {"session": session.id, "recorded": kept}
    told["next"] = responses.by_tool(session.status().next)
    return told | _if_any("others", _others(session))


def _require_verb(event: Values, number: int) -> None:
    if event["do"] not in VERBS:
        what = f"events[{number}].do is no event that is known"
        raise InvalidInput(what, why=f"there are {', '.join(VERBS)}; nothing was recorded")
    known = verb(event["do"])
    names = [name for name in event if name != "do"]
    lacking = [name for name in known.needs if name not in names]
    strange = [name for name in names if name not in (*known.needs, *known.takes)]
    if lacking or strange:
        what = f"has no {lacking[0]}" if lacking else f"has {strange[0][:100]}, which is not known"
        why = f"it is {known.usage}; nothing was recorded"
        raise InvalidInput(f"events[{number}] ({known.name}) {what}", why=why)


def _kept(session: Session, event: Values, key: str) -> Values:
    arguments = {name: value for name, value in event.items() if name != "do"}
    made = attrgetter(VERBS[event["do"]][1])(session)(**arguments, key=key)
    return {"do": event["do"], **_event(made), "repeated": session.repeated}


def _refused(home: Forestay, error: ForestayError, number: int) -> Values:
    told = responses.failed("record", error, home, reads=False)
    return {"ok": False, "failed": number, **told.values}


def _event(made: Event) -> Values:
    """What was recorded; an answer leaves out what is not there."""
    told = recorded(made)
    step = getattr(made.body, "step", "") or getattr(made.body, "agent", "")
    return {name: value for name, value in told.items() if value} | _if_any("of", step)


def _checkpoint(home: Forestay, given: Arguments) -> Values:
    session, action, key = _meant(home, given), given["action"], given.get("key", "")
    if action in ("retry", "total", "rollback"):
        event = _moved(session, given, key)
        told: Values = {"event": _event(event)}
    else:
        told = _handed_in(session, given, key)
    return {"session": session.id, **told, **_standing(session), "repeated": session.repeated}


def _moved(session: Session, given: Arguments, key: str) -> Event:
    if given["action"] == "retry":
        return session.phases.retry(key=key)
    if given["action"] == "total":
        return session.phases.total(_phase(given), names=given.get("names", []), key=key)
    return session.phases.rollback(_phase(given), because=given.get("because", ""), key=key)


def _handed_in(session: Session, given: Arguments, key: str) -> Values:
    number, evidence = _phase(given), given.get("evidence", {})
    if given["action"] == "fail":
        came = session.phases.fail(number, evidence, issue=given.get("issue", ""), key=key)
    else:
        manner = _only(given, ("override", "because"))
        came = session.phases.done(number, evidence, **manner, key=key)
    return {
        "passed": came.passed,
        "complete": came.complete,
        "result": _judged(came.judgment.as_values()) if came.judgment else {},
        "outputs": came.outputs,
        "event": _event(came.event),
    }


def _judged(result: Values) -> Values:
    return result | {"next_steps": [responses.by_tool(step) for step in result["next_steps"]]}


def _phase(given: Arguments) -> int:
    if "phase" not in given:
        why, hint = f"{given['action']} needs a number", "forestay phase list"
        raise InvalidInput("phase is missing", why=why, hint=hint)
    return int(given["phase"])


def _prove(home: Forestay, given: Arguments, stop: Stop) -> Values:
    session = _meant(home, given)
    made = session.proofs.run(
        given["command"],
        phase=str(given.get("phase", "")),
        name=given.get("as", ""),
        inputs=given.get("inputs", []),
        timeout=float(given.get("timeout", _PROOF_SECONDS)),
        stop=stop,
        key=given.get("key", ""),
    )
    seen = json_values.observed(made.body)
    return {"session": session.id, **seen, "event": _event(made), "repeated": session.repeated}


def _finish(home: Forestay, given: Arguments) -> Values:
    how = given["how"]
    if how == "archive":
        session = _named_or_current(home, given)
        event = session.lifecycle.archive(**_only(given, ("key",)))
    elif how == "pause":
        session = _meant(home, given)
        event = session.pause(**_only(given, ("reason", "context", "key")))
    else:
        session = _meant(home, given)
        act = session.complete if how == "complete" else getattr(session.lifecycle, how)
        event = act(**_only(given, ("because", "key")))
    open_ones = {
        "tasks": [task.id for task in session.tasks.list() if task.is_open],
        "agents": [agent.id for agent in session.agents.list() if agent.is_open],
    }
    known = {"session": session.id, "status": session.status().status}
    left = _if_any("left_open", {name: ids for name, ids in open_ones.items() if ids})
    return {**known, **left, "event": _event(event), "repeated": session.repeated}


# -- what looks ------------------------------------------------------------------------------------


def _find(home: Forestay, given: Arguments) -> Values:
    what = given["what"]
    if what in _OF_A_HOME:
        return _OF_A_HOME[what](home, given)
    session = home.to_resume(given.get("session", ""), open_only=False)
    return {"session": session.id, **_OF_A_SESSION[what](session, given)}


def _limit(given: Arguments) -> int:
    return int(given.get("limit", _FEW))


def _sessions(home: Forestay, given: Arguments) -> Values:
    most = _limit(given)
    found = home.list(all=given.get("all", False), status=given.get("status"), limit=most + 1)
    return responses.page([one.as_json() for one in found], most)


def _search(home: Forestay, given: Arguments) -> Values:
    if not given.get("query", "").strip():
        raise InvalidInput("query is missing", why="search needs words")
    most = _limit(given)
    found = home.search(given["query"], limit=most + 1)
    return responses.page([one.as_json() for one in found], most)


def _workflows(home: Forestay, given: Arguments) -> Values:
    return responses.page(
        [json_values.workflow(each) for each in home.workflows.list()], _limit(given)
    )


def _brief(session: Session, given: Arguments) -> Values:
    return _briefed(session, session.brief(budget=given.get("budget")))


def _status(session: Session, given: Arguments) -> Values:
    shown = session.status().as_json()
    return responses.thing(shown | {"next": responses.by_tool(shown["next"])})


def show(session: Session, at: str = "", limit: int = _FEW) -> Values:
    """Everything a session holds: the newest rows of each table, as many as fit."""
    whole = state_to_json(session.show(at))
    rows = whole.pop("rows")
    whole["core"] = {name: v for name, v in whole["core"].items() if name not in _INNER}
    while limit:
        newest = {table: found[-limit:] for table, found in rows.items()}
        told = responses.clipped({**whole, "rows": newest}, responses.MOST_TEXT // 10)
        if len(responses.as_json(told)) <= responses.MOST_TEXT:
            break
        limit //= 2
    counts = {table: len(found) for table, found in rows.items()}
    left = sum(counts.values()) - sum(len(found) for found in newest.values())
    return responses.thing({**told, "counts": counts}, more=left)


def log(session: Session, after: int | None, limit: int = _FEW) -> Values:
    """The newest events, or the first ones after a number; `next` is where the next page begins."""
    last = session.status().seq
    lines = session.log(limit=limit) if after is None else islice(session.log(after=after), limit)
    told = responses.page([_line(line) for line in lines], limit)
    if after is None or not told["found"]:
        return told | {"more": 0 if after is not None else max(0, last - len(told["found"]))}
    reached = told["found"][-1]["seq"]
    return told | {"more": last - reached, "next": reached}


def _line(line: LogLine) -> Values:
    whole = event_to_json(line)
    return {name: whole[name] for name in _OF_EVENTS} | _if_any("retracted", line.retracted)


def _log(session: Session, given: Arguments) -> Values:
    return log(session, given.get("after"), _limit(given))


def _show(session: Session, given: Arguments) -> Values:
    return show(session, given.get("at", ""), _limit(given))


def _diff(session: Session, given: Arguments) -> Values:
    if not given.get("since"):
        raise InvalidInput("since is missing", why="diff needs a point to begin at")
    changes = session.diff(given["since"], given.get("until", ""))
    told = [{"where": c.where, "before": c.before, "after": c.after} for c in changes]
    return responses.page(told, given.get("limit", 100))


def _phases(session: Session, given: Arguments) -> Values:
    return responses.page([json_values.phase(one) for one in session.phases.list()], 100)


def _gate(session: Session, given: Arguments) -> Values:
    number = given.get("phase")
    if number is None:
        # A session without phases is refused below, whatever the number.
        number = plan.current if (plan := session.status().phase) else 0
    told = json_values.gate(session.phases.gate(number, given.get("evidence", {})))
    return responses.thing(told | {"result": _judged(told["result"])})


def _proofs(session: Session, given: Arguments) -> Values:
    return responses.page([json_values.proof(one) for one in session.proofs.list()], _limit(given))


def _rows(table: str) -> Callable[[Session, Arguments], Values]:
    def act(session: Session, given: Arguments) -> Values:
        rows = session.show(given.get("at", "")).rows.select(table, newest=True)
        return responses.page([_row(row) for row in rows], _limit(given))

    return act


def _row(row: Any) -> Values:
    """A row with times as everywhere else, and with its status, which a new one leaves out."""
    told = {name: value for name, value in to_builtins(row).items() if name != "rank"}
    times = [name for name in told if name == "at" or name.endswith("_at")]
    status = {"status": row.status} if hasattr(row, "status") else {}
    return told | status | {name: iso(told[name]) for name in times if told[name] is not None}


_OF_A_HOME = {"sessions": _sessions, "search": _search, "workflows": _workflows}
_OF_A_SESSION: dict[str, Callable[[Session, Arguments], Values]] = {
    "brief": _brief,
    "status": _status,
    "show": _show,
    "log": _log,
    "diff": _diff,
    "phases": _phases,
    "gate": _gate,
    "proofs": _proofs,
    "tasks": _rows("step"),
    "agents": _rows("agent"),
    "decisions": _rows("decision"),
    "errors": _rows("error"),
    "files": _rows("file"),
}
_ACTS: dict[str, Callable[..., Values]] = {
    "start": _start,
    "resume": _resume,
    "record": _record,
    "checkpoint": _checkpoint,
    "finish": _finish,
    "find": _find,
}


# -- common ----------------------------------------------------------------------------------------


def _meant(home: Forestay, given: Arguments) -> Session:
    """The session named, else the current one if it is open; else the home asks."""
    name = given.get("session", "")
    return home.session(name) if name else home.current(open_only=True)


def _named_or_current(home: Forestay, given: Arguments) -> Session:
    name = given.get("session", "")
    return home.session(name) if name else home.current()


def _others(session: Session) -> list[Values]:
    return [one.as_json() for one in session.agents.others() if one.state != "dead"]


def _part(given: Arguments, name: str) -> str:
    """The key of a part of a call, so that repeating the call repeats each part once."""
    return f"{given['key']}.{name}" if given.get("key") else ""


def _only(given: Arguments, names: tuple[str, ...]) -> Values:
    return {name: given[name] for name in names if name in given}


def _if_any(name: str, value: Any) -> Values:
    return {name: value} if value else {}
