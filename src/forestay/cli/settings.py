"""Commands that need no session: settings, the project's marker, completion and help."""

from __future__ import annotations

import os

from forestay.base.config import (
    FILE_NAME,
    OPTIONS,
    child_environment,
    example_toml,
    unset,
    without_password,
)
from forestay.cli.arguments import Command, Parser, arg, flag
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser

    from forestay.cli.types import Any, Forestay, Namespace, Screen

SHELLS = ("bash", "zsh", "fish")


# -- config ------------------------------------------------------------------------------------


def _repairs(options: Namespace) -> bool:
    """Return whether the command repairs the file: then a bad line must not stop it."""
    return options.value is not None or options.unset is not None or options.example


def run_config(options: Namespace, stay: Forestay, screen: Screen) -> None:
    key, file = options.key, os.path.join(stay.context.settings.home, FILE_NAME)
    if options.example:
        text = example_toml()
        screen.answer(example=text)
        screen.block(text)
    elif options.unset is not None:
        found = unset(stay.context.settings.home, options.unset)
        screen.answer(key=options.unset, found=found, file=file)
        result = "is no longer set" if found else f"was not set in {file}"
        screen.done(f"{options.unset} {result}")
    elif options.value is not None:
        value = stay.config(key, options.value)[key].value
        screen.answer(key=key, value=_safe(value), file=file)
        screen.done(f"{key} = {_shown(value)}")
        variable = OPTIONS[key].variable
        if child_environment().get(variable):
            over = f"the environment variable {variable} overrides it in this shell"
            screen.warn(("but ", "yellow"), over)
    else:
        _print_settings(key, file, stay, screen)


def _print_settings(key: str, file: str, stay: Forestay, screen: Screen) -> None:
    found = stay.config(key)
    values = {name: {"value": _safe(s.value), "origin": s.origin} for name, s in found.items()}
    unknown = list(stay.context.settings.unknown)
    screen.answer(values=values, unknown=unknown, file=file)
    if key:
        screen.line(_shown(found[key].value))
        return
    screen.table([[name, _shown(s.value), (s.origin, "dim")] for name, s in found.items()])
    if unknown:
        screen.line((f"unknown to this version and ignored: {', '.join(unknown)}", "yellow"))
    screen.line(
        ("set one: forestay config KEY VALUE · what they mean: forestay config --example", "dim")
    )


def _safe(value: object) -> object:
    """Return a value without the password that a URL can contain."""
    if isinstance(value, str):
        return without_password(value)
    return list(value) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    safe = _safe(value)
    return ", ".join(map(str, safe)) if isinstance(safe, list) else str(safe)


# -- init --------------------------------------------------------------------------------------


def run_init(options: Namespace, stay: Forestay, screen: Screen) -> None:
    path = stay.init()
    screen.answer(path=path)
    screen.done(("Marked this project: ", "green"), path)
    screen.hint("next: ", "commit the file, so that every clone finds its sessions")


# -- completion --------------------------------------------------------------------------------


def run_completion(options: Namespace, stay: Forestay, screen: Screen) -> None:
    script = completion(options.shell)
    screen.answer(shell=options.shell, script=script)
    if not screen.json:
        screen.out.write(script + "\n")


def completion(shell: str) -> str:
    """Return the script that completes commands and options in a shell."""
    import shtab

    if shell not in shtab.SUPPORTED_SHELLS:
        what = f"the installed shtab does not support {shell}"
        raise InvalidInput(what, hint="pip install --upgrade shtab")
    return shtab.complete(_with_paths(whole_parser()), shell)


def whole_parser() -> ArgumentParser:
    """Return all commands in one parser, as completion needs it; too slow for daily use."""
    from forestay.cli.help import parser_of
    from forestay.cli.table import COMMANDS, FAMILIES, actions_of

    root = Parser("forestay", shared="shown")
    root.add_argument("--version", action="store_true", help="print the version")
    families: dict[str, Any] = {"": root.add_subparsers(metavar="COMMAND")}
    for family in FAMILIES:
        above, _, word = family.rpartition(" ")
        parent = families[above].add_parser(
            word, prog=f"forestay {family}", help=", ".join(actions_of(family)), shared="shown"
        )
        families[family] = parent.add_subparsers(metavar="ACTION")
    for name, (_, help) in COMMANDS.items():
        if name in FAMILIES:
            continue  # `config`: completing its actions is enough
        family, _, action = name.rpartition(" ")
        made = parser_of(name, shared="shown")
        families[family].add_parser(action, parents=[made], prog=made.prog, help=help, shared="")
    return root


def _with_paths(parser: Any) -> ArgumentParser:
    """Mark which values are files and folders, for completion."""
    import shtab

    kinds = {"PATH": shtab.FILE, "FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
    for action in parser._actions:
        if action.metavar in kinds:
            action.complete = kinds[action.metavar]
        if action.nargs == "A...":  # the parsers of the family's actions
            for below in action.choices.values():
                _with_paths(below)
    made: ArgumentParser = parser
    return made


# -- help --------------------------------------------------------------------------------------


def run_help(options: Namespace, stay: Forestay, screen: Screen) -> int:
    from forestay.cli.help import print_help

    return print_help(" ".join(options.words), screen, everything=options.all)


COMMANDS = {
    "config": Command(
        run_config,
        arg("key?", "KEY", "one setting"),
        arg("value?", "VALUE", "its new value", default=None),
        arg("--unset", "KEY", "remove a setting from the file", default=None),
        flag("--example", "print a file with every setting"),
        "forestay config",
        "forestay config brief_budget 2000",
        "forestay config --unset brief_budget",
        careful=_repairs,
    ),
    "init": Command(run_init, "forestay init"),
    "config completion": Command(
        run_completion,
        arg("shell", "SHELL", ", ".join(SHELLS), choices=SHELLS),
        "forestay config completion bash > ~/.bash_completion.d/forestay",
        "forestay config completion zsh > ~/.zfunc/_forestay",
        "forestay config completion fish > ~/.config/fish/completions/forestay.fish",
        careful=lambda options: True,
    ),
    "help": Command(
        run_help,
        arg("words*", "COMMAND", "the command"),
        flag("--all", "all commands, options and exit codes"),
        "forestay help task add",
        "forestay help --all",
        careful=lambda options: True,
    ),
}
