"""The harness fires every fault, passes correct writers, and detects every classic mistake."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.crash import disk
from tests.crash.forkserver import Fault, ForkServer, Kind
from tests.crash.scenario import judge
from tests.crash.sweep import ALL_FAULTS, SweepResult, steps, sweep

ERRORS_ONCE = {Fault.EIO_ONCE, Fault.ENOSPC_ONCE}

MISTAKES = {
    "REWRITING": set(ALL_FAULTS) - {Fault.SHORT_WRITE},
    "EARLY": set(ALL_FAULTS) - {Fault.SHORT_WRITE},
    "UNSYNCED": {Fault.NOTHING, Fault.KILL_BEFORE, Fault.KILL_AFTER},
    "ONCE_WRITTEN": {Fault.SHORT_WRITE},
    "SWALLOWING": ERRORS_ONCE | {Fault.EIO_STICKY, Fault.ENOSPC_STICKY},
    "RETRYING": ERRORS_ONCE,
    "RENAMING": {Fault.NOTHING, Fault.KILL_BEFORE, Fault.KILL_AFTER},
    "LEAVING_A_LOCK": {Fault.NOTHING, Fault.KILL_BEFORE, Fault.KILL_AFTER},
    "SQLITE_ALONE": ERRORS_ONCE,
}


def run_sweep(
    shim: Path,
    writer: str,
    faults: Collection[Fault] = ALL_FAULTS,
    limit: int | None = None,
    seed: int = 0,
) -> SweepResult:
    name = f"tests.crash.writers:{writer}"
    result = sweep(shim, name, faults=sorted(faults), limit=limit, seed=seed)
    print(result)
    return result


def assert_correct(result: SweepResult) -> None:
    assert result.unfired == []
    assert result.violations == []
    assert {point.fault for point in result.points} == {Fault.NOTHING, *ALL_FAULTS}


def test_a_correct_writer_passes_at_every_point_and_every_fault_fires(shim: Path) -> None:
    assert_correct(run_sweep(shim, "GOOD"))


def test_a_correct_writer_on_sqlite_passes_and_its_calls_are_counted(shim: Path) -> None:
    result = run_sweep(shim, "SQLITE")
    assert_correct(result)
    runs = [point.run for point in result.points]
    assert {
        ("pwrite", "base.db"),
        ("pwrite", "base.db-wal"),
        ("fdatasync", "base.db"),
        ("fdatasync", "base.db-wal"),
        ("fcntl", "base.db-shm"),
        ("unlink", "base.db-wal"),
    } <= {(run.call.removesuffix("64"), Path(run.path).name) for run in runs}


@pytest.mark.parametrize("writer", MISTAKES)
def test_a_known_mistake_is_detected_under_each_fault_that_causes_it(
    shim: Path, writer: str
) -> None:
    result = run_sweep(shim, writer, MISTAKES[writer] - {Fault.NOTHING})
    assert result.unfired == []
    assert {point.fault for point in result.violations} == MISTAKES[writer]


def test_a_sweep_is_chosen_by_its_seed(shim: Path) -> None:
    first, again, other = (run_sweep(shim, "GOOD", limit=10, seed=seed) for seed in (1, 1, 2))
    chosen = [[(point.fault, point.at) for point in run.points] for run in (first, again, other)]
    assert chosen[0] == chosen[1] != chosen[2]


def test_a_step_is_each_state_of_the_disk_and_each_torn_write(shim: Path) -> None:
    result = steps(shim, "tests.crash.writers:GOOD")
    whole = run_sweep(shim, "GOOD", [Fault.KILL_BEFORE, Fault.KILL_AFTER])
    assert result.unfired == [] and result.violations == []
    assert len(result.points) == result.planned < len(whole.points)
    torn = sum(point.fault is Fault.TORN_WRITE for point in result.points)
    writes = [kind for kind in whole.points[0].run.kinds if kind & Kind.WRITES]
    assert torn == len(writes) > 0


@pytest.mark.parametrize("writer", ["REWRITING", "EARLY", "UNSYNCED", "RENAMING", "LEAVING_A_LOCK"])
def test_a_known_mistake_is_detected_by_kills_at_steps_alone(shim: Path, writer: str) -> None:
    result = steps(shim, f"tests.crash.writers:{writer}")
    seen = {point.fault for point in result.violations}
    assert result.unfired == [] and seen & {Fault.KILL_BEFORE, Fault.KILL_AFTER}


def test_a_fault_that_never_fires_is_reported(shim: Path, tmp_path: Path) -> None:
    server = ForkServer(shim, tmp_path / "room")
    try:
        server.prepare("tests.crash.writers:GOOD")
        quiet = server.point("tests.crash.writers:GOOD", Fault.NOTHING, 0)
        beyond = quiet.run.calls + 1
        late = server.point("tests.crash.writers:GOOD", Fault.KILL_BEFORE, beyond)
    finally:
        server.close()
    assert quiet.run.acked == ["during-1", "during-2"]
    assert Kind.SYNCS & quiet.run.kinds[3]
    assert not late.fired and late.run.end == "returned"


JUDGED = {
    "all acknowledged": ("abc", "abc", "abc", ""),
    "one in flight": ("abc", "ab", "a", ""),
    "lost": ("abc", "a", "ab", "acknowledged but lost: b"),
    "doubled": ("abc", "abb", "ab", "doubled: b"),
    "out of order": ("abc", "ba", "ab", "not a prefix"),
    "two in flight": ("abc", "abc", "a", "only 1 acknowledged"),
    "a move in flight": (["a", "bc"], "abc", "a", ""),
    "half a move": (["a", "bc"], "ab", "a", "half a move"),
    "never intended": ("abc", "abx", "ab", "not a prefix"),
}


@pytest.mark.parametrize("intended, found, acked, problem", JUDGED.values(), ids=list(JUDGED))
def test_judge_names_each_problem(
    intended: Sequence[str], found: str, acked: str, problem: str
) -> None:
    problems = judge(intended, found, acked)
    assert problem in " ".join(problems) and bool(problem) == bool(problems)


def test_a_power_cut_preserves_only_synced_content(tmp_path: Path) -> None:
    original, copy, stable = tmp_path / "original", tmp_path / "copy", tmp_path / "stable"
    for folder in (original, copy):
        folder.mkdir()
        (folder / "old").write_text("old")
    before = disk.baseline(str(copy), str(original))
    stable.mkdir()
    (copy / "old").write_text("rewritten, never synced")
    (copy / "named").write_text("its name was synced, its content was not")
    _store_names(copy, stable)
    (copy / "nameless").write_text("made after the names were synced")
    disk.after_power_cut(before, str(stable), str(tmp_path / "cut"))
    left = {path.name: path.read_text() for path in (tmp_path / "cut").iterdir()}
    assert left == {"old": "old", "named": ""}


def test_lay_out_preserves_the_inode_of_an_existing_file(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for folder in (source, target):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "file").write_text(folder.name)
    (target / "extra").write_text("to be removed")
    inode = (target / "sub" / "file").stat().st_ino
    disk.lay_out(str(source), str(target))
    assert (target / "sub" / "file").read_text() == "source"
    assert (target / "sub" / "file").stat().st_ino == inode
    assert os.listdir(target) == ["sub"]


def _store_names(folder: Path, stable: Path) -> None:
    with os.scandir(folder) as entries:
        names = [f"f {entry.inode()} {entry.name}\n" for entry in entries]
    (stable / str(folder.stat().st_ino)).write_text("".join(names))
