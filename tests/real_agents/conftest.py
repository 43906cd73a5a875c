"""A model, a home and a project for each test with a real agent; and the count of agents run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_agents.clients import CLAUDE, CLIENTS, Client, Place
from tests.real_agents.model import Model


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run in which no agent could be had must not look like one in which all went well."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _is_asked(session.config) and reporter is not None and not _ran(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _is_asked(terminalreporter.config):
        return
    for each in CLIENTS:
        if each.executable() is None:
            terminalreporter.write_line(f"not run: {each.name}")
    if not _ran(terminalreporter):
        terminalreporter.write_line("failed: no real agent was run", red=True)


def _is_asked(config: pytest.Config) -> bool:
    """Whether this is a run of the whole tier, seen from where its reports come together."""
    whole = [Path(each).name for each in config.args] == [
        "real_agents"
    ] and not config.option.keyword
    marked = config.option.markexpr == "agents"
    return whole and marked and not hasattr(config, "workerinput")


def _ran(reporter: pytest.TerminalReporter) -> bool:
    reports = [each for kind in ("passed", "failed") for each in reporter.stats.get(kind, ())]
    told = [each for report in reports for each in getattr(report, "user_properties", ())]
    return any(name == "agent" for name, _ in told)


@pytest.fixture(params=CLIENTS, ids=lambda each: each.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Each agent that is there, in turn."""
    each: Client = request.param
    if each.executable() is None:
        pytest.skip(f"not run: {each.name} (make test-agents installs it)")
    request.node.user_properties.append(("agent", each.name))
    return each


@pytest.fixture
def model() -> Iterator[Model]:
    running = Model({})
    yield running
    running.close()


@pytest.fixture
def place(tmp_path: Path, model: Model) -> Place:
    """A home without history, and in it a project under git with one commit.

    In the home's `bin` is what a user has on the PATH: install calls Claude Code by name.
    """
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    if (claude := CLAUDE.executable()) is not None:
        (home / "bin" / "claude").symlink_to(claude)
    project = home / "greeter"
    project.mkdir(parents=True)
    (project / "greet.txt").write_text("hello\n")
    author = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    git = ["git", "-C", str(project)]
    for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "Greet"]):
        subprocess.run([*git, *arguments], check=True, env={"PATH": os.environ["PATH"]})
    return Place(home, project, model.url)
