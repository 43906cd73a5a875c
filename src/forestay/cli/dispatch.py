"""Run one command from argv to exit code: find it, parse it, run it, report errors.

Options that every command has can stand anywhere, also before the command, so the command's
words are found first and the rest is parsed by that command's parser alone: building all
parsers would take longer than most commands.
"""

from __future__ import annotations

from forestay.cli.lean_imports import load_argparse, load_msgspec
from forestay.cli.table import (
    COMMANDS,
    DEFAULT_ACTIONS,
    FAMILIES,
    WITHOUT_MODEL,
    actions_of,
    help_hint,
    locate,
    split,
)
from forestay.errors import BROKEN_PIPE, FAILED, INTERRUPTED, ForestayError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TextIO

    from forestay.base.config import Settings
    from forestay.cli.arguments import Command
    from forestay.cli.types import Forestay, Namespace, Screen


def run(
    argv: Sequence[str],
    out: TextIO | None,
    err: TextIO | None,
    source: TextIO | None,
    *,
    leaving: bool = False,
) -> int:
    """Run one command; `leaving` means that the process ends right after it."""
    from forestay.cli.terminal import Declined, Screen, Unwritable

    screen = Screen(out, err, source)
    words = list(argv)
    screen.json, screen.colorless = (n in _options(words) for n in ("--json", "--no-color"))
    try:
        try:
            code = _run(words, screen, leaving=leaving)
            screen.finish()
            return code
        except (BrokenPipeError, Unwritable):
            raise
        except Declined:
            screen.line("nothing was changed")
            return FAILED
        except Exception as error:
            from forestay.cli.errors import report_bug, report_error

            if isinstance(error, ForestayError):
                return report_error(error, screen)
            return report_bug(error, screen)
    except KeyboardInterrupt:
        screen.end_line()
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE
    except Unwritable as error:
        screen.err.write(f"forestay: the output could not be written: {error}\n")
        return FAILED


def _run(argv: list[str], screen: Screen, *, leaving: bool) -> int:
    _refuse_invalid_text(argv)
    name, rest = split(argv)
    screen.command = name
    exit_code = _print_version_or_help(name, rest, screen)
    if exit_code is not None:
        return exit_code
    name = default_command(name)
    if leaving:
        load_argparse()
        if name in COMMANDS and COMMANDS[name][0] not in WITHOUT_MODEL:
            load_msgspec()
    command, options = parse(name, rest)
    screen.json, screen.quiet = options.json, options.quiet
    screen.given = {f"--{n}": v for n in ("home", "store", "session") if (v := getattr(options, n))}
    screen.chosen = getattr(options, "chosen", "")
    if options.store:
        from forestay.base.config import without_password

        screen.given["--store"] = without_password(options.store)
    careful = command.careful is not None and command.careful(options)
    stay = _open(options, screen, careful=careful, leaving=leaving)
    try:
        return command.run(options, stay, screen) or 0
    finally:
        if leaving:
            stay.context.finish()
        else:
            stay.close()


def default_command(family: str) -> str:
    """Return the command that a family runs without an action; return other names unchanged."""
    if family not in FAMILIES:
        return family
    name = f"{family} {DEFAULT_ACTIONS.get(family, 'list')}".strip()
    if name in COMMANDS:
        return name
    raise InvalidInput(
        "ACTION is missing",
        why=f"choose one of {', '.join(actions_of(family))}",
        hint=help_hint(family),
    )


def _print_version_or_help(name: str, rest: list[str], screen: Screen) -> int | None:
    """Print version or help, which need neither a home nor settings; None for other commands."""
    asked = {"--version", "--help", "-h"}.intersection(_options(rest))
    if asked and name in COMMANDS:
        from forestay.cli.help import parser_of

        # Only the command's parser knows whether `--help` is an option or the value of another one.
        asked = asked.intersection(_options(parser_of(name).join_values(rest)))
    if "--version" in asked:
        from forestay.base.version import __version__

        screen.line(f"forestay {__version__}")
        screen.answer(version=__version__)
        return 0
    if asked:
        from forestay.cli.errors import apply_settings
        from forestay.cli.help import print_help

        apply_settings(screen)
        return print_help(name, screen)
    return None


def _options(argv: list[str]) -> list[str]:
    return argv[: argv.index("--")] if "--" in argv else argv


def _refuse_invalid_text(argv: list[str]) -> None:
    for number, word in enumerate(argv, start=1):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                f"argument {number} is not valid UTF-8",
                why="it contains bytes that are not text",
                hint="convert it with iconv, or rename the file",
            ) from None


def parse(name: str, rest: list[str]) -> tuple[Command, Namespace]:
    """Return the command of a name, and its options; raise InvalidInput for wrong usage."""
    from forestay.cli.arguments import build

    help, command = locate(name)
    parser = build(name, help, command)
    return command, parser.parse_args(parser.join_values(rest))


def _open(options: Namespace, screen: Screen, *, careful: bool, leaving: bool) -> Forestay:
    from forestay.api.forestay import Forestay

    settings = load_settings(options, careful=careful)
    screen.apply_settings(settings)
    stay = Forestay(
        settings,
        actor="cli",
        one_shot=True,
        on_notice=screen.warn_from_library,
        before_mirror=load_msgspec if leaving else None,
    )
    stay.context.ask_passphrase = screen.ask_passphrase
    return stay


def load_settings(options: Namespace, *, careful: bool = False) -> Settings:
    """Return the settings of a command; a careful one ignores a bad config file."""
    from forestay.base.config import OPTIONS, load

    if options.session is not None and not options.session.strip():
        raise InvalidInput(
            "--session is empty", why="perhaps a shell variable is empty", hint="forestay list"
        )
    given = {"store": options.store or None, "session": options.session}
    try:
        return load(options.home, overrides=given)
    except ForestayError:
        if not careful:
            raise
    outvoted = {name: one.default for name, one in OPTIONS.items() if one.in_file}
    given = {**outvoted, **{name: value for name, value in given.items() if value}}
    return load(options.home, overrides=given, read_file=False)
