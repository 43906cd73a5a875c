"""A random history that one other program alone writes into a bound file.

The program reads the file before each change, and writes the time of each change. After some of its
turns we record a note, which has no field in the file: the file that we then write from the journal
must have the values that the program wrote, and nothing may be disputed. The same seed gives the
same history.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

from forestay.formats import timestamps
from forestay.plans import yaml_definition
from tests.mirror.driver import Slow, Violation, workflow
from tests.mirror.support import Project, swap_in

Doc = dict[str, Any]


class Program:
    """Another program, and the file that it alone writes."""

    first, total = 0, 4

    def __init__(self, base: Path, format_id: str, seed: int) -> None:
        self.chance = Random(seed)
        self.format, self.seed = format_id, seed
        plan = (
            yaml_definition.write(workflow(self.first, self.total))
            if format_id == "praxis"
            else b""
        )
        self.project = Project(base, format_id, workflow=plan)
        clock = Slow(self.chance.choice((40, 1000)))
        clock.turn(60_000)
        self.project.clock = clock
        self.session = self.project.again()
        self.path = self.project.place
        self.doc: Doc = json.loads(self.path.read_bytes())
        self.steps: list[str] = []
        self.numbers = iter(range(10_000))
        if format_id == "craft":
            self.doc["progress"] = 0.1
            self.save()

    def now(self) -> str:
        return timestamps.write(self.project.clock.now(), milliseconds=self.format == "craft")

    def turn(self) -> None:
        """Make some changes, and write each at once."""
        for _ in range(self.chance.choice((1, 1, 2, 3))):
            self.doc = json.loads(self.path.read_bytes())
            move = self.chance.choice(MOVES[self.format])
            reported = move(self, self.doc)
            if reported:
                self.doc["updated" if self.format == "orchestrator" else "updated_at"] = self.now()
                self.steps.append(f"{move.__name__} {reported}")
                self.save()

    def save(self) -> None:
        indent = self.chance.choice((2, 2, 4, None))
        swap_in(self.path, json.dumps(self.doc, indent=indent).encode())

    def record_note(self) -> None:
        wrote = deepcopy(self.doc)
        self.steps.append("-- note")
        self.session.note(f"n{next(self.numbers)}")
        self.check_file(wrote)

    def check_file(self, wrote: Doc) -> None:
        found = json.loads(self.path.read_bytes())
        self.require(not self.project.disputes(), "disputed", self.project.disputes())
        one, other = (native(self.format, doc) for doc in (wrote, found))
        unlike = {k: (one.get(k), other.get(k)) for k in one if one.get(k) != other.get(k)}
        self.require(not unlike, "the file has other values", unlike)

    def require(self, holds: object, what: str, *more: object) -> None:
        if not holds:
            last_steps = "\n".join(self.steps[-30:])
            raise Violation(f"{what}: {more}\nseed {self.seed}, {self.format}\n{last_steps}")


def native(format_id: str, doc: Doc) -> Doc:
    """Return the content of a document without our own keys and without empty values."""
    if format_id == "praxis":
        return phases(doc)
    drop = ("updated_at", "updated", "forestay", "teleportation", "metadata", "device")
    kept = {k: v for k, v in doc.items() if k not in drop}
    return {k: _without_empty(v) for k, v in kept.items()}


def phases(doc: Doc) -> Doc:
    life = doc["lifecycle"]
    return {
        "current": doc["current_phase"],
        "done": sorted(doc["completed_phases"]),
        "checkpoints": {n: word for n, word in doc["checkpoints"].items() if word != "pending"},
        "flags": (life["paused"], life["completed"]),
        "timing": _without_empty(doc["phase_timing"]),
    }


_DERIVED = ("duration_seconds", "paused_duration_seconds", "active_duration_seconds")


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        reported = {k: _without_empty(v) for k, v in value.items() if k not in _DERIVED}
        return {k: v for k, v in reported.items() if v not in (None, [], {})}
    return [_without_empty(v) for v in value] if isinstance(value, list) else value


# -- agents ---------------------------------------------------------------------------------------

_NAMES = {
    "craft": {
        "began": "started_at",
        "ended": "completed_at",
        "done": "completed",
        "run": "running",
    },
    "orchestrator": {
        "began": "started",
        "ended": "completed",
        "done": "complete",
        "run": "in_progress",
    },
}


def some(program: Program, doc: Doc, *statuses: str) -> Doc | None:
    able = [a for a in doc["agents"] if a["status"] in statuses]
    return program.chance.choice(able) if able else None


def spawn(program: Program, doc: Doc) -> str:
    id, names = f"code-{len(doc['agents']) + 1}", _NAMES[program.format]
    agent: Doc = {"id": id, "type": "code", "status": names["run"], names["began"]: program.now()}
    if program.format == "craft":
        if program.chance.random() < 0.4:
            agent |= {"status": "pending", "started_at": None}
        agent |= {"completed_at": None, "progress": 0.0, "result": None, "error": None}
    else:
        agent |= {"task": f"does {id}"}
    doc["agents"].append(agent)
    return id


def begin(program: Program, doc: Doc) -> str:
    agent = some(program, doc, "pending")
    if not agent:
        return ""
    agent.update(status="running", started_at=program.now())
    return str(agent["id"])


def progress(program: Program, doc: Doc) -> str:
    agent = some(program, doc, _NAMES[program.format]["run"])
    if not agent:
        return ""
    share = program.chance.choice((25, 50, 75))
    agent["progress"] = share / 100 if program.format == "craft" else share
    return f"{agent['id']} {share}"


def finish(program: Program, doc: Doc) -> str:
    names = _NAMES[program.format]
    agent = some(program, doc, names["run"])
    if not agent:
        return ""
    agent.update({"status": names["done"], names["ended"]: program.now()})
    if program.format == "craft":
        agent.update(progress=1.0, result="success", error=None)
        agent["output_summary"] = program.chance.choice((None, "fine"))
    elif program.chance.random() < 0.5:
        agent["result_summary"] = "fine"
    return str(agent["id"])


def fail(program: Program, doc: Doc) -> str:
    names = _NAMES[program.format]
    agent = some(program, doc, names["run"])
    if not agent:
        return ""
    text = program.chance.choice(("it broke", "no network", "disk full"))
    if program.format == "craft":
        word = program.chance.choice(("error", "error", "timeout"))
        had = agent.get("error") or {}
        agent["error"] = {
            "category": "transient",
            "message": text,
            "retry_count": had.get("retry_count", 0),
            "last_retry_at": had.get("last_retry_at"),
        }
        agent["result"] = "failure" if word == "error" else "timeout"
    else:
        word = "failure"
        entry = {"message": text, "agent": agent["id"], "timestamp": program.now()}
        doc["errors"].append(entry | {"category": "transient"})
    agent.update({"status": word, names["ended"]: program.now()})
    return f"{agent['id']} {word}"


def retry(program: Program, doc: Doc) -> str:
    names = _NAMES[program.format]
    agent = some(program, doc, "error", "timeout", "failure")
    if not agent:
        return ""
    agent.update({"status": names["run"], names["ended"]: None})
    if program.chance.random() < 0.5:
        agent[names["began"]] = program.now()
    if program.format == "craft":
        agent["result"] = None
        if program.chance.random() < 0.6:
            agent["error"]["retry_count"] += 1
            agent["error"]["last_retry_at"] = program.now()
        else:
            agent["error"] = None
    return str(agent["id"])


# -- tasks, decisions, the session ----------------------------------------------------------------


def add_task(program: Program, doc: Doc) -> str:
    doc["pending_tasks"].append(text := f"Do number {next(program.numbers)}")
    return text


def end_task(program: Program, doc: Doc) -> str:
    if not doc["pending_tasks"]:
        return ""
    text = doc["pending_tasks"].pop(program.chance.randrange(len(doc["pending_tasks"])))
    is_text = program.format == "craft"
    doc["completed_work"].append(text if is_text else {"task": text, "outcome": "", "files": []})
    return str(text)


def reopen_task(program: Program, doc: Doc) -> str:
    if not doc["completed_work"]:
        return ""
    done = doc["completed_work"].pop()
    doc["pending_tasks"].append(text := done if isinstance(done, str) else done["task"])
    return str(text)


def choose(program: Program, doc: Doc) -> str:
    text = f"Use number {next(program.numbers)}"
    if program.format == "craft":
        entry = {"context": text, "options": ["a", "b"], "chosen": "a", "reasoning": ""}
    else:
        entry = {"decision": text, "rationale": ""}
    doc["decisions_made"].append(entry | {"timestamp": program.now()})
    return text


def set_status(program: Program, doc: Doc) -> str:
    options = ["in_progress", "paused"]
    if program.format == "craft" and program.chance.random() < 0.2:
        options += ["completed", "error"]  # an orchestrator's file would go into the archive
    word = program.chance.choice([w for w in options if w != doc["status"]])
    doc["status"] = word
    return word


def set_progress(program: Program, doc: Doc) -> str:
    doc["progress"] = program.chance.choice((0.1, 0.2, 0.3))
    return str(doc["progress"])


# -- phases ---------------------------------------------------------------------------------------


def is_over(doc: Doc) -> bool:
    return bool(doc["lifecycle"]["completed"])


def pass_phase(program: Program, doc: Doc) -> str:
    if is_over(doc) or doc["lifecycle"]["paused"]:
        return ""
    at, number = program.now(), doc["current_phase"]
    timing = doc["phase_timing"].setdefault(str(number), {"started_at": at})
    timing["completed_at"] = at
    doc["checkpoints"][str(number)] = "passed"
    doc["phase_artifacts"][str(number)] = artifact(program, number, at)
    doc["completed_phases"].append(number)
    if number == program.first + program.total - 1:
        doc["lifecycle"].update(completed=True, completed_at=at)
    else:
        doc["current_phase"] = number + 1
        doc["phase_timing"][str(number + 1)] = {"started_at": at}
    return str(number)


def artifact(program: Program, number: int, at: str) -> Doc:
    evidence = {"tests": program.chance.randrange(100)}
    made = {"phase_number": number, "evidence": evidence, "outputs": {}}
    return made | {"commands_executed": [], "timestamp": at}


def fail_phase(program: Program, doc: Doc) -> str:
    if is_over(doc) or doc["lifecycle"]["paused"]:
        return ""
    at, number = program.now(), doc["current_phase"]
    doc["checkpoints"][str(number)] = "failed"
    doc["phase_artifacts"][str(number)] = artifact(program, number, at)
    return str(number)


def retry_phase(program: Program, doc: Doc) -> str:
    number = str(doc["current_phase"])
    if is_over(doc) or doc["checkpoints"].get(number) != "failed":
        return ""
    doc["checkpoints"][number] = "pending"
    return number


def roll_back(program: Program, doc: Doc) -> str:
    done = doc["completed_phases"]
    if not done or doc["lifecycle"]["paused"]:
        return ""
    number, at = program.chance.choice(done), program.now()
    for n in range(number, program.first + program.total):
        for key in ("phase_timing", "checkpoints", "phase_artifacts"):
            doc[key].pop(str(n), None)
    doc["completed_phases"] = [n for n in done if n < number]
    doc["current_phase"] = number
    doc["phase_timing"][str(number)] = {"started_at": at}
    doc["lifecycle"].update(completed=False, completed_at=None)
    return str(number)


def pause(program: Program, doc: Doc) -> str:
    life = doc["lifecycle"]
    if is_over(doc):
        return ""
    if life["paused"]:
        life.update(paused=False, resumed_at=program.now(), resume_count=life["resume_count"] + 1)
        return "off"
    life.update(paused=True, paused_at=program.now(), paused_reason="user_request")
    return "on"


def raise_error(program: Program, doc: Doc) -> str:
    life = doc["lifecycle"]
    if is_over(doc) or life["paused"]:
        return ""
    if life["last_error"]:
        life.update(last_error=None, last_error_at=None)
        return "cleared"
    text = f"error {next(program.numbers)}"
    at = program.now()
    life.update(last_error=text, last_error_at=at)
    life.update(paused=True, paused_at=at, paused_reason="system_error")
    return text


Turn = Callable[[Program, Doc], str]
_AGENTS: list[Turn] = [spawn, spawn, progress, finish, finish, fail, fail, retry, retry]
_COMMON: list[Turn] = [*_AGENTS, add_task, add_task, end_task, reopen_task, choose, set_status]
MOVES: dict[str, list[Turn]] = {
    "craft": [*_COMMON, begin, begin, set_progress],
    "orchestrator": _COMMON,
    "praxis": [
        pass_phase,
        pass_phase,
        fail_phase,
        retry_phase,
        roll_back,
        pause,
        pause,
        raise_error,
    ],
}


def walk(base: Path, format_id: str, seed: int, turns: int) -> None:
    base.mkdir(parents=True, exist_ok=True)
    program = Program(base, format_id, seed)
    try:
        for _ in range(turns):
            program.turn()
            if program.chance.random() < 0.6:
                program.record_note()
    finally:
        program.project.home.close()
