"""Puts each kept mutant into a copy of the source, and lets the tests under its heading see it.

    python -m tests.mutants.run [--seconds N] [--seed N] [--workers N] [--only TEXT]

Only tests with a mark under the heading are run, and one of them must fail of its own. At the end
those that did are run without any mutant: a test that fails anyway has caught nothing. With a time
limit the mutants are taken in an order given by the seed, as many as there is time for.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tests.chance import new_seed
from tests.mutants.kept import KEPT, LIST, ROOT, SOURCE, Mutant, apply, headings, kept, problems
from tests.mutants.witness import Seen

LONGEST = 240.0
"""Seconds that the tests of one heading may take; a mutant that hangs has not been caught."""


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    caught: str
    why: str
    seconds: float

    def __str__(self) -> str:
        said = f"caught by {self.caught}" if self.caught else f"NOT CAUGHT: {self.why}"
        return f"{self.mutant} ({self.seconds:.0f} s)\n    {said}"


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    mutants = kept(KEPT.read_text(encoding="utf-8"))
    wanted = headings(LIST.read_text(encoding="utf-8"))
    if wrong := list(problems(mutants, wanted)):
        print(*wrong, sep="\n")
        return 1
    chosen = [mutant for mutant in mutants if options.only in str(mutant)]
    random.Random(options.seed).shuffle(chosen)
    began = time.monotonic()
    verdicts = _run_all(chosen, wanted, began + (options.seconds or 1e9), options.workers)
    return _tell(verdicts, len(chosen), options.seed, time.monotonic() - began)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.0, help="begin none after this time")
    parser.add_argument("--seed", type=int, default=new_seed())
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", metavar="TEXT", help="those whose name has this")
    return parser.parse_args(words)


def _run_all(
    mutants: Sequence[Mutant], wanted: dict[str, frozenset[str]], deadline: float, workers: int
) -> list[Verdict]:
    marks = _marks()

    def in_time(mutant: Mutant) -> Verdict | None:
        if time.monotonic() > deadline:
            return None
        verdict = run(mutant, _tests(marks, wanted[mutant.heading]))
        print(verdict, flush=True)
        return verdict

    with ThreadPoolExecutor(workers) as pool:
        verdicts = [verdict for verdict in pool.map(in_time, mutants) if verdict is not None]
    return _without_failing(verdicts)


def _tell(verdicts: Sequence[Verdict], planned: int, seed: int, seconds: float) -> int:
    missed = [verdict for verdict in verdicts if not verdict.caught]
    for verdict in missed:
        print(f"NOT CAUGHT {verdict.mutant}: {verdict.why}")
    print(
        f"{len(verdicts)} of {planned} kept mutants tried, {len(verdicts) - len(missed)} caught,"
        f" {seconds:.0f} s, seed {seed}"
    )
    return 1 if missed or not verdicts else 0


# -- running tests ---------------------------------------------------------------------------------


def _marks() -> dict[str, list[str]]:
    """Every marked test and its numbers."""
    with _scratch() as scratch:
        seen, said = _pytest(scratch, SOURCE, ["--collect-only", "-m", "req and not soak", "tests"])
    if seen is None:
        raise SystemExit(f"the tests cannot be collected:\n{said}")
    return seen.marks


def _tests(marks: dict[str, list[str]], numbers: frozenset[str]) -> list[str]:
    """The tests under a heading, those first that need neither processes nor faults."""
    slow = ("tests/crash/", "tests/e2e/", "tests/cli/")
    found = [test for test, having in marks.items() if numbers & set(having)]
    return sorted(found, key=lambda test: test.startswith(slow))


def run(mutant: Mutant, tests: Sequence[str]) -> Verdict:
    """Whether one of the tests sees the mutant."""
    began = time.monotonic()
    with _scratch() as scratch:
        source = scratch / "src"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
        apply(mutant, source)
        seen, said = _pytest(scratch, source, [*tests])
    caught = seen.caught if seen else ""
    why = "" if caught else _why(seen, said, len(tests))
    return Verdict(mutant, caught, why, time.monotonic() - began)


def _why(seen: Seen | None, said: str, tests: int) -> str:
    if seen is None:
        return said[-600:]
    if seen.other:
        return f"only failures that say nothing: {seen.other[0]}"
    return f"{tests} tests under the heading pass"


def _without_failing(verdicts: list[Verdict]) -> list[Verdict]:
    """A test that fails without any mutant has caught none."""
    tests = sorted({verdict.caught for verdict in verdicts if verdict.caught})
    if not tests:
        return verdicts
    with _scratch() as scratch:
        seen, said = _pytest(scratch, SOURCE, tests)
    if seen is None or seen.other:
        raise SystemExit(f"the tests fail without any mutant:\n{seen.other if seen else said}")
    why = "the test fails without it too"
    return [
        Verdict(each.mutant, "", why, each.seconds) if each.caught == seen.caught else each
        for each in verdicts
    ]


def _pytest(scratch: Path, source: Path, words: Sequence[str]) -> tuple[Seen | None, str]:
    """What the witness saw, if it came to an end, and what was printed."""
    report, arguments = scratch / "seen.json", scratch / "arguments"
    arguments.write_text("\n".join(words))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.mutants.witness"]
    command += ["-p", "no:cacheprovider", "--witness", str(report), f"@{arguments}"]
    process = subprocess.Popen(
        [*command, f"--basetemp={scratch / 'tmp'}"],
        cwd=ROOT,
        env=_environment(scratch, source),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        said = f"{process.communicate()[0]}\nno end after {LONGEST:.0f} s"
    seen = msgspec.json.decode(report.read_bytes(), type=Seen) if report.exists() else None
    return seen, said


def _environment(scratch: Path, source: Path) -> dict[str, str]:
    """Derandomized, so that a mutant is caught always or never, and without leaving a trace."""
    return {
        **os.environ,
        "PYTHONPATH": str(source),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
        "CI": "1",
    }


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="forestay-mutant."))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
