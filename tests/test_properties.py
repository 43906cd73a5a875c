"""The property tests of the suite hold for more examples than a normal run tries."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
WITH_PROPERTIES = sorted(
    path
    for path in TESTS.rglob("test_*.py")
    if "from hypothesis import" in path.read_text(encoding="utf-8")
)
_FAILED = 1


def test_property_tests_are_found() -> None:
    assert {"test_tree.py", "test_text.py", "test_fold.py"} <= {p.name for p in WITH_PROPERTIES}


@pytest.mark.soak
def test_every_property_holds_for_more_examples(
    soak_seconds: float, report_figure: Callable[[str], None]
) -> None:
    """Run one file after another, in random order, until the time is up."""
    ends, done = time.monotonic() + soak_seconds, 0
    for path in random.sample(WITH_PROPERTIES, len(WITH_PROPERTIES)):
        left = ends - time.monotonic()
        if left <= 1:
            break
        code, output = _run(path, left)
        assert code != _FAILED, output[-4000:]
        done += 1
    report_figure(f"property tests: {done} of {len(WITH_PROPERTIES)} files with more examples")


def _run(path: Path, seconds: float) -> tuple[int, str]:
    options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-profile=more"]
    command = [sys.executable, "-m", "pytest", *options, str(path)]
    try:
        ran = subprocess.run(
            command, cwd=TESTS.parent, capture_output=True, text=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return 0, ""  # no failure until now
    return ran.returncode, ran.stdout + ran.stderr
