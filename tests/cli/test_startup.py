"""Every call pays for start-up: these tests count the modules that a command loads.

The figures themselves are measured by `make bench`; this fails when something heavy creeps in.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import forestay
from tests.cli.support import Cli

HEAVY = set(
    """
    _ctypes ast asyncio concurrent concurrent.futures contextlib csv ctypes dataclasses decimal
    difflib dis email getpass heapq hmac html http importlib.metadata importlib.resources inspect
    locale logging msgspec multiprocessing optparse pathlib pickle platform queue random secrets
    select selectors shlex shtab shutil signal socket socketserver ssl string subprocess tempfile
    textwrap threading tokenize tomllib traceback typing unittest urllib urllib.parse uuid weakref
    """.split()
)
MOST_FOR_STATUS = 90
MOST_FOR_NOTE = 126 + (sys.version_info >= (3, 14))
MOST_FOR_BRIEF = 140


def loaded(*argv: str) -> set[str]:
    """Return the modules that a process of `forestay` loads beyond those of Python itself."""
    run = "from forestay.cli.main import entry; entry()"
    return _imports(run, *argv) - _imports("pass")


def _imports(script: str, *argv: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", script, *argv],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture
def session(cli: Cli, tmp_path: Path) -> Cli:
    cli.start()
    # The first event of an hour also writes a backup, which may load more.
    _from_elsewhere(cli, tmp_path)
    return cli


def _from_elsewhere(cli: Cli, path: Path) -> None:
    """Start a session without a project, like those received from other devices."""
    with forestay.open(str(path / "other"), cwd=str(path), trust_env=False) as stay:
        stay.start("begun elsewhere", id="elsewhere")
        saved = stay.backups.create(str(path / "usb")).path
    cli.ok("backup", "restore", saved)


@pytest.mark.parametrize("argv", [["status"], ["list"], [], ["list", "--all"]])
def test_read_only_commands_load_nothing_heavy(session: Cli, argv: list[str]) -> None:
    found = loaded(*argv)
    assert not found & HEAVY
    assert not {name for name in found if name.startswith("forestay.model")}
    assert len(found) <= MOST_FOR_STATUS, sorted(found)


# Modules that msgspec needs; from Python 3.14 on it reads annotations with annotationlib.
NEEDED = {"contextlib", "msgspec", "typing"} | ({"ast"} if sys.version_info >= (3, 14) else set())


def test_a_note_loads_nothing_heavy_but_msgspec(session: Cli) -> None:
    found = loaded("note", "x")
    assert not found & (HEAVY - NEEDED)
    assert "json" not in found
    assert len(found) <= MOST_FOR_NOTE, sorted(found)


@pytest.mark.parametrize("argv", [["brief"], ["resume"]])
def test_a_briefing_loads_nothing_heavy_but_msgspec(session: Cli, argv: list[str]) -> None:
    found = loaded(*argv)
    assert not found & (HEAVY - NEEDED | {"json"})
    assert len(found) <= MOST_FOR_BRIEF, sorted(found)


@pytest.mark.parametrize("argv", [["start", "another"], ["pause"], ["resume"]])
def test_session_without_bound_files_loads_no_format(session: Cli, argv: list[str]) -> None:
    formats = {name for name in loaded(*argv) if name.startswith("forestay.formats.")}
    assert formats <= {"forestay.formats.registry"}  # a table of names only


@pytest.mark.parametrize("argv", [["--version"], ["--help"]])
def test_help_needs_neither_store_nor_settings(cli: Cli, argv: list[str]) -> None:
    found = loaded(*argv)
    assert not found & (HEAVY | {"sqlite3", "json", "forestay.api.forestay"})


def test_only_the_module_of_the_command_is_loaded(session: Cli) -> None:
    groups = {name for name in loaded("status") if name.startswith("forestay.cli.")}
    assert groups == {
        f"forestay.cli.{name}"
        for name in (
            "main",
            "dispatch",
            "lean_imports",
            "table",
            "arguments",
            "terminal",
            "status",
        )
    }
