"""docs/library.md names every method and option. To bring its table up to date:

python -m tests.docs.test_library
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import forestay
from forestay import compat
from forestay.cli.arguments import build
from forestay.cli.lookup import locate
from forestay.cli.table import COMMANDS, FLAGS, WITH_VALUE
from forestay.mirror.ai_session_cleanup import Wanted
from tests.cli.support import method_name

PAGE = Path(__file__).parents[2] / "docs" / "library.md"
COMPAT = "## The names that the documents give"
SHARED = {*WITH_VALUE, *FLAGS}
OF_THE_LINE = ("config completion", "help", "mcp")
CLASSES = (forestay.Session, forestay.Forestay)

# Options that the library spells otherwise: what they are called there.
SPELLED = {
    "--no-tools": "tools=False",
    "-n": "limit",
    "--format": "fmt",
    "--fence": "fenced=True",
    "--no-fence": "fenced=False",
    "--force": "overwrite",
    "--from": "from_session",
    "--bind": "formats",
    "--save": "partial",
    "--output": "out",
    "--file": "files",
    "--option": "options",
    "--source": "sources",
    "FILE": "path",
    "PART": "fraction",
    "--as": "name",
    "--name": "names",
    "NAME|FILE": "which",
    "FILE|NAME": "which",
    "DEVICE": "which",
    "--with": "person",
    "--read": "mode",
    "--continue": "mode",
}
# What only a person at the command line needs, or what stands for a value: how it is done.
INSTEAD = {
    "SESSION": "the session itself: `stay.session(ID)`",
    "session use SESSION": "`text`",
    "verify SESSION": "`stay.session(ID).verify()`",
    "--yes": "nobody is asked",
    "--strict": '`"drifted" in briefing.attention`',
    "--follow": "`Session.follow`",
    "record attribute --text": "a `str`",
    "files contract show --text": "`Contract.summary()`",
    "adopt --all": "everything is returned",
    "adopt --transcripts": "`Forestay.adopt_transcripts`",
    "adopt --since": "`Forestay.adopt_transcripts`",
    "files check --all": "everything is returned",
    "hook --set-up": "`Forestay.hook_set_up`",
    "config --example": "`forestay.base.config.example_toml()`",
    "files convert --id": "`native_id`",
    "session forget SESSION|EVENT": "the session itself: `stay.session(ID)`, or `events`",
    "session forget --dry-run": "`Session.reach`, `Session.forgettable`",
    "doctor PATH": "`Forestay.recover(path, out=…, fix=…, choose=…)`",
    "doctor --output": "`Forestay.recover`",
    "doctor --choose": "`Forestay.recover`",
    "files update FEATURE": "the session itself",
    "share add SESSION": "`session`",
    "share remove SESSION": "`session`",
    "share list SESSION": "`session`",
    "sync --push": "`Forestay.push`",
    "sync --pull": "`Forestay.pull`",
    "sync --again": "`Forestay.push`",
    "sync --join": "`Forestay.pull`",
    "sync --doubt": "`Forestay.pull`",
    "sync --believe": "`Forestay.pull`",
    "--evidence-file": "`evidence`, read as you like",
    "phase total N": "`count`",
    "workflow show --schema": "`Forestay.workflow_schema`",
    "workflow new --from": "`origin`",
    "sync --watch": "call it when you like",
    "sync --every": "call it when you like",
    "sync --soon": "`Forestay.sync_if_due`",
    "prove --again": "`Session.prove_again`",
    "prove --all": "`Session.prove_again(all=True)`",
    "prove --list": "`Session.prove_list`",
    "revisit --undo": "`Session.revisit_undo`",
    "revisit --apply": "`Session.revisit_apply`",
    "revisit --because": "`Session.revisit_apply`",
    "revisit --key": "`Session.revisit_apply`",
    "files cleanup --archive": "always so",
    "files cleanup --preserve-artifacts": "`Wanted(keep_artifacts=True)`",
}
INSTEAD |= {f"files cleanup --{name}": f"`Wanted({name}=…)`" for name in Wanted.__struct_fields__}
INSTEAD |= {
    f"resume {option}": "`Forestay.arrive()` before it, or not"
    for option in ("--sync", "--no-sync")
}
INSTEAD["ingest --discard"] = "`Forestay.ingest_discard()`"
INSTEAD["list --size"] = "`Session.size()` of each"
INSTEAD["device key recover --confirm"] = "`agree`, which is shown the circle and may raise"
INSTEAD["resume --device"] = "`stay.session(stay.last_on(NAME))`"
INSTEAD["resume --restore"] = INSTEAD["resume --force"] = "`Session.artifact_restore(force=…)`"
INSTEAD["record artifact --to"] = INSTEAD["record artifact --force"] = "`Session.artifact_write`"
BRIEFING = ("--budget", "--style", "--format", "--strict", "--fence", "--no-fence")
INSTEAD |= {
    f"{verb} {option}": "give it to `resume` of the session that is returned"
    for verb in ("files orchestrator continue", "essay resume")
    for option in BRIEFING
}


def verbs() -> dict[str, tuple[str, Callable[..., Any]]]:
    """Each command that is a method: the name of its method, and the method."""
    found = {}
    for command in COMMANDS:
        name = method_name(command)
        for owner in CLASSES:
            if command not in OF_THE_LINE and hasattr(owner, name) and command not in found:
                found[command] = (f"{owner.__name__}.{name}", getattr(owner, name))
    return found


def options(command: str) -> Iterator[tuple[str, str]]:
    """What a command takes: as it is typed, and its name in Python."""
    for action in build(command, *locate(command))._actions:
        typed = (action.option_strings or [str(action.metavar)])[-1]
        if typed not in SHARED:
            yield typed, action.dest


def otherwise(command: str, method: Callable[..., Any]) -> dict[str, str]:
    """What a method does not call as its command does."""
    known = inspect.signature(method).parameters
    found = {}
    for typed, dest in options(command):
        plain = typed.removeprefix("--").replace("-", "_")
        if plain in known or (not typed.startswith("-") and dest in known):
            continue
        said = INSTEAD.get(f"{command} {typed}") or INSTEAD.get(typed)
        found[typed] = said or f"`{SPELLED[typed]}`"
    return found


def table() -> str:
    rows = ["| command | method | spelled otherwise |", "|---|---|---|"]
    for command, (name, method) in verbs().items():
        said: dict[str, list[str]] = {}
        for typed, how in otherwise(command, method).items():
            said.setdefault(how, []).append("`{}`".format(typed.replace("|", r"\|")))
        told = "; ".join(f"{', '.join(typed)}: {how}" for how, typed in said.items())
        rows.append(f"| `{command}` | `{name}` | {told} |")
    return "\n".join(rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_a_parameter_or_its_other_name_is_documented(
    command: str,
) -> None:
    if command in OF_THE_LINE:
        return
    _, method = verbs()[command]
    known = inspect.signature(method).parameters
    for typed, said in otherwise(command, method).items():
        if typed in SPELLED and f"{command} {typed}" not in INSTEAD:
            assert said.strip("`").partition("=")[0] in known, (command, typed)


def test_the_examples_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for example in examples:
        exec(example, {})
    printed = capsys.readouterr().out
    assert "1 of 1 task done" in printed
    assert printed.endswith("1 False {'0': 'passed'}\n")


def test_every_name_that_the_documents_give_is_told() -> None:
    told = PAGE.read_text(encoding="utf-8").partition(COMPAT)[2]
    named = re.findall(r"`(?:compat\.)?(\w+)`", "".join(re.findall(r"^\| `.*?\|", told, re.M)))
    assert sorted(named) == sorted(compat.__all__)


def test_the_table_is_up_to_date() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


def test_the_façade_has_no_public_name_that_is_no_verb_and_not_documented(tmp_path: Path) -> None:
    named = {name for name, _ in verbs().values()}
    page = (
        PAGE.read_text(encoding="utf-8").partition("## Besides the verbs")[2].partition(COMPAT)[0]
    )
    documented = set(re.findall(r"^\| `(\w+\.\w+)", page, re.MULTILINE))
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        session = stay.start("one")
        things = (stay, session, session.agent("a1"))
        found = {
            f"{type(one).__name__}.{name}"
            for one in things
            for name in dir(one)
            if not name.startswith("_")
        }
    assert found - named == documented


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, mark, after = text.partition("\n## Besides the verbs")
    kept = before.partition("| command | method |")[0]
    PAGE.write_text(kept + table() + "\n" + mark + after, encoding="utf-8")
