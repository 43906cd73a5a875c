"""Run the MCP tools: each is one or a few calls of the library, with the result as values.

This module is independent of the protocol. Arguments are checked against the schema of the tool
first, and the façade refuses the rest; what it raises becomes a question or an error, never a
traceback. Writes never guess: without a session they go to the current one of the project, or the
answer is a question.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from forestay.api import error_values
from forestay.api.status import event_receipt
from forestay.base.clock import iso
from forestay.errors import ForestayError, InvalidInput
from forestay.journal.history import event_to_json
from forestay.mcp import responses, schema_check
from forestay.mcp.responses import Answer, Values
from forestay.mcp.tool_schemas import TOOLS, VERBS, Tool, read_verb
from forestay.plans.prove import result_to_json

if TYPE_CHECKING:
    from forestay.api.forestay import Forestay
    from forestay.api.session import Session
    from forestay.briefing.brief import Briefing
    from forestay.model.event import Event
    from forestay.plans.run_command import Stop

Arguments = Mapping[str, Any]

_DEFAULT_LIMIT, _PROOF_SECONDS, _END_SECONDS = 20, 600, 15
_INGEST_SECONDS = 1.0
"""Seconds for which hook reports are ingested at a time."""
_INTERNAL_FIELDS = frozenset({"chains", "tips", "clock", "held"})
_EVENT_FIELDS = ("seq", "id", "kind", "at", "actor", "data")


class ToolRunner:
    """Runs the tools for one home, by their names, and adds the notices of the home to answers."""

    def __init__(self, home: Forestay, notices: list[str], *, tools: Mapping[str, Tool] = TOOLS):
        self.home = home
        self.tools = tools
        self._notices = notices
        """Filled by the home's `on_notice`."""
        self._ending = threading.Event()
        self._proving = threading.Lock()

    def call(self, name: str, arguments: Arguments, stop: Stop | None = None) -> Answer:
        """Run a tool and return its answer; a long one ends when `stop`, called often, is true."""
        tool = self.tools[name]
        try:
            require_valid(tool, arguments)
            self.home.agents.catch_up()
            act = _ACTIONS.get(name) or self._prove(stop)
            values = act(self.home, arguments)
            return responses.report_result(name, values, self.home, self._clear_notices())
        except ForestayError as error:
            return self._report_error(tool, error)
        except Exception as error:
            bug = error_values.report_bug(error, "report it; what was recorded before is safe")
            return self._report_error(tool, bug)

    def _prove(self, stop: Stop | None) -> Callable[..., Values]:
        """Return the action of the tool prove: one proof at a time, ended with the server."""

        def is_ended() -> bool:
            return self._ending.is_set() or (stop is not None and stop())

        def act(home: Forestay, given: Arguments) -> Values:
            with self._proving:
                return _prove(home, given, is_ended)

        return act

    def request_end(self) -> None:
        """End a running proof without waiting for it."""
        self._ending.set()

    def end(self) -> None:
        """End a running proof and wait, for a limited time, until its result is recorded."""
        self.request_end()
        if self._proving.acquire(timeout=_END_SECONDS):
            self._proving.release()

    def _report_error(self, tool: Tool, error: ForestayError) -> Answer:
        self._clear_notices()
        return responses.report_error(tool.name, error, self.home, reads=tool.hints[0])

    def _clear_notices(self) -> list[str]:
        """Return the notices so far, and clear the list."""
        notices, self._notices[:] = list(self._notices), []
        return notices

    def ingest(self) -> None:
        """Ingest reports of hooks, and write files that lag behind their session.

        A failure is only reported as a notice: no caller waits for this.
        """
        self.home.context.finish()
        if self.home.agents.waiting():
            self.home.context.best_effort(lambda: self.home.agents.ingest(seconds=_INGEST_SECONDS))


def require_valid(tool: Tool, arguments: Arguments) -> None:
    """Refuse arguments that the tool's schema does not allow."""
    if schema_check.has_huge_text(arguments):
        # Check the length first: searching a huge text for secrets would take long.
        why = f"at most {schema_check.MOST:,} characters can be stored; nothing was done"
        raise InvalidInput("a text is too long", why=why, hint="store it in a file: event artifact")
    if problem := schema_check.find_problem(dict(arguments), tool.input_schema):
        raise InvalidInput(problem, why=f"wrong arguments for {tool.name}; nothing was done")


# -- tools that write ------------------------------------------------------------------------------


def _start(home: Forestay, given: Arguments) -> Values:
    try:
        before = home.current(open_only=True).id
    except ForestayError:
        before = ""
    names = ("goal", "mode", "id", "workflow", "target", "formats", "key")
    more = {"from_session": given["from"]} if "from" in given else {}
    session = home.start(**_only(given, names), **more)
    values = {"session": session.id, "repeated": session.repeated, "taken_up": session.was_open}
    known = _if_any("before", before if before != session.id else "")
    return {**values, **known, **_progress(session)}


def _progress(session: Session) -> Values:
    """Return the status, the next step and the phase of a session."""
    shown = session.status().as_json()
    values = {name: shown[name] for name in ("status", "next", "phase") if shown[name]}
    return values | _if_any("next", responses.name_tool_calls(shown["next"]))


def _resume(home: Forestay, given: Arguments) -> Values:
    arrival = _pull(home, given.get("session", ""))
    session = home.to_resume(given.get("session", ""))
    if "reopen" in given:
        session.lifecycle.reopen(given["reopen"], key=_part_key(given, "reopen"))
    others = _others(session)
    briefing = session.resume(budget=given.get("budget"), key=given.get("key", ""))
    values = {"session": session.id, **_briefing_values(session, briefing)}
    return {**values, "others": others, **arrival}


def _pull(home: Forestay, named: str) -> Values:
    """Fetch what other devices recorded; return the result, empty without a remote."""
    found = home.context.store.resolve(named) if named else []
    pulled = home.remotes.fetch(found[0] if len(found) == 1 else "")
    problem = pulled.why or pulled.late
    values = {"synced": not problem, "events": pulled.events, "problem": problem}
    return {"arrival": values} if pulled.asked else {}


def _briefing_values(session: Session, briefing: Briefing) -> Values:
    """Return a briefing with its figures; `next` names calls of tools instead of commands."""
    return {
        "briefing": briefing.text,
        "next": responses.name_tool_calls(session.status().next),
        "tokens": briefing.tokens,
        "attention": list(briefing.attention),
        "unknown_outcomes": briefing.unknown_outcomes,
        "disputes": briefing.disputes,
    }


def _record(home: Forestay, given: Arguments) -> Values:
    events = given["events"]
    for number, event in enumerate(events):
        _require_verb(event, number)
    session = _open_session(home, given)
    done: list[Values] = []
    for number, event in enumerate(events):
        key = _part_key(given, str(number)) if len(events) > 1 else given.get("key", "")
        try:
            arguments = {name: value for name, value in event.items() if name != "do"}
            made = attrgetter(VERBS[event["do"]][1])(session)(**arguments, key=key)
            done.append({"do": event["do"], **_event_values(made), "repeated": session.repeated})
        except ForestayError as error:
            answer = responses.report_error("record", error, home, reads=False).values
            refused = {"ok": False, "failed": number, **answer}
            return {**refused, "session": session.id, "recorded": done}
    step = responses.name_tool_calls(session.status().next)
    values = {"session": session.id, "recorded": done, "next": step}
    return values | _if_any("others", _others(session))


def _require_verb(event: Values, number: int) -> None:
    if event["do"] not in VERBS:
        what = f"events[{number}].do is not a known event"
        raise InvalidInput(what, why=f"the events are {', '.join(VERBS)}; nothing was recorded")
    known = read_verb(event["do"])
    names = [name for name in event if name != "do"]
    missing = [name for name in known.needs if name not in names]
    unknown = [name for name in names if name not in (*known.needs, *known.takes)]
    if missing or unknown:
        what = f"has no {missing[0]}" if missing else f"has {unknown[0][:100]}, which is unknown"
        why = f"it is used as {known.usage}; nothing was recorded"
        raise InvalidInput(f"events[{number}] ({known.name}) {what}", why=why)


def _event_values(made: Event) -> Values:
    """Return the fields of a recorded event that are not empty."""
    values = event_receipt(made)
    step = getattr(made.body, "step", "") or getattr(made.body, "agent", "")
    return {name: value for name, value in values.items() if value} | _if_any("of", step)


def _checkpoint(home: Forestay, given: Arguments) -> Values:
    session, action, key = _open_session(home, given), given["action"], given.get("key", "")
    if action != "retry" and "phase" not in given:
        why, hint = f"{action} requires a number", "forestay phase list"
        raise InvalidInput("phase is missing", why=why, hint=hint)
    phases, number, evidence = session.phases, given.get("phase", 0), given.get("evidence", {})
    because = given.get("because", "")
    moves: dict[str, Callable[[], Event]] = {
        "retry": lambda: phases.retry(key=key),
        "total": lambda: phases.total(number, names=given.get("names", []), key=key),
        "rollback": lambda: phases.rollback(number, because=because, key=key),
    }
    if action in moves:
        values: Values = {"event": _event_values(moves[action]())}
    else:
        if action == "fail":
            outcome = phases.fail(number, evidence, issue=given.get("issue", ""), key=key)
        else:
            options = _only(given, ("override", "because"))
            outcome = phases.done(number, evidence, **options, key=key)
        values = {
            "passed": outcome.passed,
            "complete": outcome.complete,
            "result": _judgment_values(outcome.judgment.as_values()) if outcome.judgment else {},
            "outputs": outcome.outputs,
            "event": _event_values(outcome.event),
        }
    return {"session": session.id, **values, **_progress(session), "repeated": session.repeated}


def _judgment_values(result: Values) -> Values:
    steps = [responses.name_tool_calls(step) for step in result["next_steps"]]
    return result | {"next_steps": steps}


def _prove(home: Forestay, given: Arguments, stop: Stop) -> Values:
    session = _open_session(home, given)
    made = session.proofs.run(
        given["command"],
        phase=str(given.get("phase", "")),
        name=given.get("as", ""),
        inputs=given.get("inputs", []),
        timeout=float(given.get("timeout", _PROOF_SECONDS)),
        stop=stop,
        key=given.get("key", ""),
    )
    known = {"session": session.id, **result_to_json(made.body)}
    return {**known, "event": _event_values(made), "repeated": session.repeated}


def _finish(home: Forestay, given: Arguments) -> Values:
    how = given["how"]
    if how == "archive":
        name = given.get("session", "")
        session = home.session(name) if name else home.current()
        event = session.lifecycle.archive(**_only(given, ("key",)))
    elif how == "pause":
        session = _open_session(home, given)
        event = session.pause(**_only(given, ("reason", "context", "key")))
    else:
        session = _open_session(home, given)
        act = session.complete if how == "complete" else getattr(session.lifecycle, how)
        event = act(**_only(given, ("because", "key")))
    open_ones = {
        "tasks": [task.id for task in session.tasks.list() if task.is_open],
        "agents": [agent.id for agent in session.agents.list() if agent.is_open],
    }
    known = {"session": session.id, "status": session.status().status}
    left = _if_any("left_open", {name: ids for name, ids in open_ones.items() if ids})
    return {**known, **left, "event": _event_values(event), "repeated": session.repeated}


# -- tools that read -------------------------------------------------------------------------------


def _find(home: Forestay, given: Arguments) -> Values:
    what = given["what"]
    if what in _HOME_FINDS:
        return _HOME_FINDS[what](home, given)
    session = home.to_resume(given.get("session", ""), open_only=False)
    return {"session": session.id, **_SESSION_FINDS[what](session, given)}


def _sessions(home: Forestay, given: Arguments) -> Values:
    most = given.get("limit", _DEFAULT_LIMIT)
    found = home.list(all=given.get("all", False), status=given.get("status"), limit=most + 1)
    return responses.make_page([one.as_json() for one in found], most)


def _search(home: Forestay, given: Arguments) -> Values:
    if not given.get("query", "").strip():
        raise InvalidInput("query is missing", why="search requires words")
    most = given.get("limit", _DEFAULT_LIMIT)
    found = home.search(given["query"], limit=most + 1)
    return responses.make_page([one.as_json() for one in found], most)


def _workflows(home: Forestay, given: Arguments) -> Values:
    found = [each.as_json() for each in home.workflows.list()]
    return responses.make_page(found, given.get("limit", _DEFAULT_LIMIT))


def _brief(session: Session, given: Arguments) -> Values:
    return _briefing_values(session, session.brief(budget=given.get("budget")))


def _status(session: Session, given: Arguments) -> Values:
    shown = session.status().as_json()
    return responses.make_item(shown | {"next": responses.name_tool_calls(shown["next"])})


def show_session(session: Session, at: str = "", limit: int = _DEFAULT_LIMIT) -> Values:
    """Return everything in a session: of each table the newest rows, as many as fit."""
    whole = session.show(at).as_json()
    rows = whole.pop("rows")
    whole["core"] = {name: v for name, v in whole["core"].items() if name not in _INTERNAL_FIELDS}
    while limit:
        newest = {table: found[-limit:] for table, found in rows.items()}
        values = responses.shorten_texts({**whole, "rows": newest}, responses.MOST_TEXT // 10)
        if len(responses.as_json(values)) <= responses.MOST_TEXT:
            break
        limit //= 2
    counts = {table: len(found) for table, found in rows.items()}
    left = sum(counts.values()) - sum(len(found) for found in newest.values())
    return responses.make_item({**values, "counts": counts}, more=left)


def read_log(session: Session, after: int | None, limit: int = _DEFAULT_LIMIT) -> Values:
    """Return the newest events, or those after a number; `next` is the number for the next page."""
    last = session.status().seq
    lines = session.log(limit=limit) if after is None else islice(session.log(after=after), limit)
    found = []
    for line in lines:
        whole = event_to_json(line)
        shown = {name: whole[name] for name in _EVENT_FIELDS}
        found.append(shown | _if_any("retracted", line.retracted))
    page = responses.make_page(found, limit)
    if after is None or not page["found"]:
        return page | {"more": 0 if after is not None else max(0, last - len(page["found"]))}
    reached = page["found"][-1]["seq"]
    return page | {"more": last - reached, "next": reached}


def _log(session: Session, given: Arguments) -> Values:
    return read_log(session, given.get("after"), given.get("limit", _DEFAULT_LIMIT))


def _show(session: Session, given: Arguments) -> Values:
    return show_session(session, given.get("at", ""), given.get("limit", _DEFAULT_LIMIT))


def _diff(session: Session, given: Arguments) -> Values:
    if not given.get("since"):
        raise InvalidInput("since is missing", why="diff requires a point to begin at")
    changes = session.diff(given["since"], given.get("until", ""))
    found = [{"where": c.where, "before": c.before, "after": c.after} for c in changes]
    return responses.make_page(found, given.get("limit", 100))


def _phases(session: Session, given: Arguments) -> Values:
    return responses.make_page([one.as_json() for one in session.phases.list()], 100)


def _gate(session: Session, given: Arguments) -> Values:
    number = given.get("phase")
    if number is None:
        # A session without phases is refused below, whatever the number.
        number = plan.current if (plan := session.status().phase) else 0
    values = session.phases.gate(number, given.get("evidence", {})).as_json()
    return responses.make_item(values | {"result": _judgment_values(values["result"])})


def _proofs(session: Session, given: Arguments) -> Values:
    found = [one.as_json() for one in session.proofs.list()]
    return responses.make_page(found, given.get("limit", _DEFAULT_LIMIT))


def _rows(table: str) -> Callable[[Session, Arguments], Values]:
    def act(session: Session, given: Arguments) -> Values:
        rows = session.show(given.get("at", "")).as_json()["rows"].get(table, [])
        if table in ("step", "agent"):
            rows = [{"status": "pending", **row} for row in rows]  # rows omit their defaults
        newest = [_row(row) for row in reversed(rows)]
        return responses.make_page(newest, given.get("limit", _DEFAULT_LIMIT))

    return act


def _row(row: Values) -> Values:
    """Return a row with times as text."""
    values = {name: value for name, value in row.items() if name != "rank"}
    times = [name for name in values if name == "at" or name.endswith("_at")]
    return values | {name: iso(values[name]) for name in times if values[name] is not None}


_HOME_FINDS = {"sessions": _sessions, "search": _search, "workflows": _workflows}
_SESSION_FINDS: dict[str, Callable[[Session, Arguments], Values]] = {
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
_ACTIONS: dict[str, Callable[..., Values]] = {
    "start": _start,
    "resume": _resume,
    "record": _record,
    "checkpoint": _checkpoint,
    "finish": _finish,
    "find": _find,
}


# -- common ----------------------------------------------------------------------------------------


def _open_session(home: Forestay, given: Arguments) -> Session:
    """Return the session named, else the current one, which must be open."""
    name = given.get("session", "")
    return home.session(name) if name else home.current(open_only=True)


def _others(session: Session) -> list[Values]:
    return [one.as_json() for one in session.agents.others() if one.state != "dead"]


def _part_key(given: Arguments, name: str) -> str:
    """Return the key of one part of a call: repeating the call then repeats each part once."""
    return f"{given['key']}.{name}" if given.get("key") else ""


def _only(given: Arguments, names: tuple[str, ...]) -> Values:
    return {name: given[name] for name in names if name in given}


def _if_any(name: str, value: Any) -> Values:
    return {name: value} if value else {}
