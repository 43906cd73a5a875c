"""Provide a model, a home and a project for each test with a real agent; report agents not run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_agents.clients import CLAUDE, CLIENTS, Client, Place
from tests.real_agents.model import Model


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in which no agent was available, so that it does not look like a success."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if _is_whole_tier(session.config) and reporter is not None and not _has_run_agent(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _is_whole_tier(terminalreporter.config):
        return
    for each in CLIENTS:
        if each.executable() is None:
            terminalreporter.write_line(f"not run: {each.name}")
    if not _has_run_agent(terminalreporter):
        terminalreporter.write_line("failed: no real agent was run", red=True)


def _is_whole_tier(config: pytest.Config) -> bool:
    """Return whether this process reports a run of all tests with real agents."""
    whole = [Path(each).name for each in config.args] == [
        "real_agents"
    ] and not config.option.keyword
    marked = config.option.markexpr == "agents"
    return whole and marked and not hasattr(config, "workerinput")


def _has_run_agent(reporter: pytest.TerminalReporter) -> bool:
    reports = [each for kind in ("passed", "failed") for each in reporter.stats.get(kind, ())]
    properties = [each for report in reports for each in getattr(report, "user_properties", ())]
    return any(name == "agent" for name, _ in properties)


@pytest.fixture(params=CLIENTS, ids=lambda each: each.name)
def client(request: pytest.FixtureRequest) -> Client:
    """Return each installed agent in turn."""
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
    """Make a home without history, and in it a project under git with one commit.

    The home's `bin` holds programs on the user's PATH: install calls Claude Code by name.
    """
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    if (claude := CLAUDE.executable()) is not None:
        (home / "bin" / "claude").symlink_to(claude)
    project = home / "greeter"
    project.mkdir(parents=True)
    (project / "greet.txt").write_text("hello\n")
    author = ["-c", "user.name=User", "-c", "user.email=user@example.org"]
    git = ["git", "-C", str(project)]
    for arguments in (["init", "-q"], ["add", "."], [*author, "commit", "-qm", "Greet"]):
        subprocess.run([*git, *arguments], check=True, env={"PATH": os.environ["PATH"]})
    return Place(home, project, model.url)
