"""Help: every command has it, every example can be typed, and docs/cli.md has the same text."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from forestay.cli.dispatch import default_command, parse
from forestay.cli.table import COMMANDS, FAMILIES, GROUPS, actions_of, locate, split
from forestay.errors import EXIT_CODES
from tests.cli.support import Cli
from tests.docs.cli_page import document

DOCS = Path(__file__).parents[2] / "docs"

# The lines of the specification: scripts rely on these words and options.
SPELLING = """
start G --mode default --id I --from S
session use S
record rename G
record model N
record attribute K V
note T --for-next
decide W --because R --option A --option B --chosen A
record error M --category transient
undo
undo E
settle
settle D --prefer S --because R
settle --merge
settle D --keep-both
resume S --device D --sync false
resume --no-sync --restore --force
list --size
task
task list
task add T --id I --phase P --agent A
task start I
task done I --outcome T --file F --file G
task block I --because R
task skip I --because R
task unblock I
agent
phase
phase list
phase done 1 --evidence k=v --evidence n=2 --evidence-file F --override --because R
phase fail 1 --evidence k=v --issue T
phase retry
phase rollback 1
phase gate 1
phase total 3 --name T --name U
start G --workflow N --target P
agent list
agent start I --type T --task W --blocking-on J --pid 1
agent progress I 0.6
agent done I --result R --created F --created G --modified F --deleted F
agent fail I --error E --category permanent
agent retry I
agent timeout I
record command N --arguments T --status success --duration-ms 1 --error E --agent A
record command N --task T --model M
record file P --action created --agent A --added 1 --removed 2 --before S --after S
record artifact P
record tokens 5 --agent A
record compaction
pause --reason user_request --context C --save F=T
resume --budget 500 --style S --format text --strict
brief --budget 500 --style S --format markdown --strict
complete
session fail --because R
session abort
session abandon
session reopen --because R
session archive
session unarchive
session forget S --yes --force
session forget E F --because R --dry-run
status
list --all --status paused -n 5
list --archived
log -n 5 --follow
search W
show --at 5
diff A B
verify
doctor
config
config K
config K V
init
backup create
backup create D
backup restore F
backup export F
backup export F --to K --to L
backup export F --passphrase
backup import F
start G --bind craft --bind ai-session:I
adopt
adopt P --dry-run --templates --all --workflows D
adopt P --transcripts codex --since 30d
files check F --strict
files convert F --to craft -o O --workflows D
prove --phase 1 --as N --inputs G --inputs H --timeout 5 --key K
prove --again --all
prove --list
revisit S
revisit S --impact major --apply --because R --key K
revisit --undo --because R
files
files list
files bind craft:I --root D
files unbind craft
files restore
files restore craft
files orchestrator continue --budget 500
files orchestrator history
files orchestrator history 2 --limit 5
files orchestrator new G --mode debug
files orchestrator abort --because R
files orchestrator save
essay list
essay resume 1 --anyway
doctor P --fix --choose C
doctor P -o O
config completion bash
files update F --task=T --model=opus --status=paused
files report F --root D
files live D --prune
files contract
files contract show --spec F --root D --text
files contract ack --agent A --spec F --root D
files contract verify --agent A --spec F --root D
start G --workflow essay --bind essay --pushback light
essay approve G1 --key K
essay approve G3 --section 2
essay approve G4 --section 2 --paragraph 3 --last
essay approve G4-Section --section 2 --last
essay approve G5 --confirm
essay section
essay section list
essay section add 2 --title T
essay section start 2 --stage 4
essay section done 2 --map F --verified 3 --deferred 1
essay paragraph done 3 --section 2 --last
essay claim
essay claim list
essay claim defer T --reason timeout --section 2 --paragraph 3
essay claim resolve c1 --result verified --source U --source V
essay claim override c1 --result contested --because R
essay calibrate 4 --notes T --reference hybrid --again
essay voice 4.5 --section 2
essay voice skip --because R
essay output F --words 900 --sources 4 --voice 4.5
essay pushback minimal
essay show
workflow
workflow list
workflow show N
workflow show --schema
workflow check F
workflow new N --from W
files cleanup P --completed --stale --days 3 --empty --pattern X --archive --dry-run
files cleanup --yes --preserve-artifacts
install
install claude-code --scope user --no-tools
install codex --scope project --dry-run
uninstall codex --scope project --dry-run
hook codex --payload N
hook --set-up
ingest
mcp
mcp --project DIR --no-prove
mcp --http --port 0 --new-token
device key
device key init --passphrase
device key init --keyring
device key show
device key export F
device key import F
device key recover A B C
device key recover -
device key recover
device key rotate --recovery
device
device list
device add --confirm F
device add --new-key
device approve C --yes
device revoke D --yes
device rename D N
remote
remote list
remote add N A
remote remove N
remote check N
sync --push
sync --push R --again
sync --pull R
sync R --watch --every 5
backup move --to U --dry-run
backup move --unseal
share add S --with K --email A --read --yes
share add S --with K --continue
share list
share remove S W
share list S
help --all
"""


@pytest.mark.parametrize("line", SPELLING.strip().splitlines())
@pytest.mark.parametrize("around", ["{}", "--home H --json {}", "{} --session S --store U"])
def test_specified_command_lines_are_accepted(line: str, around: str) -> None:
    name, rest = split(around.format(line).split())
    parse(default_command(name), rest)
    assert name == " ".join(line.split()[: len(name.split())])


def test_every_command_has_a_specified_line() -> None:
    lines = SPELLING.strip().splitlines()
    named = {name for name in COMMANDS if any(f"{line} ".startswith(f"{name} ") for line in lines)}
    assert set(COMMANDS) == named


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_that_can_be_typed(cli: Cli, name: str) -> None:
    text = cli.ok(*name.split(), "--help").out
    help, command = locate(name)
    assert 1 <= len(command.examples) <= 3
    assert help[0].islower() and not help.endswith(".")
    for example in command.examples:
        assert example in text
        typed = re.split(r" (?:&&|>) ", example.rpartition(" | ")[2])[0]
        words = shlex.split(typed)
        assert words[0] == "forestay"
        found, rest = split(words[1:])
        assert default_command(found) == name
        parse(name, rest)
    assert max(map(len, text.splitlines())) <= 84


SPECIFIED = {
    "Everyday": "start resume brief status list log search show diff note decide task undo pause"
    " complete settle",
    "Agents": "install uninstall agent adopt mcp",
    "Plans": "workflow phase prove revisit essay",
    "Files": "files",
    "Devices": "sync remote device share",
    "Record": "record",
    "Lifecycle": "session",
    "Care": "doctor verify backup config init help",
    "For installed hooks": "hook ingest",
}


def test_groups_of_commands_are_the_specified_ones() -> None:
    found = {
        group: list(dict.fromkeys(n.split()[0] for n in names)) for group, names in GROUPS.items()
    }
    assert found == {group: names.split() for group, names in SPECIFIED.items()}
    assert sum(map(len, found.values())) <= 44


@pytest.mark.parametrize(
    ("family", "actions"),
    [
        (
            "files",
            "check convert bind unbind restore list update report live cleanup"
            " contract orchestrator",
        ),
        ("files contract", "show ack verify"),
        ("files orchestrator", "continue history new abort save"),
        ("device key", "init show export import recover rotate"),
        ("share", "add remove list"),
        ("record", "command file artifact tokens compaction error model attribute rename"),
        ("session", "use fail abort abandon reopen archive unarchive forget"),
        ("backup", "create restore export import move"),
        (
            "essay",
            "approve section paragraph claim calibrate voice output pushback show list resume",
        ),
    ],
)
def test_a_family_has_the_specified_actions(family: str, actions: str) -> None:
    assert sorted(actions_of(family)) == sorted(actions.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_never_uses_the_old_word_layout(cli: Cli, name: str) -> None:
    assert "layout" not in cli.ok(*name.split(), "--help").out.lower()


@pytest.mark.parametrize(
    "line",
    ["use x", "approve G1", "bind craft", "attr a 1", "push", "key show", "start G --layout craft"],
)
def test_old_command_names_are_refused(cli: Cli, line: str) -> None:
    assert cli(*line.split()).code == 2


@pytest.mark.parametrize("line", ["status", "log", "show", "task", "verify", "brief"])
def test_a_command_about_one_session_accepts_it_by_option(cli: Cli, line: str) -> None:
    cli.start("First", "--id", "first")
    cli.start("Second", "--id", "second")
    out = cli.ok("--json", line, "--session", "first").out.lower()
    assert "first" in out and "second" not in out
    assert cli(line, "--session", "nosuch").code == 3


def test_the_first_page_fits_a_small_terminal_and_names_every_command(cli: Cli) -> None:
    page = cli.ok("--help").out
    *shown, for_hooks = GROUPS.values()
    for name in (name for group in shown for name in group):
        assert re.search(rf"\b{name.split()[0]}\b", page), name
    assert not any(re.search(rf"\b{name}\b", page) for name in for_hooks)
    assert cli.ok("help").out == cli.ok("-h").out == page
    assert len(page.splitlines()) <= 24
    assert max(map(len, page.splitlines())) <= 80


def test_the_whole_help_names_every_command_and_exit_code(cli: Cli) -> None:
    page = cli.ok("help", "--all").out
    assert 'forestay start "Add login"' in page
    for name in COMMANDS:
        assert name.split()[0] in page
    for code, meaning in EXIT_CODES:
        assert f"{code:>3}  {meaning}" in page
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sessions", "list"),
        ("finish", "complete"),
        ("layouts", "files"),
        ("attr", "record attribute"),
        ("archive", "session archive"),
        ("orchestrator", "files orchestrator"),
        ("pull", "sync --pull"),
        ("nots", "note"),
        ("task ad", "task add"),
    ],
)
def test_unknown_command_is_answered_with_a_likely_one(cli: Cli, typed: str, meant: str) -> None:
    answer = cli(*typed.split())
    assert answer.code == 2
    assert f"did you mean: forestay {meant}?" in answer.err


@pytest.mark.parametrize("family", [one for one in FAMILIES if one not in COMMANDS])
def test_a_family_lists_its_actions(cli: Cli, family: str) -> None:
    page = cli.ok(family, "--help").out
    assert page == cli.ok("help", family).out
    for name in COMMANDS:
        if name.startswith(f"{family} "):
            assert f"forestay {name}" in page
    assert "Examples\n  forestay " in page


@pytest.mark.parametrize("family", ["phase", "essay"])
def test_a_family_page_fits_a_terminal_and_breaks_no_option(cli: Cli, family: str) -> None:
    shown = cli.ok(family, "--help", "--no-color", terminal=True).out.splitlines()
    assert all(len(line) <= 80 and line.count("[") == line.count("]") for line in shown), shown
    assert " ".join(" ".join(shown).split()) == " ".join(cli.ok(family, "--help").out.split())


def test_help_of_a_command_can_be_asked_in_two_ways(cli: Cli) -> None:
    assert cli.ok("help", "task", "add").out == cli.ok("task", "add", "-h").out
    assert cli("help", "nonsense").code == 2


def test_the_documented_command_line_is_the_real_one() -> None:
    written = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert written == document(), "write it again: python -m tests.docs.cli_page > docs/cli.md"


def test_version_is_printed(cli: Cli) -> None:
    import forestay

    assert cli.ok("--version").out == f"forestay {forestay.__version__}\n"
    assert cli.ok("list", "--version").out == f"forestay {forestay.__version__}\n"
    assert cli.json("--version")["version"] == forestay.__version__


@pytest.mark.parametrize("line", ["start G", "task add T", "files convert F --to craft"])
def test_an_empty_id_is_refused(cli: Cli, line: str) -> None:
    answer = cli(*line.split(), "--id", "")
    assert answer.code == 2 and "--id is empty" in answer.err
