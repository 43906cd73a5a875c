"""Helpers that open a home, read its files without the store, and run another process."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forestay.base.clock import Clock
from forestay.base.redact import Redactor
from forestay.journal.journal import Journal
from forestay.store.machine.machine import Machine
from forestay.store.machine.projects import TreeRecord
from forestay.store.port import Batch, View
from forestay.store.sqlite.store import SqliteStore
from forestay.testing.store_contract import batch

PRELUDE = """
    import os, signal, sqlite3, sys, time
    from forestay.base.clock import Clock
    from forestay.store.sqlite.store import SqliteStore
    from forestay.testing.store_contract import batch, head, put, texts
    home = sys.argv[1]
    def opened(timeout=20.0):
        return SqliteStore(home, clock=Clock(), busy_timeout=timeout, machine="m")
    def report(word):
        print(word, flush=True)
"""

DESCRIBE = """
    import hashlib, json, os, sys
    found = {}
    for folder, _, names in os.walk(sys.argv[1]):
        for name in names:
            path = os.path.join(folder, name)
            facts = os.lstat(path)
            digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
            shown = os.path.relpath(path, sys.argv[1])
            found[shown] = [facts.st_mode & 0o777, facts.st_size, facts.st_mtime_ns, digest]
    print(json.dumps(found))
"""

Files = dict[str, list[object]]


def opened(home: Path, timeout: float = 20.0, machine: str = "m") -> SqliteStore:
    return SqliteStore(str(home), clock=Clock(), busy_timeout=timeout, machine=machine)


def start(code: str, *arguments: object, umask: int | None = None) -> subprocess.Popen[str]:
    """Start a Python process with `PRELUDE` and these arguments; it reads from a pipe."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code)]
        + [str(argument) for argument in arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        umask=-1 if umask is None else umask,
    )


def run(code: str, *arguments: object, umask: int | None = None) -> str:
    """Return what such a process prints; it must succeed."""
    process = start(code, *arguments, umask=umask)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.strip()


def read_word(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline().strip() == word


def resume_process(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out.strip(), err


def describe_files(home: Path) -> Files:
    """Return mode, size, time and digest of every file of a home.

    Another process reads them: closing a file of the database here would drop our locks.
    """
    script = [sys.executable, "-c", textwrap.dedent(DESCRIBE), str(home)]
    found: Files = json.loads(subprocess.run(script, capture_output=True, check=True).stdout)
    return found


def size(path: Path) -> int:
    return os.stat(path).st_size if path.exists() else 0


def is_locked(path: str) -> bool:
    if not os.path.exists(path):
        return False
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def journal_of(store: SqliteStore) -> Journal:
    return Journal(store, Clock(), Redactor())


def add_project(machine: Machine, id: str, name: str) -> int:
    return machine.projects.record_tree(TreeRecord(f"/of/{id}", "0:0", 0, id=id, name=name), None)


def raising(view: View) -> Batch:
    raise LookupError


def unstorable_batch() -> Batch:
    """Return a batch whose last row no table accepts."""
    bad = batch("x")
    bad.rows = [("step", "t", True, "no number", b"")]  # type: ignore[list-item]
    return bad


@contextmanager
def mounted(*arguments: str) -> Iterator[None]:
    """Mount something for the duration of a test; skip it if mounting is not allowed."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount")
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", arguments[-1]], check=True)
