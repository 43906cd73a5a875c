"""Finds a command: its name in what was typed, and the module that it is in."""

from __future__ import annotations

from forestay.cli.table import COMMANDS, FAMILIES, WITH_VALUE
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.cli.arguments import Command


def split(argv: list[str]) -> tuple[str, list[str]]:
    """Return the name of the command (up to three words, "" for none) and everything else."""
    words: list[str] = []
    rest: list[str] = []
    left = iter(argv)
    for word in left:
        if word == "--":
            return " ".join(words), [*rest, word, *left]
        if word.startswith("-") and word != "-":
            rest.append(word)
            if word in WITH_VALUE:
                rest += [value for _, value in zip(range(1), left, strict=False)]
            continue
        name = " ".join([*words, word])
        if words and " ".join(words) in COMMANDS and name not in COMMANDS:
            return " ".join(words), [*rest, word, *left]  # `config brief_budget 2000`
        words.append(word)
        if name not in FAMILIES:
            break
    return " ".join(words), [*rest, *left]


def locate(name: str) -> tuple[str, Command]:
    """Return what a command does in one line, and the command; loads only the module it is in."""
    if name not in COMMANDS and name:
        raise _unknown(name)
    module, help = COMMANDS[name] if name else ("status", "where things stand")
    found = __import__(f"forestay.cli.{module}", fromlist=["COMMANDS"])
    command: Command = found.COMMANDS[name]
    return help, command


def _unknown(name: str) -> InvalidInput:
    from forestay.cli.suggestions import suggest_commands  # start-up

    name = name[:100]
    near = [f"forestay {one}" for one in suggest_commands(name)]
    hint = f"did you mean: {' or '.join(near)}?" if near else help_hint(name.rpartition(" ")[0])
    return InvalidInput(f"there is no command '{name}'", hint=hint)


def help_hint(family: str) -> str:
    """Return the line to type for help on a family of commands, or on all of them."""
    return f"see: forestay {family} --help" if family else "see all commands: forestay --help"
