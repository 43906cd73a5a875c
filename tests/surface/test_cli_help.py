"""Help: every command has it, every example can be typed, and docs/cli.md says the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from holdfast.cli import manual
from holdfast.cli.dispatch import locate, parse, split
from holdfast.cli.table import ALONE, COMMANDS, FAMILIES
from holdfast.errors import EXIT_CODES
from tests.surface.support import Cli

DOCS = Path(__file__).parents[2] / "docs"

# The lines of the specification: scripts rely on these words and options.
SPELLING = """
start G --mode default --id I --from S
use S
rename G
model N
attr K V
note T --for-next
decide W --because R --option A --option B --chosen A
error M --category transient
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
command N --arguments T --status success --duration-ms 1 --error E --agent A --task T --model M
file P --action created --agent A --added 1 --removed 2 --before S --after S
artifact P
tokens 5 --agent A
compressed
pause --reason user_request --context C --save F=T
resume --budget 500 --style S --format text --strict
brief --budget 500 --style S --format markdown --strict
complete
fail --because R
abort
abandon
reopen --because R
archive
unarchive
forget S --yes --force
forget E F --because R --dry-run
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
backup
backup D
restore F
export F
export F --to K --to L
export F --passphrase
import F
start G --layout craft --layout ai-session:I
adopt
adopt P --dry-run --templates --all --workflows D
adopt P --transcripts codex --since 30d
check F --strict
convert F --to craft -o O --workflows D
prove --phase 1 --as N --inputs G --inputs H --timeout 5 --key K
prove --again --all
prove --list
revisit S
revisit S --impact major --apply --because R --key K
revisit --undo --because R
layouts
layouts list
layouts add craft:I --root D
layouts remove craft
layouts restore
layouts restore craft
orchestrator continue --budget 500
orchestrator history
orchestrator history 2 --limit 5
orchestrator new G --mode debug
orchestrator abort --because R
orchestrator save
essay list
essay resume 1 --anyway
doctor P --fix --choose C
doctor P -o O
completion bash
layouts update F --task=T --model=opus --status=paused
layouts report F --root D
layouts live D --prune
contract
contract show --spec F --root D --text
contract ack --agent A --spec F --root D
contract verify --agent A --spec F --root D
start G --workflow essay --layout essay --pushback light
approve G1 --key K
approve G3 --section 2
approve G4 --section 2 --paragraph 3 --last
approve G4-Section --section 2 --last
approve G5 --confirm
section
section list
section add 2 --title T
section start 2 --stage 4
section done 2 --map F --verified 3 --deferred 1
paragraph done 3 --section 2 --last
claim
claim list
claim defer T --reason timeout --section 2 --paragraph 3
claim resolve c1 --result verified --source U --source V
claim override c1 --result contested --because R
calibrate 4 --notes T --reference hybrid --again
voice 4.5 --section 2
voice skip --because R
output F --words 900 --sources 4 --voice 4.5
pushback minimal
essay show
workflow
workflow list
workflow show N
workflow show --schema
workflow check F
workflow new N --from W
cleanup P --completed --stale --days 3 --empty --pattern X --archive --preserve-artifacts --dry-run
cleanup --yes
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
key
key init --passphrase
key init --keyring
key show
key export F
key import F
key recover A B C
key recover -
key recover
key rotate --recovery
devices
devices list
devices add --confirm F
devices add --new-key
devices approve C --yes
devices revoke D --yes
devices rename D N
remote
remote list
remote add N A
remote remove N
remote check N
push
push R --again
pull R
sync R --watch --every 5
move --to U --dry-run
move --unseal
share S --with K --email A --read --yes
share S --with K --continue
share --list
unshare S W
"""


@pytest.mark.parametrize("line", SPELLING.strip().splitlines())
@pytest.mark.parametrize("around", ["{}", "--home H --json {}", "{} --session S --store U"])
def test_the_specified_spelling_is_understood(line: str, around: str) -> None:
    name, rest = split(around.format(line).split())
    parse(f"{name} {ALONE.get(name, 'list')}" if name in FAMILIES else name, rest)
    assert name == " ".join(line.split()[: len(name.split())])


def test_every_command_is_in_the_spelling() -> None:
    lines = SPELLING.strip().splitlines()
    named = {name for name in COMMANDS if any(f"{line} ".startswith(f"{name} ") for line in lines)}
    assert set(COMMANDS) - named == {"help"}


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
        assert words[0] == "holdfast"
        found, rest = split(words[1:])
        assert found == name or f"{found} {ALONE.get(found, 'list')}" == name
        parse(name, rest)
    assert max(map(len, text.splitlines())) <= 84


def test_the_first_page_names_every_command_and_exit_code(cli: Cli) -> None:
    page = cli.ok("--help").out
    assert 'holdfast start "Add login"' in page
    for name in COMMANDS:
        assert name.split()[0] in page
    for code, meaning in EXIT_CODES:
        assert f"{code:>3}  {meaning}" in page
    assert cli.ok("help").out == cli.ok("-h").out == page
    assert max(map(len, page.splitlines())) <= 80


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_lists_its_actions(cli: Cli, family: str) -> None:
    page = cli.ok(family, "--help").out
    assert page == cli.ok("help", family).out
    for name in COMMANDS:
        if name.startswith(f"{family} "):
            assert f"holdfast {name}" in page
    assert "Examples\n  holdfast " in page


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
    assert written == manual.document(), (
        "write it anew: python -m holdfast.cli.manual > docs/cli.md"
    )


def test_the_version(cli: Cli) -> None:
    import holdfast

    assert cli.ok("--version").out == f"holdfast {holdfast.__version__}\n"
    assert cli.ok("list", "--version").out == f"holdfast {holdfast.__version__}\n"
    assert cli.json("--version")["version"] == holdfast.__version__
