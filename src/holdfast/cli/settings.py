"""Settings, the project's marker, completion and help: what needs no session."""

from __future__ import annotations

import os

from holdfast.cli.arguments import Command, Parser, nothing
from holdfast.config import (
    FILE_NAME,
    OPTIONS,
    child_environment,
    example_toml,
    unset,
    without_password,
)
from holdfast.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from holdfast.cli.screen import Screen
    from holdfast.home import Holdfast

SHELLS = ("bash", "zsh", "fish")


# -- config ------------------------------------------------------------------------------------


def _config_arguments(parser: Parser) -> None:
    parser.add_argument("key", nargs="?", default="", metavar="KEY", help="one setting")
    parser.add_argument("value", nargs="?", metavar="VALUE", help="its new value")
    parser.add_argument("--unset", metavar="KEY", help="take a setting out of the file")
    parser.add_argument("--example", action="store_true", help="a file with every setting")


def _mends(options: Namespace) -> bool:
    """A bad line in the file must not keep the command from running that mends it."""
    return options.value is not None or options.unset is not None or options.example


def run_config(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    if options.example:
        text = example_toml()
        screen.answer({"example": text})
        screen.block(text)
    elif options.unset is not None:
        _unset(options.unset, hf, screen)
    elif options.value is not None:
        _set(options.key, options.value, hf, screen)
    else:
        _tell_settings(options.key, hf, screen)


def _set(key: str, value: str, hf: Holdfast, screen: Screen) -> None:
    kept, _ = hf.config(key, value)[key]
    screen.answer({"key": key, "value": _safe(kept), "file": _file(hf)})
    screen.done(f"{key} = {_shown(kept)}")
    variable = OPTIONS[key].variable
    if child_environment().get(variable):
        screen.aside(("but ", "yellow"), f"the environment variable {variable} outvotes it here")


def _unset(key: str, hf: Holdfast, screen: Screen) -> None:
    found = unset(hf.settings.home, key)
    screen.answer({"key": key, "found": found, "file": _file(hf)})
    screen.done(f"{key} is not set any more" if found else f"{key} was not set in {_file(hf)}")


def _tell_settings(key: str, hf: Holdfast, screen: Screen) -> None:
    found = hf.config(key)
    values = {name: {"value": _safe(v), "origin": origin} for name, (v, origin) in found.items()}
    unknown = list(hf.settings.unknown)
    screen.answer({"values": values, "unknown": unknown, "file": _file(hf)})
    if key:
        screen.line(_shown(found[key][0]))
        return
    screen.table([[name, _shown(v), (origin, "dim")] for name, (v, origin) in found.items()])
    if unknown:
        screen.line((f"not known to this version, left alone: {', '.join(unknown)}", "yellow"))
    screen.line(
        ("set one: holdfast config KEY VALUE · what they mean: holdfast config --example", "dim")
    )


def _file(hf: Holdfast) -> str:
    return os.path.join(hf.settings.home, FILE_NAME)


def _safe(value: object) -> object:
    """A value without the password that a URL may carry."""
    if isinstance(value, str):
        return without_password(value)
    return list(value) if isinstance(value, tuple) else value


def _shown(value: object) -> str:
    safe = _safe(value)
    return ", ".join(map(str, safe)) if isinstance(safe, list) else str(safe)


# -- init --------------------------------------------------------------------------------------


def run_init(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    path = hf.init()
    screen.answer({"path": path})
    screen.done(("Marked this project: ", "green"), path)
    screen.hint("next: ", "commit the file, so that every clone finds its sessions")


# -- completion --------------------------------------------------------------------------------


def _completion_arguments(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def run_completion(options: Namespace, hf: Holdfast, screen: Screen) -> None:
    script = completion(options.shell)
    screen.answer({"shell": options.shell, "script": script})
    if not screen.json:
        screen.out.write(script + "\n")


def completion(shell: str) -> str:
    """The script that completes commands and options in a shell."""
    import shtab

    if shell not in shtab.SUPPORTED_SHELLS:
        raise InvalidInput(
            f"the installed shtab knows nothing of {shell}", hint="pip install --upgrade shtab"
        )
    return shtab.complete(_with_paths(whole_parser()), shell)


def whole_parser() -> ArgumentParser:
    """Every command in one parser, as completion needs it; far too slow for daily use."""
    from holdfast.cli.manual import parser_of
    from holdfast.cli.table import COMMANDS, FAMILIES

    root = Parser("holdfast", shared="shown")
    root.add_argument("--version", action="store_true", help="print the version")
    families: dict[str, Any] = {"": root.add_subparsers(metavar="COMMAND")}
    for family in FAMILIES:
        actions = [name.partition(" ")[2] for name in COMMANDS if name.startswith(f"{family} ")]
        parent = families[""].add_parser(
            family, prog=f"holdfast {family}", help=", ".join(actions), shared="shown"
        )
        families[family] = parent.add_subparsers(metavar="ACTION")
    for name, (_, help) in COMMANDS.items():
        family, _, action = name.rpartition(" ")
        made = parser_of(name, shared="shown")
        families[family].add_parser(action, parents=[made], prog=made.prog, help=help, shared="")
    return root


def _with_paths(parser: Any) -> ArgumentParser:
    """Tell completion which values are files and folders."""
    import shtab

    kinds = {"PATH": shtab.FILE, "FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
    for action in parser._actions:
        if action.metavar in kinds:
            action.complete = kinds[action.metavar]
        if action.nargs == "A...":  # the actions below it
            for below in action.choices.values():
                _with_paths(below)
    made: ArgumentParser = parser
    return made


# -- help --------------------------------------------------------------------------------------


def _help_arguments(parser: Parser) -> None:
    parser.add_argument("words", nargs="*", metavar="COMMAND", help="the command")


def run_help(options: Namespace, hf: Holdfast, screen: Screen) -> int:
    from holdfast.cli.manual import tell_help

    return tell_help(" ".join(options.words), screen)


def _always(options: Namespace) -> bool:
    return True


COMMANDS = {
    "config": Command(
        _config_arguments,
        run_config,
        "holdfast config",
        "holdfast config brief_budget 2000",
        "holdfast config --unset brief_budget",
        careful=_mends,
    ),
    "init": Command(nothing, run_init, "holdfast init"),
    "completion": Command(
        _completion_arguments,
        run_completion,
        "holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast",
        "holdfast completion zsh > ~/.zfunc/_holdfast",
        "holdfast completion fish > ~/.config/fish/completions/holdfast.fish",
        careful=_always,
    ),
    "help": Command(_help_arguments, run_help, "holdfast help task add", careful=_always),
}
