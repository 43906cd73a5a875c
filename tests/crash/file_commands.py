"""Scenarios of commands on files of other programs under faults (`test_file_commands_crash`).

A session of another program in each format is recovered, acknowledged, converted, continued and
ended. The check gives the same command again: then the result equals that of one complete command,
no byte written by the user or another program is lost, and no temporary file is left.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import forestay
from forestay.errors import ForestayError, InvalidInput
from forestay.health import format_checks
from forestay.mirror.session_files import mirror_of
from tests.crash.foreign_files import _REFUSALS, _leave_unchanged, _prepare
from tests.crash.mirror import _find_leftovers, _open
from tests.crash.scenario import Ack, Scenario
from tests.format_helpers import CRAFT, MAIN, ORCHESTRATOR

LEFT = {"ai-session": 0}
HALF = 200
"""How many bytes are left of a file that was torn."""


def _folder(home: str) -> Path:
    return Path(home).parent


# -- recovering, format by format --------------------------------------------------------------

CHOICES = {"orchestrator": "manual"}


def _tear(kind: str, folder: Path) -> None:
    path = folder / MAIN[kind]
    data = path.read_bytes()
    if kind == "essay":
        path.with_name(f"{path.name}.bak").write_bytes(data)
    path.write_bytes(data[: LEFT.get(kind, HALF)])


def _recover(kind: str, home: str, ack: Ack) -> None:
    with _open(home) as opened:
        _fix(opened, kind, _folder(home) / MAIN[kind])
    ack(kind)


def _fix(opened: forestay.Forestay, kind: str, path: Path) -> None:
    opened.files.recover(str(path), fix=True, choose=CHOICES.get(kind, ""))


def _check_recovered(kind: str, home: str, acked: Sequence[str]) -> list[str]:
    path = _folder(home) / MAIN[kind]
    with _open(home) as opened:
        if acked and opened.files.recover(str(path)) is not None:
            return ["it was not recovered"]
        if not path.is_file():
            return ["the file is gone"]
        if opened.files.recover(str(path)) is not None:
            _fix(opened, kind, path)
        left = opened.files.recover(str(path))
    shown = [p for p in path.parent.iterdir() if not p.name.startswith(".") and p.is_file()]
    is_visible = any(len(p.read_bytes()) == LEFT.get(kind, HALF) for p in shown)
    problems = [] if is_visible else ["the old content is not in a visible file"]
    problems += [f"still damaged: {left.what}"] if left else []
    return [*problems, *_find_leftovers(_folder(home))]


RECOVERED = {
    kind: Scenario(
        partial(_prepare, change=partial(_tear, kind)),
        partial(_recover, kind),
        partial(_check_recovered, kind),
        _REFUSALS,
    )
    for kind in MAIN
}
AI_SESSION, PRAXIS_FILE, CRAFT_FILE, ESSAY_FILE, ORCHESTRATOR_FILE = (
    RECOVERED[kind] for kind in ("ai-session", "praxis", "craft", "essay", "orchestrator")
)


# -- the contract ------------------------------------------------------------------------------

OTHERS = "# Ours\n\n"


def _prepare_acknowledged(home: str) -> None:
    with _open(home) as opened:
        opened.start("Something")
        opened.files.contract.ack("first")


def _acknowledge(home: str, ack: Ack) -> None:
    with _open(home) as opened:
        opened.files.contract.ack("second")
    ack("second")


def _check_acknowledged(home: str, acked: Sequence[str]) -> list[str]:
    with _open(home) as opened:
        known = opened.files.contract.verify()
        problems = [] if "first" in known else [f"the first is gone: {list(known)}"]
        problems += [f"acknowledged, but lost: {a}" for a in acked if a not in known]
        opened.files.contract.ack("second")
        verdicts = opened.files.contract.verify()
    problems += [f"{name} does not hold" for name, v in verdicts.items() if not v.ok]
    problems += [] if set(verdicts) == {"first", "second"} else [f"{list(verdicts)}"]
    return [*problems, *_find_leftovers(_folder(home))]


ACKNOWLEDGED = Scenario(
    _prepare_acknowledged, _acknowledge, _check_acknowledged, (*_REFUSALS, InvalidInput)
)


# -- converting --------------------------------------------------------------------------------


def _convert(to: str, home: str, ack: Ack) -> None:
    with _open(home) as opened:
        opened.files.convert(str(_folder(home) / CRAFT), to, str(_folder(home) / "out" / "new"))
    ack(to)


def _check_converted(to: str, home: str, acked: Sequence[str]) -> list[str]:
    """Require that every file with its final name is complete and equals the conversion."""
    made = sorted(p for p in (_folder(home) / "out").rglob("*") if _is_shown(p))
    with _open(home) as opened:
        wanted = opened.files.convert(
            str(_folder(home) / CRAFT), to, str(_folder(home) / "w" / "new")
        ).written
        expected = {
            str(Path(p).relative_to(_folder(home) / "w")): Path(p).read_bytes() for p in wanted
        }
        found = {str(p.relative_to(_folder(home) / "out")): p.read_bytes() for p in made}
    problems = [f"{n} is not whole" for n, data in found.items() if len(data) != len(expected[n])]
    return problems + (
        ["acknowledged, but not there"] if acked and found.keys() != expected.keys() else []
    )


def _is_shown(path: Path) -> bool:
    return path.is_file() and not path.name.endswith("-tmp")


_CONVERT = {
    to: Scenario(
        partial(_prepare, change=_leave_unchanged),
        partial(_convert, to),
        partial(_check_converted, to),
        (*_REFUSALS, InvalidInput),
    )
    for to in ("ai-session", "essay", "orchestrator")
}
TO_AI_SESSION, TO_ESSAY, TO_ORCHESTRATOR = _CONVERT.values()


# -- orchestrator commands ---------------------------------------------------------------------


def _run_command(act: Callable[[forestay.Forestay], object], home: str, ack: Ack) -> None:
    with _open(home) as opened:
        act(opened)
    ack("done")


def _check_command(
    act: Callable[[forestay.Forestay], object], is_current: bool, home: str, acked: Sequence[str]
) -> list[str]:
    folder = _folder(home)
    with _open(home) as opened:
        if not acked:
            try:
                act(opened)
            except ForestayError as error:
                if is_current:
                    return [f"failed when repeated: {error}"]
        format_checks.fix(opened.context)
        for row in opened.list():
            opened.session(str(row.session)).note("the next command")
        left = [
            binding.suspended
            for binding in mirror_of(opened.context).inspect_bindings()
            if binding.suspended
        ]
    history = folder / ".claude" / "orchestrator-history"
    archived = [path.read_text() for path in history.glob("*.json")]
    current = folder / ORCHESTRATOR
    sessions = archived + ([current.read_text()] if current.exists() else [])
    whole = sum("2026-02-14-abc123" in text for text in sessions)
    problems = [] if whole == 1 else [f"the previous session exists {whole} times"]
    problems += [f"still left: {why}" for why in left]
    problems += [] if current.exists() == is_current else [f"current: {current.exists()}"]
    return [*problems, *_find_leftovers(folder)]


def _orchestrator_scenario(
    act: Callable[[forestay.Forestay], object], is_current: bool
) -> Scenario:
    return Scenario(
        partial(_prepare, change=_only_orchestrator),
        partial(_run_command, act),
        partial(_check_command, act, is_current),
        (*_REFUSALS, InvalidInput, forestay.errors.NoSession),
    )


def _only_orchestrator(folder: Path) -> None:
    assert (folder / ORCHESTRATOR).is_file()


NEW = _orchestrator_scenario(lambda opened: opened.files.orchestrator.new("Another"), True)
CONTINUED = _orchestrator_scenario(lambda opened: opened.files.orchestrator.current(), True)
ABORTED = _orchestrator_scenario(lambda opened: opened.files.orchestrator.abort(), False)


# -- bindings ----------------------------------------------------------------------------------


def _prepare_bound(home: str) -> None:
    with _open(home) as opened:
        session = opened.start("Add login", id="s1")
        session.files.bind("craft")
        session.note("one")


def _unbind_and_bind(home: str, ack: Ack) -> None:
    with _open(home) as opened:
        session = opened.session("s1")
        session.files.unbind("craft")
        ack("removed")
        session.files.bind("craft")
        ack("added")


def _check_unbound(home: str, acked: Sequence[str]) -> list[str]:
    root = _folder(home) / ".craft"
    with _open(home) as opened:
        session = opened.session("s1")
        places = [binding.place for binding in session.files.list()]
        if "added" in acked and len(places) != 1:
            return [f"added, but bound to {places}"]
        if not places:
            session.files.bind("craft")
        session.complete()
    made = list(root.rglob("*.json"))
    problems = [] if len(made) == 1 else [f"files: {made}"]
    problems += (
        [] if all('"completed"' in p.read_text() for p in made) else ["the file is out of date"]
    )
    return [*problems, *_find_leftovers(_folder(home))]


UNBOUND = Scenario(_prepare_bound, _unbind_and_bind, _check_unbound, (*_REFUSALS, InvalidInput))
