"""Apply each kept mutant to a copy of the source, and run the tests under its heading.

    python -m tests.mutants.run [--seconds N] [--seed N] [--workers N] [--only TEXT]

Only tests marked with a number under the heading are run, and one of them must fail. At the end
those that failed are run without any mutant: a test that fails anyway has caught nothing. With a
time limit the mutants are tried in an order given by the seed, as many as time allows.
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
from tests.mutants.kept import (
    KEPT,
    LIST,
    ROOT,
    SOURCE,
    Mutant,
    apply,
    headings,
    load_mutants,
    problems,
)
from tests.mutants.witness import WitnessReport

TIMEOUT_SECONDS = 240.0
"""Seconds that the tests of one heading may take; a mutant that hangs has not been caught."""


@dataclass(frozen=True)
class Verdict:
    mutant: Mutant
    caught: str
    why: str
    seconds: float

    def __str__(self) -> str:
        output = f"caught by {self.caught}" if self.caught else f"NOT CAUGHT: {self.why}"
        return f"{self.mutant} ({self.seconds:.0f} s)\n    {output}"


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    mutants = load_mutants(KEPT.read_text(encoding="utf-8"))
    wanted = headings(LIST.read_text(encoding="utf-8"))
    if wrong := list(problems(mutants, wanted)):
        print(*wrong, sep="\n")
        return 1
    chosen = [mutant for mutant in mutants if options.only in str(mutant)]
    random.Random(options.seed).shuffle(chosen)
    began = time.monotonic()
    verdicts = _run_all(chosen, wanted, began + (options.seconds or 1e9), options.workers)
    return _print_summary(verdicts, len(chosen), options.seed, time.monotonic() - began)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.run", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=0.0, help="start no mutant after this time"
    )
    parser.add_argument("--seed", type=int, default=new_seed())
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only mutants whose name contains TEXT"
    )
    return parser.parse_args(words)


def _run_all(
    mutants: Sequence[Mutant], wanted: dict[str, frozenset[str]], deadline: float, workers: int
) -> list[Verdict]:
    marks = _collect_marks()

    def run_in_time(mutant: Mutant) -> Verdict | None:
        if time.monotonic() > deadline:
            return None
        verdict = run(mutant, _tests_under(marks, wanted[mutant.heading]))
        print(verdict, flush=True)
        return verdict

    with ThreadPoolExecutor(workers) as pool:
        verdicts = [verdict for verdict in pool.map(run_in_time, mutants) if verdict is not None]
    return _drop_failing_tests(verdicts)


def _print_summary(verdicts: Sequence[Verdict], planned: int, seed: int, seconds: float) -> int:
    missed = [verdict for verdict in verdicts if not verdict.caught]
    for verdict in missed:
        print(f"NOT CAUGHT {verdict.mutant}: {verdict.why}")
    print(
        f"{len(verdicts)} of {planned} kept mutants tried, {len(verdicts) - len(missed)} caught,"
        f" {seconds:.0f} s, seed {seed}"
    )
    return 1 if missed or not verdicts else 0


# -- running tests ---------------------------------------------------------------------------------


def _collect_marks() -> dict[str, list[str]]:
    """Return every marked test with its numbers."""
    with _scratch() as scratch:
        report, output = _pytest(
            scratch, SOURCE, ["--collect-only", "-m", "req and not soak", "tests"]
        )
    if report is None:
        raise SystemExit(f"the tests cannot be collected:\n{output}")
    return report.marks


def _tests_under(marks: dict[str, list[str]], numbers: frozenset[str]) -> list[str]:
    """Return the tests under a heading, first those that need neither processes nor faults."""
    slow = ("tests/crash/", "tests/e2e/", "tests/cli/")
    found = [test for test, covered in marks.items() if numbers & set(covered)]
    return sorted(found, key=lambda test: test.startswith(slow))


def run(mutant: Mutant, tests: Sequence[str]) -> Verdict:
    """Return whether one of the tests catches the mutant."""
    began = time.monotonic()
    with _scratch() as scratch:
        source = scratch / "src"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
        apply(mutant, source)
        report, output = _pytest(scratch, source, [*tests])
    caught = report.caught if report else ""
    why = "" if caught else _explain(report, output, len(tests))
    return Verdict(mutant, caught, why, time.monotonic() - began)


def _explain(report: WitnessReport | None, output: str, tests: int) -> str:
    if report is None:
        return output[-600:]
    if report.other:
        return f"only failures that do not count: {report.other[0]}"
    return f"{tests} tests under the heading pass"


def _drop_failing_tests(verdicts: list[Verdict]) -> list[Verdict]:
    """Withdraw the catches of a test that fails without any mutant."""
    tests = sorted({verdict.caught for verdict in verdicts if verdict.caught})
    if not tests:
        return verdicts
    with _scratch() as scratch:
        report, output = _pytest(scratch, SOURCE, tests)
    if report is None or report.other:
        raise SystemExit(
            f"the tests fail without any mutant:\n{report.other if report else output}"
        )
    why = "the test fails without it too"
    return [
        Verdict(each.mutant, "", why, each.seconds) if each.caught == report.caught else each
        for each in verdicts
    ]


def _pytest(scratch: Path, source: Path, words: Sequence[str]) -> tuple[WitnessReport | None, str]:
    """Run pytest; return the witness's report, if it completed, and the output."""
    report_file, arguments = scratch / "report.json", scratch / "arguments"
    arguments.write_text("\n".join(words))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "tests.mutants.witness"]
    command += ["-p", "no:cacheprovider", "--witness", str(report_file), f"@{arguments}"]
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
        output, _ = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output = f"{process.communicate()[0]}\nnot finished after {TIMEOUT_SECONDS:.0f} s"
    report = (
        msgspec.json.decode(report_file.read_bytes(), type=WitnessReport)
        if report_file.exists()
        else None
    )
    return report, output


def _environment(scratch: Path, source: Path) -> dict[str, str]:
    """Return a derandomized environment that leaves no traces: results are reproducible."""
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
