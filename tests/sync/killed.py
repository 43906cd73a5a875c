"""Syncs that are killed at a call to the remote, each in a fork of a process that loaded all once.

Run as a program, it serves requests over its standard streams. It never connects to a remote
itself: the client library starts threads, and a process with threads cannot be forked safely.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from forestay.sync import pack_builder, run
from forestay.sync.remotes.open import open_remote
from forestay.sync.remotes.port import Object, Remote
from forestay.sync.run import SyncOptions
from tests.faulty_remotes import Wrapper
from tests.sync.travelling import known, opened

BEFORE, AFTER = "before", "after"
_ROOT = Path(__file__).parents[2]
DONE, KILLED = "done", "killed"


class Step(NamedTuple):
    """A sync of a home that dies at a call to the remote, counted from 1."""

    home: str
    address: str
    at: int
    how: str


class Killing(Wrapper):
    """Kills this process before or after the call number `at`."""

    def __init__(self, inner: Remote, at: int, how: str) -> None:
        super().__init__(inner)
        self._left, self._how = at, how

    def list(self, prefix: str) -> Iterator[Object]:
        self._now(BEFORE)
        found = [*self.inner.list(prefix)]
        self._now(AFTER)
        yield from found

    def get(self, name: str) -> bytes:
        self._now(BEFORE)
        data = self.inner.get(name)
        self._now(AFTER)
        return data

    def put(self, name: str, data: bytes) -> bool:
        self._now(BEFORE)
        done = self.inner.put(name, data)
        self._now(AFTER)
        return done

    def _now(self, when: str) -> None:
        self._left -= when == self._how
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Killer:
    """The client that tests use."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sync.killed"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
            env={**os.environ, "NO_PROXY": "127.0.0.1"},
        )

    def sync(self, step: Step) -> str:
        """Return how it ended: `done`, `killed`, or the error."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None
        requests.write(json.dumps(step) + "\n")
        requests.flush()
        return answers.readline().strip()

    def close(self) -> None:
        self._process.communicate()


def serve() -> None:
    for line in sys.stdin:
        step = Step(*json.loads(line))
        pid = os.fork()
        if not pid:
            _work_and_exit(step)
        _, status = os.waitpid(pid, 0)
        ended = KILLED if os.WIFSIGNALED(status) else DONE
        sys.stdout.write(f"{f'exit {status}' if os.WIFEXITED(status) and status else ended}\n")
        sys.stdout.flush()


def _work_and_exit(step: Step) -> None:
    signal.alarm(60)
    try:
        vars(pack_builder)["MOST_EVENTS"] = 2
        home = opened(step.home)
        remote = Killing(open_remote(step.address), step.at, step.how)
        report = run.visit(home.context, known(home), SyncOptions(), remote=remote)
        if report.problems:
            raise RuntimeError(str(report.problems[0].error))
        os._exit(0)
    except BaseException as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        os._exit(1)


if __name__ == "__main__":
    serve()
