"""Scenarios of files of other programs: adopted, recovered, archived (`test_foreign_files_crash`).

The check gives the same command again: then the result equals that of one complete command, and no
byte written by the user or another program is lost.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import forestay
from forestay.errors import Busy, ReadOnly, Refused, StoreFailed
from forestay.mirror.ai_session_cleanup import Wanted
from tests.crash.mirror import _find_leftovers, _open
from tests.crash.scenario import Ack, Scenario
from tests.format_helpers import CRAFT, INDEX, MAIN, PRAXIS, STATE, fill, snapshot

EVENTS = {"ai-session": 8, "praxis": 4, "craft": 15, "essay": 7, "orchestrator": 9}
TORN = {STATE: 0, PRAXIS: -30, CRAFT: -30}
"""How much is left of each file (a slice end)."""


def _prepare(home: str, change: Callable[[Path], None]) -> None:
    with _open(home) as opened:
        opened.start("Something else")
    folder = Path(home).parent
    fill(folder)
    change(folder)


# -- adopting ----------------------------------------------------------------------------------


def _adopt(home: str, ack: Ack) -> None:
    with _open(home) as opened:
        opened.files.adopt(
            str(Path(home).parent), on_adopted=lambda one: ack(one.session) if one.session else None
        )


def _check_adopted(home: str, acked: Sequence[str]) -> list[str]:
    folder = Path(home).parent
    before = _files(folder)
    with _open(home) as opened:
        found = {one.format: one for one in opened.files.adopt(str(folder))}
        problems = [f"{id} is unknown" for id in acked if not _is_known(found.values(), id)]
        for kind, events in EVENTS.items():
            one = found[kind]
            made = len(list(opened.session(one.session).log()))
            if (made, one.bound) != (events, True):
                problems.append(f"{kind}: {made} events, {one}")
        listed = {row.session for row in opened.list()}
        problems += [f"{o.format} is not listed" for o in found.values() if o.session not in listed]
    after = _files(folder)
    touched = {name for name in before | after if before.get(name) != after.get(name)}
    return [*problems, *(f"{name} was touched" for name in touched), *_find_leftovers(folder)]


def _files(folder: Path) -> dict[str, bytes]:
    """Return all files except the home, and the lock that a reader of an ai-session makes."""
    found = snapshot(folder).items()
    return {n: data for n, data in found if "/home" not in n and not n.endswith(".state.lock")}


def _is_known(found: object, id: str) -> bool:
    return any(one.session == id and one.outcome == "known" for one in found)  # type: ignore[attr-defined]


# -- recovering --------------------------------------------------------------------------------


def _tear(folder: Path) -> None:
    for name, left in TORN.items():
        path = folder / name
        path.write_bytes(path.read_bytes()[:left])


def _recover(home: str, ack: Ack) -> None:
    with _open(home) as opened:
        for name in TORN:
            opened.files.recover(str(Path(home).parent / name), fix=True)
            ack(name)


def _check_recovered(home: str, acked: Sequence[str]) -> list[str]:
    folder = Path(home).parent
    whole = Path(f"{folder}-whole")
    fill(whole)
    problems = []
    with _open(home) as opened:
        for name, left in TORN.items():
            path, torn = folder / name, (whole / name).read_bytes()[:left]
            if not path.is_file():
                problems.append(f"{name} is gone")
                continue
            case = opened.files.recover(str(path))
            if case is not None and name in acked:
                problems.append(f"{name} was not recovered: {case.what}")
            if case is not None:
                opened.files.recover(str(path), fix=True)
            if not any(each.read_bytes() == torn for each in path.parent.iterdir()):
                problems.append(f"the content of {name} is gone")
    return problems


# -- archiving ---------------------------------------------------------------------------------


def _complete(folder: Path) -> None:
    index = folder / INDEX
    index.write_text(index.read_text().replace('"active"', '"completed"'))


def _clean(home: str, ack: Ack) -> None:
    with _open(home) as opened:
        _archive_completed(opened, home)
    ack("archived")


def _archive_completed(opened: forestay.Forestay, home: str) -> None:
    root = Path(home).parent / ".ai-session"
    (one,) = opened.files.cleanup(str(root), Wanted(completed=True)) or (None,)
    if one is not None and one.kept:
        raise StoreFailed(one.kept)


def _check_cleaned(home: str, acked: Sequence[str]) -> list[str]:
    folder = Path(home).parent
    with _open(home) as opened:
        _archive_completed(opened, home)
    name = Path(STATE).parent.name
    problems = ["the folder still exists"] if (folder / ".ai-session" / name).is_dir() else []
    files = [path.name for path in (folder / ".ai-session-archive" / name).iterdir()]
    wanted = {"history.jsonl", "implementation-plan.yaml", "state.yaml"}
    problems += [] if wanted <= set(files) else [f"the archive has {files}"]
    return [*problems, *_find_leftovers(folder)]


_REFUSALS = (StoreFailed, Busy, ReadOnly, Refused)


def _leave_unchanged(folder: Path) -> None:
    assert (folder / MAIN["essay"]).is_file()


ADOPTED = Scenario(partial(_prepare, change=_leave_unchanged), _adopt, _check_adopted, _REFUSALS)
RECOVERED = Scenario(partial(_prepare, change=_tear), _recover, _check_recovered, _REFUSALS)
CLEANED = Scenario(partial(_prepare, change=_complete), _clean, _check_cleaned, _REFUSALS)
