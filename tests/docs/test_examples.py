"""The worked examples in docs/examples do what they show, line for line.

Lines that begin with `$` are typed, one shell each; the output follows, and `# exit N` is the exit
code if not 0. Ids and times are replaced. `python -m tests.docs.test_examples` updates the pages.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.docs.test_readme import environment

FOLDER = Path(__file__).parents[2] / "docs" / "examples"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))
BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)


def run_page(page: str, place: Path) -> str:
    """Run the page's commands in an empty folder and return the page with their output."""
    (place / "work").mkdir()
    return BLOCK.sub(lambda found: f"```console\n{_run_block(found[1], place)}```", page)


def _run_block(block: str, place: Path) -> str:
    lines = [line for line in block.split("\n") if line.startswith("$ ")]
    return "".join(_run(line.partition("  # exit")[0], place) for line in lines)


def _run(line: str, place: Path) -> str:
    done = subprocess.run(
        ["sh", "-c", line[2:]],
        cwd=place / "work",
        env=environment(place / "home"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    exit_note = f"  # exit {done.returncode}" if done.returncode else ""
    output = done.stdout.replace(str(place.resolve()), "~")
    return f"{line}{exit_note}\n{_replace_variable_parts(output)}"


def _replace_variable_parts(text: str) -> str:
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\dZ", "2026-11-16 09:00Z", text)
    text = re.sub(r"(just now|\d+ (?:seconds?|minutes?) ago)", "just now", text)
    text = re.sub(r"\(pid \d+", "(pid 4711", text)
    text = re.sub(r" in \d+\.\d s\b", " in 0.1 s", text)
    # Durations vary from run to run, and so do comparisons of them.
    text = re.sub(r"\b\d+ (min|minutes|minute)\b", r"0 \1", text).replace("0 minute ", "0 minutes ")
    text = re.sub(r"(?m)^ +⚠️  Current phase taking longer.*\n", "", text)
    return re.sub(r"(?m)[ \t]+$", "", text)


@pytest.mark.parametrize("name", PAGES)
def test_commands_of_an_example_page_print_the_output_it_shows(name: str, tmp_path: Path) -> None:
    page = (FOLDER / name).read_text(encoding="utf-8")
    assert len(BLOCK.findall(page)) > 3
    assert run_page(page, tmp_path) == page


if __name__ == "__main__":
    for path in FOLDER.glob("*.md"):
        with tempfile.TemporaryDirectory() as place:
            path.write_text(
                run_page(path.read_text(encoding="utf-8"), Path(place)), encoding="utf-8"
            )
