"""Run many processes that write to one journal while some of them are killed or stopped.

The **herd** is a number of writers; each is a process that records the events 1, 2, 3 … of its
name and prints each number once it is acknowledged. After a random number of acknowledgements a
writer is hit: killed, and then started again with the first event that it has not acknowledged, or
stopped for a while at an arbitrary moment, perhaps while it holds a lock.
"""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.forkserver import ROOT

LONGEST_STOP_SECONDS = 0.3


@dataclass
class Writer:
    """Hold one name in the herd, over all the processes that run under it."""

    command: Sequence[str]
    name: str
    count: int
    calm: int  # acknowledgements between two hits, on average
    chance: random.Random
    acked: int = 0
    hits: Counter[str] = field(default_factory=Counter)

    def run_all(self) -> None:
        """Start one process after another until every event is acknowledged."""
        while self.acked < self.count:
            self._run_once()

    def _run_once(self) -> None:
        arguments = [self.name, str(self.acked + 1), str(self.count)]
        with subprocess.Popen(
            [sys.executable, *self.command, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as process:
            self._follow(process)
        ended_well = process.returncode == 0 and self.acked == self.count
        if not ended_well and process.returncode != -signal.SIGKILL:
            raise AssertionError(f"{self.name} ended with {process.returncode} at {self.acked}")

    def _follow(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        until_hit = self._draw()
        for line in process.stdout:
            assert int(line) == self.acked + 1
            self.acked += 1
            until_hit -= 1
            if until_hit == 0 and self._survives_a_hit(process):
                until_hit = self._draw()

    def _draw(self) -> int:
        return self.chance.randint(1, 2 * self.calm - 1)

    def _survives_a_hit(self, process: "subprocess.Popen[str]") -> bool:
        # A moment later it may be anywhere: waiting, committing, between commit and answer.
        time.sleep(self.chance.uniform(0, 0.01))
        if self.chance.random() < 0.5:
            process.kill()
            self.hits["killed"] += 1
            return False
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.chance.uniform(0, LONGEST_STOP_SECONDS))
        process.send_signal(signal.SIGCONT)
        self.hits["stopped"] += 1
        return True


@dataclass(frozen=True)
class HerdResult:
    """Hold the result of a herd."""

    names: list[str]
    count: int
    hits: Counter[str]
    seconds: float
    seed: int

    def __str__(self) -> str:
        hits = ", ".join(f"{number} {hit}" for hit, number in sorted(self.hits.items()))
        size = f"{len(self.names)} writers × {self.count} events"
        return f"{size}, {hits}, {self.seconds:.1f} s, seed {self.seed}"

    def problems(self, found: Sequence[str]) -> list[str]:
        """Compare the journal with `NAME 1`, `NAME 2` … of each writer, in that order."""
        problems = []
        for name in self.names:
            numbers = [int(text.split()[1]) for text in found if text.split()[0] == name]
            problems += [f"{name}: {problem}" for problem in wrong_numbers(numbers, self.count)]
        strangers = {text.split()[0] for text in found} - set(self.names)
        return problems + [f"no writer has the name {stranger}" for stranger in sorted(strangers)]


def wrong_numbers(numbers: Sequence[int], count: int) -> list[str]:
    """Return how `numbers` differ from 1, 2 … `count`."""
    times = Counter(numbers)
    lost = [number for number in range(1, count + 1) if not times[number]]
    doubled = [number for number, seen in sorted(times.items()) if seen > 1]
    problems = [f"lost {lost}"] if lost else []
    problems += [f"doubled {doubled}"] if doubled else []
    problems += ["out of order"] if list(numbers) != sorted(numbers) else []
    return problems


def run_herd(
    command: Sequence[str], *, writers: int, count: int, calm: int, seed: int
) -> HerdResult:
    """Run the herd until every writer has every event acknowledged."""
    began = time.monotonic()
    herd = [
        Writer(command, f"w{number}", count, calm, random.Random(f"{seed}-{number}"))
        for number in range(writers)
    ]
    with ThreadPoolExecutor(writers) as pool:
        for _ in pool.map(Writer.run_all, herd):
            pass
    hits = sum((writer.hits for writer in herd), Counter())
    return HerdResult([writer.name for writer in herd], count, hits, time.monotonic() - began, seed)


def writer_module(name: str, home: Path) -> list[str]:
    """Return the command of the writer with this name in `herd_writers`."""
    return ["-m", "tests.crash.herd_writers", name, str(home)]
