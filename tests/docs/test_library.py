"""docs/library.md names every method and option. To update its table:

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
from forestay.cli.table import COMMANDS, FLAGS, WITH_VALUE, locate
from forestay.mirror.ai_session_cleanup import Wanted
from tests.cli.support import command_method, method_name, topic_class, topics_of

PAGE = Path(__file__).parents[2] / "docs" / "library.md"
COMPAT = "## The names that the documents give"
SHARED = {*WITH_VALUE, *FLAGS}
COMMAND_LINE_ONLY = ("config completion", "help", "mcp")

# Options that have another name in the library.
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
# Options that only a user at the command line needs, or that stand for a value: what to do instead.
INSTEAD = {
    "SESSION": "the session itself: `stay.session(ID)`",
    "session use SESSION": "`text`",
    "verify SESSION": "`stay.session(ID).verify()`",
    "--yes": "methods never ask",
    "--strict": '`"drifted" in briefing.attention`',
    "--follow": "`Session.wait`",
    "record attribute --text": "a `str`",
    "files contract show --text": "`Contract.summary()`",
    "adopt --all": "everything is returned",
    "adopt --transcripts": "`Forestay.agents.adopt_transcripts`",
    "adopt --since": "`Forestay.agents.adopt_transcripts`",
    "files check --all": "everything is returned",
    "hook --set-up": "`Forestay.agents.write_script`",
    "config --example": "`forestay.base.config.example_toml()`",
    "files convert --id": "`native_id`",
    "session forget SESSION|EVENT": "the session itself: `stay.session(ID)`, or `events`",
    "session forget --dry-run": "`Session.lifecycle.reach`, `Session.lifecycle.forgettable`",
    "doctor PATH": "`Forestay.files.recover(path, out=…, fix=…, choose=…)`",
    "doctor --output": "`Forestay.files.recover`",
    "doctor --choose": "`Forestay.files.recover`",
    "files update FEATURE": "the session itself",
    "share add SESSION": "`session`",
    "share remove SESSION": "`session`",
    "share list SESSION": "`session`",
    "sync --push": "`Forestay.remotes.push`",
    "sync --pull": "`Forestay.remotes.pull`",
    "sync --again": "`Forestay.remotes.push`",
    "sync --join": "`Forestay.remotes.pull`",
    "sync --doubt": "`Forestay.remotes.pull`",
    "sync --believe": "`Forestay.remotes.pull`",
    "--evidence-file": "`evidence`, read as you like",
    "phase total N": "`count`",
    "workflow show --schema": "`Forestay.workflows.schema`",
    "workflow new --from": "`origin`",
    "sync --watch": "call it when you like",
    "sync --every": "call it when you like",
    "sync --soon": "what commands start in the background",
    "prove --again": "`Session.proofs.run_again`",
    "prove --all": "`Session.proofs.run_again(all=True)`",
    "prove --list": "`Session.proofs.list`",
    "revisit --undo": "`Session.revisit.undo`",
    "revisit --apply": "`Session.revisit.apply`",
    "revisit --because": "`Session.revisit.apply`",
    "revisit --key": "`Session.revisit.apply`",
    "files cleanup --archive": "always",
    "files cleanup --preserve-artifacts": "`Wanted(keep_artifacts=True)`",
}
INSTEAD |= {f"files cleanup --{name}": f"`Wanted({name}=…)`" for name in Wanted.__struct_fields__}
INSTEAD |= {
    f"resume {option}": "`Forestay.remotes.fetch()` before it, or not"
    for option in ("--sync", "--no-sync")
}
INSTEAD["ingest --discard"] = "`Forestay.agents.discard()`"
INSTEAD["list --size"] = "`Session.size()` of each"
INSTEAD["device key recover --confirm"] = "`agree`, which gets the device group and may raise"
INSTEAD["resume --device"] = "`stay.session(stay.devices.last_session(NAME))`"
INSTEAD["resume --restore"] = INSTEAD["resume --force"] = (
    "`Session.files.restore_artifacts(force=…)`"
)
INSTEAD["record artifact --to"] = INSTEAD["record artifact --force"] = (
    "`Session.files.write_artifact`"
)
BRIEFING = ("--budget", "--style", "--format", "--strict", "--fence", "--no-fence")
INSTEAD |= {
    f"{verb} {option}": "pass it to `resume` of the returned session"
    for verb in ("files orchestrator continue", "essay resume")
    for option in BRIEFING
}


def command_methods() -> dict[str, tuple[str, Callable[..., Any]]]:
    """Return the name of the method and the method of each command that has one."""
    found = {}
    for command in COMMANDS:
        if command not in COMMAND_LINE_ONLY:
            found[command] = (method_name(command), command_method(command))
    return found


def options(command: str) -> Iterator[tuple[str, str]]:
    """Yield each argument of a command: as it is typed, and its name in Python."""
    for action in build(command, *locate(command))._actions:
        typed = (action.option_strings or [str(action.metavar)])[-1]
        if typed not in SHARED:
            yield typed, action.dest


def find_different_names(command: str, method: Callable[..., Any]) -> dict[str, str]:
    """Return arguments whose name in the method differs from the command, and that name."""
    known = inspect.signature(method).parameters
    found = {}
    for typed, dest in options(command):
        plain = typed.removeprefix("--").replace("-", "_")
        if plain in known or (not typed.startswith("-") and dest in known):
            continue
        name = INSTEAD.get(f"{command} {typed}") or INSTEAD.get(typed)
        found[typed] = name or f"`{SPELLED[typed]}`"
    return found


def table() -> str:
    rows = ["| command | method | different names |", "|---|---|---|"]
    for command, (name, method) in command_methods().items():
        by_name: dict[str, list[str]] = {}
        for typed, how in find_different_names(command, method).items():
            by_name.setdefault(how, []).append("`{}`".format(typed.replace("|", r"\|")))
        differences = "; ".join(f"{', '.join(typed)}: {how}" for how, typed in by_name.items())
        rows.append(f"| `{command}` | `{name}` | {differences} |")
    return "\n".join(rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_of_a_command_is_a_parameter_or_its_other_name_is_documented(
    command: str,
) -> None:
    if command in COMMAND_LINE_ONLY:
        return
    _, method = command_methods()[command]
    known = inspect.signature(method).parameters
    for typed, name in find_different_names(command, method).items():
        if typed in SPELLED and f"{command} {typed}" not in INSTEAD:
            assert name.strip("`").partition("=")[0] in known, (command, typed)


def test_the_python_examples_of_the_library_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for example in examples:
        exec(example, {})
    printed = capsys.readouterr().out
    assert "1 of 1 task done" in printed
    assert printed.endswith("1 False {'0': 'passed'}\n")


def test_every_name_of_the_compat_module_is_on_the_library_page() -> None:
    section = PAGE.read_text(encoding="utf-8").partition(COMPAT)[2]
    named = re.findall(r"`(?:compat\.)?(\w+)`", "".join(re.findall(r"^\| `.*?\|", section, re.M)))
    assert sorted(named) == sorted(compat.__all__)


def test_the_table_of_commands_and_methods_on_the_library_page_is_up_to_date() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


OWNERS: dict[str, type] = {
    "Forestay": forestay.Forestay,
    "Session": forestay.Session,
    "AgentRun": forestay.AgentRun,
}
MOST_NAMES = 30


def public_objects() -> Iterator[tuple[str, list[str]]]:
    """Yield every object of the library, by its path, with its public names."""
    waiting = list(OWNERS.items())
    for path, owner in waiting:
        made = {"Session": ["was_open"], "Forestay": ["context"], "AgentRun": ["id"]}.get(path, [])
        yield path, [*made, *(name for name in dir(owner) if not name.startswith("_"))]
        topics = topics_of(owner) if path != "AgentRun" else []  # the same as of a session
        waiting += [(f"{path}.{name}", topic_class(owner, name)) for name in topics]


def test_no_object_has_more_public_names_than_a_reader_can_survey() -> None:
    for path, names in public_objects():
        assert len(names) <= MOST_NAMES, f"{path} has {len(names)}"


def test_no_method_returns_an_untyped_dictionary() -> None:
    for path, names in public_objects():
        owner = find_owner(path)
        for name in names:
            kind = getattr(getattr(owner, name, None), "__annotations__", {}).get("return", "")
            assert "dict[str, Any]" not in kind, f"{path}.{name}"


def find_owner(path: str) -> type:
    first, *topics = path.split(".")
    owner = OWNERS[first]
    for name in topics:
        owner = topic_class(owner, name)
    return owner


def test_instances_have_no_public_names_that_their_classes_lack(tmp_path: Path) -> None:
    with forestay.open(str(tmp_path / "home"), cwd=str(tmp_path)) as stay:
        session = stay.start("one")
        for one in (stay, session, session.agents.run("a1"), session.tasks, stay.files):
            names = {name for name in vars(one) if not name.startswith("_")}
            assert names <= {"was_open", "context", "id"}


def test_every_public_name_is_the_method_of_a_command_or_documented() -> None:
    named = {name for name, _ in command_methods().values()}
    page = (
        PAGE.read_text(encoding="utf-8").partition("## Without a command")[2].partition(COMPAT)[0]
    )
    documented = set(re.findall(r"^\| `((?:\w+\.)+\w+)`", page, re.MULTILINE))
    found = {f"{path}.{name}" for path, names in public_objects() for name in names}
    assert found - named == documented


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    before, mark, after = text.partition("\n## Without a command")
    start = before.partition("| command | method |")[0]
    PAGE.write_text(start + table() + "\n" + mark + after, encoding="utf-8")
