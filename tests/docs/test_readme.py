"""The commands and examples of README work, in an empty folder, with and without git."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from forestay.cli.main import main

README = (Path(__file__).parents[2] / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    shown = [line[2:] for kind, block in BLOCKS if kind == "console" for line in block.split("\n")]
    return [line for line in shown if line.startswith("forestay ")]


def environment(home: Path) -> dict[str, str]:
    program = os.path.dirname(sys.executable)
    return {**os.environ, "FORESTAY_HOME": str(home), "PATH": f"{program}:{os.environ['PATH']}"}


@pytest.mark.parametrize("with_git", [False, True])
def test_the_terminal_session_of_the_readme_runs_when_pasted(
    tmp_path: Path, with_git: bool
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    if with_git:
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    assert len(commands()) > 5
    for line in commands():
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=folder,
            env=environment(tmp_path / "home"),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert "the template is in mail/reset.txt" in done.stdout
    assert "one day" in done.stdout


def _replace_variable_parts(text: str) -> str:
    """Return the words of a briefing without ids, times and line breaks."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\dZ", "TIME", text)
    text = re.sub(r"(?m)^- [0-9a-z]{12}:", "- EVENT:", text)
    return " ".join(re.sub(r"Session [0-9a-z]{16}:", "Session ID:", text).split())


def test_the_briefing_in_the_readme_is_the_briefing_printed(tmp_path: Path) -> None:
    (shown,) = [block for kind, block in BLOCKS if kind == "text"]
    for line in [*commands(), "forestay brief --no-fence"]:
        done = subprocess.run(
            ["sh", "-c", line],
            cwd=tmp_path,
            env=environment(tmp_path / "home"),
            capture_output=True,
            text=True,
        )
    assert _replace_variable_parts(done.stdout) == _replace_variable_parts(shown)


def test_the_python_example_of_the_readme_runs(tmp_path: Path) -> None:
    (example,) = [block for kind, block in BLOCKS if kind == "python"]
    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env=environment(tmp_path / "home"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "sensitivity analysis" in done.stdout


class Devices:
    """Run lines of README on two homes that share a USB stick."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._patch = folder, monkeypatch
        (folder / "usb").mkdir()

    def type(self, device: str, line: str) -> str:
        place = self._folder / device / "shop"
        place.mkdir(parents=True, exist_ok=True)
        self._patch.chdir(place)
        self._patch.setenv("FORESTAY_HOME", str(self._folder / device / "home"))
        typed = line.replace("/media/usb", str(self._folder / "usb"))
        out, err = io.StringIO(), io.StringIO()
        code = main(shlex.split(typed, comments=True)[1:], out, err, io.StringIO())
        assert code == 0, f"{device}: {line}\n{out.getvalue()}{err.getvalue()}"
        return out.getvalue()


def test_a_session_continues_on_another_device_as_shown_in_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORESTAY_AUTO_SYNC", "off")
    part = README.partition("## Several devices")[2].partition("\n## ")[0]
    first, second = re.findall(r"```sh\n(.*?)```", part, re.DOTALL)
    devices = Devices(tmp_path, monkeypatch)
    devices.type("laptop", 'forestay start "Add password reset"')
    for line in first.splitlines()[1:]:
        devices.type("laptop", line)
    for line in second.splitlines():
        output = devices.type("desk", line)
        if "device add" in line:
            (approve,) = re.findall(r"forestay device approve \w+", output)
            output = devices.type("laptop", f"{approve} --yes")
            (confirm,) = re.findall(r"forestay device add --confirm \S+", output)
            devices.type("desk", confirm)
    assert "Goal: " in output and "Add password reset" in output


def test_the_first_screen_of_the_readme_shows_how_to_install_and_start() -> None:
    screen = "\n".join(README.split("\n")[:24])
    assert "pip install forestay" in screen
    assert 'forestay start "' in screen
    assert "make run" in README
    assert "make test" in README


def test_every_document_linked_in_the_readme_exists() -> None:
    linked = re.findall(r"\]\(([\w./-]+)\)", README)
    missing = [name for name in linked if not (Path(__file__).parents[2] / name).exists()]
    assert not missing


def test_commands_in_the_readme_can_be_parsed_by_a_shell() -> None:
    assert all(shlex.split(line)[0] == "forestay" for line in commands())
