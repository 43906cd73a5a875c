"""Help: the first page, a family's page, a command's page, and the whole as one document."""

from __future__ import annotations

import re

from holdfast.cli.arguments import Parser, build
from holdfast.cli.dispatch import locate
from holdfast.cli.screen import Screen
from holdfast.cli.table import COMMANDS, FAMILIES, FLAGS, GROUPS, SHORT, WITH_VALUE
from holdfast.errors import EXIT_CODES

_ABOUT = "Holdfast keeps the work of AI agents from getting lost."
_ENVIRONMENT = (
    ("HOLDFAST_HOME", "where everything is kept"),
    ("HOLDFAST_STORE", "the database, if not the one in the home"),
    ("HOLDFAST_SESSION", "the session that commands mean"),
    ("HOLDFAST_…", "any other setting of `holdfast config`, in capitals"),
    ("HOLDFAST_DEBUG", "not empty: show the traceback of a bug"),
    ("NO_COLOR", "not empty: no colour"),
    ("PAGER", "the command that shows long output on a terminal"),
)
_TOGETHER = "\xa0"
_USAGE = "holdfast [OPTIONS] COMMAND …"


def tell_help(name: str, screen: Screen) -> int:
    """Print the help that was asked for."""
    screen.long()
    if not name:
        _first_page(screen)
    elif name in FAMILIES:
        _family_page(name, screen)
    else:
        text = parser_of(name).format_help()
        screen.block(text)
        screen.answer({"command": name, "help": text})
    return 0


def parser_of(name: str, *, shared: str = "hidden") -> Parser:
    help, command = locate(name)
    return build(name, help, command, shared=shared)


def _first_page(screen: Screen) -> None:
    screen.line((_ABOUT, "bold"))
    screen.line()
    screen.line("usage: ", _USAGE)
    width = max(map(len, _short_names()))
    for group, commands in GROUPS.items():
        screen.line()
        screen.line((group, "title"))
        for name, help in _short(commands).items():
            screen.line("  ", (name.ljust(width), "cyan"), "  ", help)
    _examples(screen)
    _options_and_codes(screen)
    screen.answer({"commands": {name: help for name, (_, help) in COMMANDS.items()}})


def _short(commands: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Families on one line each."""
    shown: dict[str, str] = {}
    for name, (_, help) in commands.items():
        family, _, action = name.partition(" ")
        if action:
            before = shown.get(family)
            shown[family] = f"{before} | {action}" if before else action
        else:
            shown[name] = help
    return shown


def _short_names() -> list[str]:
    return [name for commands in GROUPS.values() for name in _short(commands)]


_FIRST_STEPS = (
    ('holdfast start "Add login"', "begin"),
    ('holdfast note "the form is in login.html"', "keep what matters"),
    ("holdfast resume", "pick it up again"),
)


def _examples(screen: Screen) -> None:
    screen.line()
    screen.line(("Examples", "title"))
    for line, meaning in _FIRST_STEPS:
        screen.line("  ", (line.ljust(44), "cyan"), meaning)


def _options_and_codes(screen: Screen) -> None:
    screen.line()
    screen.line(("Options, before or after the command", "title"))
    for names, help in _shared_options():
        screen.line("  ", (names.ljust(17), "cyan"), "  ", help)
    screen.line()
    screen.line(("Exit codes", "title"))
    for code, meaning in EXIT_CODES:
        screen.line(f"  {code:>3}  {meaning}")
    screen.line()
    screen.line("More on one command: holdfast COMMAND --help")


def _shared_options() -> list[tuple[str, str]]:
    valued = [(f"{name} {value}", help) for name, (value, help) in WITH_VALUE.items()]
    flags = [(f"{SHORT[n]}, {n}" if n in SHORT else n, help) for n, help in FLAGS.items()]
    return [*valued, *flags, ("--version", "print the version")]


def _family_page(family: str, screen: Screen) -> None:
    names = [name for name in COMMANDS if name.startswith(f"{family} ")]
    screen.line(f"usage: holdfast {family} ACTION …")
    screen.line()
    for name in names:
        for line in screen.wrapped(f"  {_usage_of(name)}", " " * 8):
            screen.line((line.replace(_TOGETHER, " "), "cyan"))
        screen.line(f"      {COMMANDS[name][1]}")
    screen.line()
    screen.line(("Examples", "title"))
    for name in names[:3]:
        screen.line("  ", (locate(name)[1].examples[0], "cyan"))
    screen.line()
    screen.line(f"More on one: holdfast {names[-1]} --help")
    screen.answer({"commands": {name: COMMANDS[name][1] for name in names}})


def _usage_of(name: str) -> str:
    """How a command is called, on one line, in which an option and its value stay together."""
    words = parser_of(name).format_usage().removeprefix("usage: ").split()
    return re.sub(r"\[[^]]*\]", lambda part: part[0].replace(" ", _TOGETHER), " ".join(words))


def document() -> str:
    """docs/cli.md: every command with what it takes."""
    parts = ["# The command line\n", f"{_ABOUT} Usage: `{_USAGE}`\n"]
    parts.append("Options, before or after the command:\n")
    parts += [f"- `{names}` {help}" for names, help in _shared_options()]
    parts.append("\nEnvironment:\n")
    parts += [f"- `{name}` {help}" for name, help in _ENVIRONMENT]
    parts.append("\nExit codes:\n")
    parts += [f"- {code}: {meaning}" for code, meaning in EXIT_CODES]
    for group, commands in GROUPS.items():
        parts.append(f"\n## {group}")
        parts += [f"\n### {name}\n\n```\n{_page(name)}\n```" for name in commands]
    return "\n".join(parts) + "\n"


def _page(name: str) -> str:
    text = parser_of(name).format_help().rstrip()
    return text.rpartition("\n\n")[0]  # without the line about shared options


if __name__ == "__main__":
    print(document(), end="")
