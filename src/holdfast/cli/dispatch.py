"""One command from argv to exit code: find it, parse it, run it, say what went wrong.

Options that every command has may stand anywhere, also before the command, so the command's
words are looked for first and the rest is parsed by that command's parser alone: building all
parsers would cost more than most commands do.
"""

from __future__ import annotations

from holdfast.errors import BROKEN_PIPE, FAILED, INTERRUPTED, HoldfastError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence
    from typing import TextIO

    from holdfast.cli.arguments import Command
    from holdfast.cli.screen import Screen
    from holdfast.config import Settings
    from holdfast.home import Holdfast


def run(
    argv: Sequence[str],
    out: TextIO | None,
    err: TextIO | None,
    source: TextIO | None,
    *,
    leaving: bool = False,
) -> int:
    """Run one command; `leaving` means that the process ends right after it."""
    from holdfast.cli.screen import Screen, Unwritable

    screen = Screen(out, err, source)
    words = list(argv)
    screen.json, screen.colourless = (n in _options(words) for n in ("--json", "--no-color"))
    try:
        return _run_or_tell(words, screen, leaving=leaving)
    except KeyboardInterrupt:
        screen.end_line()
        return INTERRUPTED
    except BrokenPipeError:
        return BROKEN_PIPE
    except Unwritable as error:
        screen.err.write(f"holdfast: the answer could not be written: {error}\n")
        return FAILED


def _run_or_tell(argv: list[str], screen: Screen, *, leaving: bool) -> int:
    try:
        code = _run(argv, screen, leaving=leaving)
        screen.finish()
        return code
    except HoldfastError as error:
        from holdfast.cli.problem import tell

        return tell(error, screen)
    except Exception as error:
        from holdfast.cli.problem import tell_bug
        from holdfast.cli.screen import Unwritable

        if isinstance(error, BrokenPipeError | Unwritable):
            raise
        return tell_bug(error, screen)


def _run(argv: list[str], screen: Screen, *, leaving: bool) -> int:
    from holdfast.cli.table import FAMILIES

    _refuse_halves(argv)
    name, rest = split(argv)
    screen.command = name
    told = _tell_at_once(name, rest, screen)
    if told is not None:
        return told
    if name in FAMILIES:
        name = _alone(name)
    if leaving:
        _travel_light(name)
    command, options = parse(name, rest)
    screen.json, screen.quiet = options.json, options.quiet
    screen.given = {f"--{n}": v for n in ("home", "store", "session") if (v := getattr(options, n))}
    screen.chosen = getattr(options, "chosen", "")
    if options.store:
        from holdfast.config import without_password

        screen.given["--store"] = without_password(options.store)
    careful = command.careful is not None and command.careful(options)
    hf = _open(options, screen, careful=careful, leaving=leaving)
    try:
        return command.run(options, hf, screen) or 0
    finally:
        if not leaving:
            hf.close()


def _alone(family: str) -> str:
    """What a family does without an action."""
    from holdfast.cli.table import ALONE, COMMANDS

    name = f"{family} {ALONE.get(family, 'list')}"
    if name in COMMANDS:
        return name
    actions = [one.partition(" ")[2] for one in COMMANDS if one.startswith(f"{family} ")]
    raise InvalidInput(
        "ACTION is missing", why=f"it is one of {', '.join(actions)}", hint=_help_of(family)
    )


def _tell_at_once(name: str, rest: list[str], screen: Screen) -> int | None:
    """Version and help, which need no home, nor settings that can be read."""
    asked = {"--version", "--help", "-h"}.intersection(_options(rest))
    if asked and name:
        # Only the parser of the command knows whether such a word is the value of an option.
        asked = asked.intersection(_options(_parsed_words(name, rest)))
    if "--version" in asked:
        return _tell_version(screen)
    if asked:
        from holdfast.cli.manual import tell_help
        from holdfast.cli.problem import settle

        settle(screen)
        return tell_help(name, screen)
    return None


def _parsed_words(name: str, rest: list[str]) -> list[str]:
    from holdfast.cli.manual import parser_of
    from holdfast.cli.table import COMMANDS

    return parser_of(name).joined(rest) if name in COMMANDS else rest


def _travel_light(name: str) -> None:
    """In a process of our own, keep others from loading what none of our commands needs."""
    from holdfast.cli.light import pack_msgspec, speak_english
    from holdfast.cli.table import COMMANDS, WITHOUT_MODEL

    speak_english()
    if name in COMMANDS and COMMANDS[name][0] not in WITHOUT_MODEL:
        pack_msgspec()


def _options(argv: list[str]) -> list[str]:
    return argv[: argv.index("--")] if "--" in argv else argv


def _refuse_halves(argv: list[str]) -> None:
    for number, word in enumerate(argv, start=1):
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InvalidInput(
                f"argument {number} is not valid UTF-8",
                why="it holds bytes that are no text",
                hint="convert it with iconv, or rename the file",
            ) from None


def split(argv: list[str]) -> tuple[str, list[str]]:
    """The name of the command (one or two words, "" for none) and everything else."""
    from holdfast.cli.table import FAMILIES, WITH_VALUE

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
        words.append(word)
        if words[0] not in FAMILIES or len(words) == 2:
            break
    return " ".join(words), [*rest, *left]


def parse(name: str, rest: list[str]) -> tuple[Command, Namespace]:
    """The command of a name, and its options; raises InvalidInput for wrong usage."""
    from holdfast.cli.arguments import build

    help, command = locate(name)
    parser = build(name, help, command)
    return command, parser.parse_args(parser.joined(rest))


def locate(name: str) -> tuple[str, Command]:
    """A command and what it does in one line. Loads only the module it is in."""
    from holdfast.cli.table import COMMANDS

    if name not in COMMANDS and name:
        raise _unknown(name)
    module, help = COMMANDS[name] if name else ("status", "where things stand")
    found = __import__(f"holdfast.cli.{module}", fromlist=["COMMANDS"])
    command: Command = found.COMMANDS[name]
    return help, command


def _unknown(name: str) -> InvalidInput:
    import difflib

    from holdfast.cli.table import COMMANDS

    name = name[:100]
    family, _, action = name.rpartition(" ")
    lead = f"{family} " if family else ""
    known = dict.fromkeys(c.removeprefix(lead).split()[0] for c in COMMANDS if c.startswith(lead))
    inside = [command for command in COMMANDS if command.split()[-1] == name]
    near = inside or [lead + word for word in difflib.get_close_matches(action, known, 3, 0.6)]
    hint = f"did you mean: {' or '.join(f'holdfast {one}' for one in near)}?" if near else ""
    return InvalidInput(f"there is no command '{name}'", hint=hint or _help_of(family))


def _help_of(family: str) -> str:
    return f"see: holdfast {family} --help" if family else "see all commands: holdfast --help"


def _tell_version(screen: Screen) -> int:
    from holdfast import __version__

    screen.line(f"holdfast {__version__}")
    screen.answer({"version": __version__})
    return 0


def _open(options: Namespace, screen: Screen, *, careful: bool, leaving: bool) -> Holdfast:
    from holdfast.cli.light import pack_msgspec
    from holdfast.home import Holdfast

    settings = load_settings(options, careful=careful)
    screen.settle(settings)
    hf = Holdfast(
        settings,
        actor="cli",
        one_shot=True,
        on_notice=screen.notice,
        before_mirror=pack_msgspec if leaving else None,
    )
    hf.ask_passphrase = lambda: _passphrase(screen)
    return hf


def _passphrase(screen: Screen) -> str:
    from holdfast.cli.key import passphrase_of_key

    return passphrase_of_key(screen)


def load_settings(options: Namespace, *, careful: bool = False) -> Settings:
    """The settings of a command; a careful one is not stopped by a bad file or value in it."""
    from holdfast.config import OPTIONS, load

    if options.session is not None and not options.session.strip():
        raise InvalidInput(
            "--session is empty", why="an empty variable, perhaps", hint="holdfast list"
        )
    given = {"store": options.store or None, "session": options.session}
    try:
        return load(options.home, overrides=given)
    except HoldfastError:
        if not careful:
            raise
    outvoted = {name: one.default for name, one in OPTIONS.items() if one.in_file}
    given = {**outvoted, **{name: value for name, value in given.items() if value}}
    return load(options.home, overrides=given, read_file=False)
