"""The built wheel works with its two dependencies and no development package."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **variables}
    return subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environ, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def installed_programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a new environment, as pip would; return its bin folder."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    keep = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, source, ignore=keep)
    built = run(
        sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "-o", folder, cwd=source
    )
    assert built.returncode == 0, built.stderr
    venv.create(folder / "env", with_pip=True)
    python = folder / "env/bin/python"
    (wheel,) = folder.glob("*.whl")
    done = run(python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    copy_dependencies(next((folder / "env/lib").glob("python*")) / "site-packages")
    return python.parent


def copy_dependencies(target: Path) -> None:
    here = Path(sysconfig.get_path("purelib"))
    for requirement in requires("forestay") or []:
        if "extra ==" in requirement:
            continue
        found = re.match(r"[\w.-]+", requirement)
        assert found
        for file in distribution(found.group()).files or []:
            if ".." not in file.parts:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(here / file, target / file)


def test_the_wheel_holds_the_typed_package_and_nothing_else(installed_programs: Path) -> None:
    site = next((installed_programs.parent / "lib").glob("python*")) / "site-packages"
    assert (site / "forestay/py.typed").exists()
    assert not (site / "tests").exists()


def test_the_installed_program_does_its_main_job(installed_programs: Path, tmp_path: Path) -> None:
    home = {"FORESTAY_HOME": str(tmp_path / "home")}
    program = installed_programs / "forestay"
    for command in (["start", "try the wheel"], ["note", "it works"], ["pause"]):
        done = run(program, *command, cwd=tmp_path, **home)
        assert done.returncode == 0, done.stderr
    resumed = run(program, "resume", "--json", cwd=tmp_path, **home)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout)["goal"] == "try the wheel"
    assert run(program, "verify", cwd=tmp_path, **home).returncode == 0


def test_the_installed_program_prints_its_version(installed_programs: Path, tmp_path: Path) -> None:
    import forestay

    printed = run(installed_programs / "forestay", "--version", cwd=tmp_path)
    assert forestay.__version__ in printed.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_works_without_development_packages(
    installed_programs: Path, tmp_path: Path, shell: str
) -> None:
    done = run(installed_programs / "forestay", "config", "completion", shell, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "forestay" in done.stdout
