"""Print help: the first page, all commands, a family, or one command."""

from __future__ import annotations

import re

from forestay.cli.arguments import Parser, build
from forestay.cli.table import (
    COMMANDS,
    FAMILIES,
    FLAGS,
    GROUPS,
    SHORT,
    WITH_VALUE,
    actions_of,
    locate,
)
from forestay.cli.terminal import Screen
from forestay.errors import EXIT_CODES

ABOUT = "Forestay keeps the work of AI agents from getting lost."
_TOGETHER = "\xa0"
USAGE = "forestay [OPTIONS] COMMAND …"


def print_help(name: str, screen: Screen, *, everything: bool = False) -> int:
    """Print the requested help page."""
    screen.start_paging()
    if not name:
        _print_all(screen) if everything else _print_first_page(screen)
        screen.answer(commands={name: help for name, (_, help) in COMMANDS.items()})
    elif name in FAMILIES and name not in COMMANDS:
        _print_family(name, screen)
    else:
        text = parser_of(name).format_help()
        screen.block(text)
        screen.answer(command=name, help=text)
    return 0


def parser_of(name: str, *, shared: str = "hidden") -> Parser:
    """Return the parser of a command; the shared options are `hidden` or `shown`."""
    help, command = locate(name)
    return build(name, help, command, shared=shared)


_EVERYDAY = {
    "start, resume": "start a session, or resume one with a briefing",
    "brief": "print the briefing for the next agent; changes nothing",
    "status, list": "show the current session, list those of this project",
    "log, search": "show what happened, find words in it",
    "show, diff": "show a session at any point, compare two points",
    "note, decide": "save a note, record a decision",
    "task": "list the tasks; add, start, done, block, unblock, skip",
    "undo": "undo the last command",
    "pause, complete": "pause the session, complete it",
    "settle": "settle contradictions between devices",
}


def _print_first_page(screen: Screen) -> None:
    """Print the everyday commands and the names of the others on one screen."""
    screen.line((ABOUT, "bold"))
    screen.line("usage: ", USAGE)
    screen.line()
    everyday, *others, _ = GROUPS
    screen.line((everyday, "title"))
    for names, help in _EVERYDAY.items():
        screen.line("  ", (names.ljust(16), "cyan"), "  ", help)
    screen.line()
    for group in others:
        first, *more = _top_level(group)
        actions = actions_of(first)
        shown = "|".join([*actions[:8], "…"] if len(actions) > 8 else actions)
        names = "  ".join([first, *more]) if more else f"{first} {shown}"
        screen.line((group.ljust(9), "title"), " ", (names, "cyan"))
    screen.line()
    screen.line("More: forestay COMMAND --help · all commands: forestay help --all")


def _top_level(group: str) -> list[str]:
    return list(dict.fromkeys(name.split()[0] for name in GROUPS[group]))


def _print_all(screen: Screen) -> None:
    import textwrap  # start-up

    screen.line((ABOUT, "bold"))
    screen.line()
    screen.line("usage: ", USAGE)
    for group, commands in GROUPS.items():
        screen.line()
        screen.line((group, "title"))
        for name in _top_level(group):
            help = commands[name][1] if name in commands else " | ".join(actions_of(name))
            lead = f"  {name:<12}"
            for line in textwrap.wrap(help, 66):
                screen.line((lead, "cyan"), line)
                lead = " " * 14
    sections = {
        "Examples": [(line.ljust(44), meaning) for line, meaning in _FIRST_STEPS],
        "Options, before or after the command": [
            (names.ljust(19), help) for names, help in shared_options()
        ],
        "Exit codes": [(f"{code:>3}  ", meaning) for code, meaning in EXIT_CODES],
    }
    for title, lines in sections.items():
        screen.line()
        screen.line((title, "title"))
        for lead, meaning in lines:
            screen.line("  ", (lead, "cyan"), meaning)
    screen.line()
    screen.line("More on one command: forestay COMMAND --help")


_FIRST_STEPS = (
    ('forestay start "Add login"', "start a session"),
    ('forestay note "the form is in login.html"', "save what matters"),
    ("forestay resume", "resume it later"),
)


def shared_options() -> list[tuple[str, str]]:
    """Return the options that every command has, with their help."""
    valued = [(f"{name} {value}", help) for name, (value, help) in WITH_VALUE.items()]
    flags = [(f"{SHORT[n]}, {n}" if n in SHORT else n, help) for n, help in FLAGS.items()]
    return [*valued, *flags, ("--version", "print the version")]


def _print_family(family: str, screen: Screen) -> None:
    names = [name for name in COMMANDS if f"{name} ".startswith(f"{family} ")]
    screen.line(f"usage: forestay {family} ACTION …")
    screen.line()
    for name in names:
        words = parser_of(name).format_usage().removeprefix("usage: ").split()
        # An option and its value stay together.
        usage = re.sub(r"\[[^]]*\]", lambda m: m[0].replace(" ", _TOGETHER), " ".join(words))
        for line in screen.wrap(f"  {usage}", " " * 8):
            screen.line((line.replace(_TOGETHER, " "), "cyan"))
        screen.line(f"      {COMMANDS[name][1]}")
    screen.line()
    screen.line(("Examples", "title"))
    for name in names[:3]:
        screen.line("  ", (locate(name)[1].examples[0], "cyan"))
    screen.line()
    screen.line(f"More on one: forestay {names[-1]} --help")
    screen.answer(commands={name: COMMANDS[name][1] for name in names})
