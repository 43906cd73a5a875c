"""The `orchestrator` format: the one current session of a project, `orchestrator-session.json`.

    agents            running and finished ones; a pending agent is an entry of `pending_tasks`
    completed_work    objects: steps that are done, with outcome and files
    pending_tasks     sentences: all other steps
    decisions_made, errors      logs; `errors` holds our record: message, category, agent, timestamp
    context_usage     tokens, and their share of the context window in percent

The last error that names a failed agent is that agent's error; all other errors are the session's.

Real files differ from the specification: other names for times (`started_at`, `completed_at` …), a
`project_path`, plain sentences in `completed_work`. Each is read by its shape and written back in
the same shape. Only files of version "1.0" are written.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from datetime import UTC, datetime
from functools import partial
from operator import attrgetter
from typing import Any

from msgspec.structs import replace

from forestay.base.findings import Choice, Finding, Question
from forestay.formats import fields as form
from forestay.formats import timestamps
from forestay.formats.coerce import Node, mapping, sequence, text
from forestay.formats.facts import (
    AgentFact,
    DecisionFact,
    ErrorFact,
    Facts,
    FileFact,
    StepFact,
    join_choice,
)
from forestay.formats.fields import COUNT, DROP, NAMES, PERCENT, SECONDS, TEXT, Field, Text
from forestay.formats.orchestrator import schema
from forestay.formats.port import (
    Bundle,
    Conventions,
    Format,
    Reading,
    Salvaged,
    Signs,
    Tree,
    Where,
)
from forestay.formats.required_keys import restore_required
from forestay.formats.salvage import salvage_json
from forestay.formats.schema import check_value
from forestay.formats.status_words import session_status, session_word, unit_status, unit_word

CURRENT = "orchestrator-session.json"
HISTORY = "orchestrator-history"


# --- history and recovery ----------------------------------------------------------------------


def archive_name(native_id: str) -> str:
    """Return the path at which a session is archived, relative to the format's folder."""
    return f"{HISTORY}/{native_id}.json"


def list_history(archived: Mapping[str, Any], limit: int = 10) -> list[dict[str, str]]:
    """Return a row per archived session, newest first by file name, including unreadable files."""
    names = sorted((name for name in archived if name.endswith(".json")), reverse=True)
    rows = []
    for name in names[: max(0, limit)]:
        value = mapping(archived[name])
        row = {key: text(value.get(key)) for key in ("session_id", "goal", "status", "created")}
        stem = name.rpartition("/")[2].removesuffix(".json")
        rows.append({"id": row.pop("session_id") or stem} | row)
    return rows


SHOW_HISTORY = "forestay files orchestrator history"
CORRUPTED = "The previous session file appears corrupted."


def recovery(kept_as: str, recommended: str = "") -> Question:
    """Return the question how to handle a corrupted file, which will be renamed to `kept_as`."""
    fresh = f"Begin new session (old file kept as {kept_as})"
    choices = (
        Choice("fresh", "Start fresh", fresh),
        Choice("history", "View history", "Check archived sessions", SHOW_HISTORY),
        Choice("manual", "Manual recovery", "I'll try to extract what I can"),
    )
    rows = enumerate(choices, 1)
    options = [f"{n}. **{choice.title}**: {choice.detail}" for n, choice in rows]
    text = "Which would you prefer?"
    shown = "\n".join(("**Options**:", *options))
    menu = "\n\n".join(("## ⚠️ SESSION RECOVERY", CORRUPTED, shown, text)) + "\n"
    return Question(text, choices, recommended, menu=menu)


# --- fields ------------------------------------------------------------------------------------

_GOAL = Field("goal", ("goal",), TEXT, sticky=True)
_CREATED = Field("began_at", ("created", "created_at", "started_at"), SECONDS, sticky=True)
_UPDATED = Field("updated_at", ("updated", "updated_at"), SECONDS, sticky=True)
_MODE = Field("mode", ("mode",), TEXT, sticky=True)
_OTHER = (
    Field("ended_at", ("completed_at", "completed"), SECONDS, sticky=True, own=False),
    Field("paused_at", ("paused_at",), SECONDS, sticky=True, own=False),
    Field("resumed_at", ("resumed_at",), SECONDS, sticky=True, own=False),
)
_SESSION = (_GOAL, _CREATED, _UPDATED, _MODE, *_OTHER)
_LOOSE_PATH = Field("project_path", ("project_path",), TEXT, sticky=True, own=False)
_NAME = Field("project", ("name",), TEXT, sticky=True)
_PATH = Field("project_path", ("path",), TEXT, sticky=True)
_BRANCH = Field("git_branch", ("git_branch",), TEXT, sticky=True)
_PROJECT = (_NAME, _PATH, _BRANCH)
_USAGE = (
    Field("tokens", ("estimated_tokens",), COUNT, sticky=True),
    Field("compressed_at", ("last_compression",), SECONDS, sticky=True),
)
_RUN = (
    Field("type", ("type",), Text("custom"), "custom"),
    Field("task", ("task",), TEXT, ""),
    Field("started_at", ("started", "started_at"), SECONDS, DROP),
    Field("ended_at", ("completed", "completed_at"), SECONDS, DROP),
    Field("result", ("result_summary",), TEXT, DROP),
    Field("fraction", ("progress",), PERCENT, DROP),
    Field("tokens", ("context_tokens",), COUNT, sticky=True),
)
_WORK = (
    Field("outcome", ("outcome",), TEXT, ""),
    Field("files", ("files",), NAMES, []),
)
_CHOICE = (
    Field("because", ("rationale",), TEXT, ""),
    Field("at", ("timestamp",), SECONDS, sticky=True),
)
_FAULT = (
    Field("category", ("category",), TEXT, "", sticky=True),
    Field("agent", ("agent", "agent_id"), TEXT, "", sticky=True),
    Field("at", ("timestamp", "at"), SECONDS, sticky=True),
)


# --- reading -----------------------------------------------------------------------------------


def _agent_status(of: Node) -> str:
    return unit_status(schema.ID, text(of.get("status"))) or "running"


def _get_agent(value: Any, where: Where) -> AgentFact | None:
    of = mapping(value)
    if not text(of.get("id")):
        return None
    fact = AgentFact(id=of["id"], status=_agent_status(of), **form.get_fields(of, _RUN, where))
    return replace(fact, fraction=1.0) if _is_whole(fact) else fact


def _is_whole(fact: AgentFact) -> bool:
    """Return whether an agent is complete and needs no progress, which only running ones have."""
    return unit_word(schema.ID, fact.status) == "complete" and fact.fraction in (None, 1.0)


def _get_done(value: Any, where: Where) -> StepFact | None:
    of = value if isinstance(value, dict) else {"task": value}
    title = text(of.get("task"))
    return StepFact(title, status="done", **form.get_fields(of, _WORK, where)) if title else None


def _get_decision(value: Any, where: Where) -> DecisionFact | None:
    of = value if isinstance(value, dict) else {"decision": value}
    what = text(of.get("decision"))
    return DecisionFact(what, **form.get_fields(of, _CHOICE, where)) if what else None


def _get_error(value: Any, where: Where) -> ErrorFact | None:
    of = value if isinstance(value, dict) else {"message": value}
    message = text(of.get("message")) or text(of.get("error"))
    return ErrorFact(message, **form.get_fields(of, _FAULT, where)) if message else None


def _get_file(value: Any) -> FileFact | None:
    path = text(mapping(value).get("path")) if isinstance(value, dict) else text(value)
    return FileFact(path) if path else None


def _get(root: Node, where: Where) -> Facts:
    listed = root.get("agents")
    agents = form.read_elements(listed, form.latest_runs(listed, partial(_get_agent, where=where)))
    errors = form.read_elements(root.get("errors"), partial(_get_error, where=where))
    project = form.get_fields(mapping(root.get("project")), _PROJECT, where)
    project["project_path"] = project["project_path"] or text(root.get("project_path"))
    usage = form.get_fields(mapping(root.get("context_usage")), _USAGE, where)
    return Facts(
        native_id=text(root.get("session_id")),
        status=session_status(schema.ID, text(root.get("status"))) or "active",
        steps=[
            *form.read_elements(root.get("completed_work"), partial(_get_done, where=where)),
            *form.read_elements(root.get("pending_tasks"), form.get_task),
        ],
        agents=_with_errors(agents, errors),
        errors=errors,
        decisions=form.read_elements(
            root.get("decisions_made"), partial(_get_decision, where=where)
        ),
        files=form.read_elements(root.get("files_modified"), _get_file),
        compressions=1 if usage["compressed_at"] is not None else None,
        tokens_by_agent={a.id: a.tokens for a in agents if a.tokens is not None},
        **form.get_fields(root, _SESSION, where),
        **project,
        **usage,
    )


def _with_errors(agents: list[AgentFact], errors: list[ErrorFact]) -> list[AgentFact]:
    """Return the agents, failed ones with the last error that names them, removed from `errors`."""
    failed = {agent.id for agent in agents if agent.status in ("failed", "timed_out")}
    last = {error.agent: error for error in errors if error.agent in failed}
    errors[:] = [error for error in errors if last.get(error.agent) is not error]
    return [
        replace(agent, error=last[agent.id].message, category=last[agent.id].category)
        if agent.id in last
        else agent
        for agent in agents
    ]


# --- writing -----------------------------------------------------------------------------------


def _fresh(facts: Facts, where: Where, native_id: str) -> Node:
    """Return a new file with every key of the specification, in its order."""
    now = facts.updated_at or facts.began_at or where.now
    path = facts.project_path or where.project_path
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return {
        "schema_version": schema.VERSION,
        "session_id": native_id,
        "created": timestamps.write(facts.began_at or now),
        "updated": timestamps.write(now),
        "project": {"name": name, "path": path, "git_branch": facts.git_branch or None},
        "goal": facts.goal,
        "mode": facts.mode or "default",
        "status": session_word(schema.ID, facts.status),
        "agents": [],
        "completed_work": [],
        "pending_tasks": [],
        "decisions_made": [],
        "context_usage": {"estimated_tokens": 0, "percentage": 0, "last_compression": None},
        "errors": [],
    }


def _put_root(root: Node, facts: Facts, where: Where) -> None:
    form.put_fields(root, facts, (_GOAL, _CREATED, _MODE, *_OTHER), where, schema.ROOT)
    form.put_status(root, schema.ID, facts.status, schema.ROOT)
    _put_project(root, facts, where)
    form.put_latest(root, _UPDATED, facts.updated_at, where, schema.ROOT)
    _put_agents(root, facts, where)
    _put_work(root, facts, where)
    _put_logs(root, facts, where)
    form.put_section(
        root, "context_usage", partial(_put_usage, facts=facts, where=where), schema.ROOT
    )


def _put_project(root: Node, facts: Facts, where: Where) -> None:
    here = where.project_path
    if "project_path" in root and not text(mapping(root.get("project")).get("path")):
        form.put_machine_value(root, _LOOSE_PATH, facts.project_path, here, where, schema.ROOT)
        facts = replace(facts, project_path="")
    elif isinstance(root.get("project"), dict):
        root["project"] = dict(root["project"])
        form.put_machine_value(
            root["project"], _PATH, facts.project_path, here, where, schema.PROJECT_ORDER
        )
        facts = replace(facts, project_path="")

    def put(project: Node) -> None:
        form.put_fields(project, facts, _PROJECT, where, schema.PROJECT_ORDER)

    form.put_section(root, "project", put, schema.ROOT)


def _put_agents(root: Node, facts: Facts, where: Where) -> None:
    """Write the agents; a pending agent without an entry becomes a task (`_put_work`)."""
    known = {text(mapping(each).get("id")) for each in sequence(root.get("agents"))}
    spent = facts.tokens_by_agent
    agents = [
        replace(a, tokens=spent.get(a.id) if a.tokens is None else a.tokens)
        for a in facts.agents
        if a.status != "pending" or a.id in known
    ]
    read, write = partial(_get_agent, where=where), partial(_put_agent, where=where)
    last = form.latest_runs(root.get("agents"), read, agents)
    form.put_list(root, "agents", schema.ROOT, agents, form.Entry(last, write, form.by_name("id")))


def _put_agent(old: Any, fact: AgentFact, where: Where) -> Node:
    made = dict(old) if old is not None else {"id": fact.id, "type": "custom", "task": ""}
    fact = form.with_stated_progress(fact, _get_agent(old, where))
    stated, word = _agent_status(made), unit_word(schema.ID, fact.status)
    turns = old is None or (fact.status != stated and unit_status(schema.ID, word) != stated)
    if _is_whole(fact):
        fact = replace(fact, fraction=None if turns else PERCENT.read(made.get("progress"), where))
    form.put_fields(made, fact, _RUN, where, schema.AGENT_ORDER)
    if turns:
        form.insert(made, "status", word, schema.AGENT_ORDER)
    if turns and word == "complete":
        form.insert(made, "result_summary", made.get("result_summary", ""), schema.AGENT_ORDER)
    return made


def _put_work(root: Node, facts: Facts, where: Where) -> None:
    """Write steps, and pending agents as tasks unless a step or an agent's entry names them."""
    steps = form.titled(form.tasks_in(facts))
    done = [step for step in steps if step.status in form.DONE]
    rest = [step for step in steps if step.status not in form.DONE]
    titles = {step.title for step in steps}
    known = {text(mapping(each).get("id")) for each in sequence(root.get("agents"))}
    pending = [a for a in facts.agents if a.status == "pending" and a.id not in known]
    rest += [StepFact(a.task or a.id) for a in pending if (a.task or a.id) not in titles]
    read, write = partial(_get_done, where=where), partial(_put_done, where=where)
    work = form.Entry(read, write, form.by_name("title"))
    form.put_list(root, "completed_work", schema.ROOT, done, work)
    form.put_list(root, "pending_tasks", schema.ROOT, rest, form.TASK)


def _put_done(old: Any, step: StepFact, where: Where) -> Any:
    if isinstance(old, str) and not step.outcome and not step.files:
        return old
    blank = {"task": step.title, "outcome": "", "files": []}
    made = dict(old) if isinstance(old, dict) else blank
    form.put_fields(made, step, _WORK, where, schema.WORK_ORDER)
    return made


_MESSAGE = attrgetter("message", "agent")
"""The values that identify an error."""


def _of_agent(error: ErrorFact) -> Hashable:
    """Return the values that identify an agent's error, without its time."""
    return _MESSAGE(error) if error.agent else None


def _put_logs(root: Node, facts: Facts, where: Where) -> None:
    moment = facts.updated_at or facts.began_at or where.now
    withdrawn = where.withdrawn or Facts()
    passes = [*form.match_by_time(lambda each: each.what), *form.reworded()]
    choice = form.log(_get_decision, _put_decision, passes, where, moment)
    gone = _choices(withdrawn)
    form.put_list(root, "decisions_made", schema.ROOT, _choices(facts), choice, gone=gone)
    passes = [*form.match_by_time(_MESSAGE), (_of_agent, _of_agent)]
    error = form.log(_get_error, _put_error, passes, where, moment)
    form.put_list(root, "errors", schema.ROOT, _errors(facts), error, gone=withdrawn.errors)
    if isinstance(root.get("files_modified"), list):
        paths = [FileFact(path) for path in dict.fromkeys(f.path for f in facts.files) if path]
        entry = form.Entry(
            _get_file, lambda old, fact: old or fact.path, form.by_name("path"), log=True
        )
        form.put_list(root, "files_modified", schema.ROOT, paths, entry, gone=withdrawn.files)


def _choices(facts: Facts) -> list[DecisionFact]:
    return [replace(d, what=join_choice(d.what, d.chosen)) for d in facts.decisions if d.what]


def _put_decision(old: Any, fact: DecisionFact, where: Where, moment: int) -> Any:
    if old is not None and _get_decision(old, where) == replace(fact, options=[], chosen=""):
        return old
    made = dict(old) if isinstance(old, dict) else {"decision": "", "rationale": ""}
    made["decision"] = fact.what
    if old is None and fact.at is None:
        fact = replace(fact, at=moment)
    form.put_fields(made, fact, _CHOICE, where, schema.DECISION_ORDER)
    return made


def _errors(facts: Facts) -> list[ErrorFact]:
    """Return the entries of `errors`: the session's errors, why it failed, then agents' errors."""
    failed = {
        (a.id, a.error): ErrorFact(a.error, a.category, a.id, a.ended_at)
        for a in facts.agents
        if a.status in ("failed", "timed_out") and a.error
    }
    own = [e for e in facts.errors if e.message]
    known = {error.message for error in [*own, *failed.values()]}
    if facts.status == "failed" and facts.because and facts.because not in known:
        own += [ErrorFact(facts.because)]
    stated = {(e.agent, e.message) for e in own}
    return [*own, *(error for key, error in failed.items() if key not in stated)]


def _put_error(old: Any, fact: ErrorFact, where: Where, moment: int) -> Any:
    if old is not None and not isinstance(old, dict):
        return old
    made = dict(old) if old is not None else {"message": fact.message, "category": "", "agent": ""}
    if old is None and fact.at is None:
        fact = replace(fact, at=moment)
    if old is not None and "category" not in old:
        fact = replace(fact, category="")
    # An agent's error has the time of the failure; an entry of another program can be later.
    if old is not None and (was := _get_error(old, where)) and (was.agent or was.at is not None):
        fact = replace(fact, at=was.at)
    form.put_fields(made, fact, _FAULT, where, schema.ERROR_ORDER)
    return made


def _put_usage(usage: Node, facts: Facts, where: Where) -> None:
    before = COUNT.read(usage.get("estimated_tokens"), where)
    form.put_fields(usage, facts, _USAGE, where, schema.USAGE_ORDER)
    form.put_no_compression(usage, facts, where)
    tokens = COUNT.read(usage.get("estimated_tokens"), where)
    if tokens is not None and tokens != before:
        form.insert(
            usage, "percentage", schema.percentage(tokens, where.window), schema.USAGE_ORDER
        )


# --- the format --------------------------------------------------------------------------------

_LOOSE_TIMES = frozenset(("started_at", "paused_at", "resumed_at", "completed_at"))
_STAMPED = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9A-Za-z]+")


def _signs(value: Node) -> int:
    """Return the number of keys that suggest this format, minus those that suggest another."""
    version, work = text(value.get("schema_version")), sequence(value.get("completed_work"))
    ours = (
        re.fullmatch(r"[0-9]+\.[0-9]+", version) is not None,
        isinstance(value.get("project"), dict),
        "created" in value and "updated" in value,
        _STAMPED.fullmatch(text(value.get("session_id"))) is not None,
        bool(work) and isinstance(work[0], dict),
        "percentage" in mapping(value.get("context_usage")),
        isinstance(value.get("errors"), list),
        "completed_work" in value and "pending_tasks" in value,
        isinstance(value.get("project_path"), str),
        # Keys for times in real files; no other format with a goal has them.
        "goal" in value and "started_at" in value,
        "completed_work" in value and not _LOOSE_TIMES.isdisjoint(value),
    )
    theirs = (
        "$schema" in value,
        re.match(r"[0-9]+\.[0-9]+\.[0-9]+", version) is not None,
        isinstance(value.get("project"), str),
        "created_at" in value and "updated_at" in value,
        "device" in value,
        "progress" in value,
        "teleportation" in value,
    )
    return sum(ours) - sum(theirs)


_DAY = 86_400
_PER_SECOND = 36**6 // _DAY


def _suffix(second: int, digest: str) -> str:
    """Return six letters and digits that sort by the second of the day, for ids in time order."""
    rest = second * _PER_SECOND + int(digest[:8], 16) % _PER_SECOND
    made = ""
    for _ in range(6):
        rest, digit = divmod(rest, 36)
        made = "0123456789abcdefghijklmnopqrstuvwxyz"[digit] + made
    return made


class Orchestrator(Format):
    id = schema.ID
    document = "S4"
    conventions = Conventions(
        archive="orchestrator-history/{id}.json",
        unshared=("orchestrator-session.json", "orchestrator-history/"),
        named_after=(".claude/orchestrator-history", "S4-6"),
        unreadable="S4-79",
    )
    signs = Signs(
        words=rb"session_id|schema_version|completed_work",
        damaged=rb'"schema_version"\s*:\s*"1\.0"|"decisions_made"|"completed_work"',
        names=r"orchestrator-session\.json|\d{4}-\d\d-\d\d-[0-9a-z]+\.json",
    )

    def recognise(self, name: str, value: Any) -> float:
        of = mapping(value)
        if "workflow_type" in of or "current_phase" in of:
            return 0.0
        signs, common = _signs(of), len(of.keys() & {*form.COMMON})
        is_named = "schema_version" in of or {"session_id", "goal"} <= of.keys()
        if name.rpartition("/")[2] == CURRENT and signs >= 0 and is_named:
            return min(1.0, 0.5 + 0.1 * signs)
        return min(1.0, 0.3 + 0.1 * signs) if signs >= 2 and common >= 2 else 0.0

    def files(self, native_id: str) -> list[str]:
        return [CURRENT]

    def new_id(self, facts: Facts, where: Where, taken: frozenset[str]) -> str:
        moment = min(max(facts.began_at or where.now, 0), 253_402_300_799_999)
        day = datetime.fromtimestamp(moment / 1000, UTC).date()
        second = moment // 1000 % _DAY
        made = (f"{day}-{_suffix(second, each)}" for each in form.digests(facts, where))
        return next(id for id in made if id not in taken)

    def why_invalid_id(self, native_id: str) -> str:
        return schema.wrong_id(native_id)

    def get(self, tree: Tree, where: Where) -> Facts:
        return _get(mapping(form.main(tree, CURRENT)[1]), where)

    def put(self, old: Tree | None, facts: Facts, where: Where) -> Tree:
        made: Tree = dict(old or {})
        name, value = form.main(made, CURRENT)
        if not isinstance(value, dict):
            native_id = facts.native_id or self.new_id(facts, where, frozenset())
            value = _fresh(facts, where, native_id)
        made[name or CURRENT] = value = dict(value)
        _put_root(value, facts, where)
        return made

    def restore_required(self, tree: Tree, before: Tree, where: Where) -> tuple[Tree, list[str]]:
        return restore_required(self, tree, before, where, lambda _: True)

    def reading(self, tree: Tree, where: Where) -> Reading:
        root = mapping(form.main(tree, CURRENT)[1])
        facts = self.get(tree, where)
        version = root.get("schema_version")
        is_documented = "schema_version" in root or isinstance(root.get("project"), dict)
        return Reading(
            format=schema.ID,
            generation="document" if is_documented else "aiterm",
            version=text(version),
            complete=facts.status == "completed",
            status=facts.status,
            progress=shown_progress(facts),
            writable=version == schema.VERSION,
        )

    def check(self, tree: Tree, where: Where, *, strict: bool = False) -> list[Finding]:
        name, value = form.main(tree, CURRENT)
        found = [
            schema.as_alias(finding) for finding in check_value(schema.RULES, value, strict=strict)
        ]
        if isinstance(value, dict):
            found += schema.find_oddities(value, where)
        return [finding._replace(file=name) for finding in found]

    def salvage(self, bundle: Bundle, where: Where) -> Salvaged | None:
        _, data = form.main(bundle, CURRENT)
        read, wanted = partial(_get, where=where), (*schema.RULES.need, *schema.RULES.want)
        return salvage_json(data, read, is_session=form.is_session, wanted=wanted)

    def ask(
        self, bundle: Bundle, where: Where, level: str, kept_as: str
    ) -> tuple[str, Question] | None:
        has_archive = any(name.startswith(f"{HISTORY}/") for name in where.names)
        best = "manual" if level else "history" if has_archive else "fresh"
        return CORRUPTED, recovery(kept_as, best)


def shown_progress(facts: Facts) -> float:
    """Return the progress to display: the running agent's, else the session's."""
    running = (a.fraction for a in facts.agents if a.status == "running" and a.fraction is not None)
    first = next(running, None)
    return form.progress_of(facts) if first is None else first


FORMAT = Orchestrator()
