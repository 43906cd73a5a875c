"""Describe and parse the arguments of commands: parser, shared options, and types of values."""

from __future__ import annotations

import argparse

from forestay.cli.table import FLAGS, SHORT, WITH_VALUE
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable
    from typing import Any, NoReturn

    from forestay.api.forestay import Forestay
    from forestay.cli.terminal import Screen

    Run = Callable[[Namespace, Forestay, Screen], "int | None"]
    Argument = tuple[str, dict[str, Any]]

TEXTS = frozenset({"TEXT", "GOAL", "WHAT", "MSG"})
"""Placeholders of arguments with free text; for these, the value - reads standard input."""
_WITHOUT_SESSION = frozenset({"forestay", "list", "doctor", "init"})
_SHARED = "Options that all commands have, and exit codes: forestay help --all"


class Command:
    """One command: the function that runs it, its arguments, and lines that show its use.

    `parts` are arguments (from `arg`, `flag` and `fixed`) and examples (strings). `about` is a
    second sentence for its help page. `careful` decides from the options whether the command must
    run even when the config file has a bad value, because it is the command that repairs it.
    """

    __slots__ = ("about", "arguments", "careful", "examples", "name", "run")

    def __init__(
        self,
        run: Run,
        *parts: Argument | str,
        about: str = "",
        careful: Callable[[Namespace], bool] | None = None,
    ) -> None:
        self.run, self.about, self.careful, self.name = run, about, careful, ""
        self.arguments = [part for part in parts if not isinstance(part, str)]
        self.examples = [part for part in parts if isinstance(part, str)]

    def all_arguments(self) -> list[Argument]:
        """Return the arguments for the parser."""
        return self.arguments


def arg(names: str, metavar: str, help: str, *, many: bool = False, **more: Any) -> Argument:
    """Describe an argument with a value; names that begin with a dash make it an option.

    The name of a positional argument can end in `?`, `*` or `+` (how often it occurs). An option
    with `many` can be repeated. A missing value is parsed as "", or as None if there is a `type`.
    """
    more |= {"metavar": metavar, "help": help} if metavar else {"help": help}
    if many:
        return names, {"action": "append", "default": [], **more}
    if names[0] == "-" or names[-1] == "?":
        more.setdefault("default", None if "type" in more else "")
    if names[-1] in "?*+":
        names, more["nargs"] = names[:-1], names[-1]
    return names, more


def flag(names: str, help: str, **more: Any) -> Argument:
    """Describe an option without a value; options with the same `group` exclude each other."""
    return names, {"action": "store_true", "help": help, **more}


def fixed(**values: object) -> Argument:
    """Describe options that a command does not have, with the values its code expects."""
    return "", values


FIVE = "ai-session, praxis, craft, essay or orchestrator"
KEY = arg("--key", "KEY", "record this only once: the same key again changes nothing")


class _NoColors:
    def __getattr__(self, part: str) -> str:
        return ""


class _Formatter(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog: str) -> None:
        # With a fixed width argparse does not load shutil for every argument.
        super().__init__(prog, max_help_position=30, width=80)

    def _set_color(self, _color: bool) -> None:
        """Use no colors: `Screen` adds them, and argparse of Python 3.14 would load inspect."""
        self._theme, self._decolor = _NoColors(), str

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return `-o, --output OUT`; argparse before Python 3.13 would repeat the value's name."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """Parse arguments; raise InvalidInput instead of exiting, and accept no abbreviated options."""

    def __init__(
        self, prog: str, description: str = "", *, shared: str = "hidden", **more: Any
    ) -> None:
        super().__init__(
            prog=prog,
            description=description,
            add_help=False,
            allow_abbrev=False,
            formatter_class=_Formatter,
            **more,
        )
        self._positionals.title = "arguments"
        if shared:
            self._add_shared(hidden=shared == "hidden")

    def _add_shared(self, *, hidden: bool) -> None:
        def help(text: str) -> str:
            return argparse.SUPPRESS if hidden else text

        for name, (value, text) in WITH_VALUE.items():
            self.add_argument(name, metavar=value, default=None, help=help(text))
        for name, text in FLAGS.items():
            names = [SHORT[name], name] if name in SHORT else [name]
            self.add_argument(*names, action="store_true", help=help(text))

    def join_values(self, argv: list[str]) -> list[str]:
        """Join options and values: `--because -x` becomes `--because=-x` if `-x` is no option."""
        known = self._option_string_actions
        words: list[str] = []
        left = iter(argv)
        for word in left:
            words.append(word)
            if word == "--":
                return [*words, *left]
            if word in known and known[word].nargs is None:
                words += self._value(words.pop(), next(left, None))
        return words

    def _value(self, option: str, value: str | None) -> list[str]:
        if value is None:
            return [option]
        is_option = value.partition("=")[0] in self._option_string_actions
        # The arguments of a recorded command usually look like options.
        if value.startswith("-") and (option == "--arguments" or not is_option):
            return [f"{option}={value}"]
        return [option, value]

    def _get_values(self, action: argparse.Action, words: list[str]) -> Any:
        """Refuse an empty argument or id: it would silently select the default."""
        is_optional = action.nargs == "?" and not action.option_strings
        if words == [""] and (is_optional or "--id" in action.option_strings):
            name = next(iter(action.option_strings), action.metavar)
            raise InvalidInput(f"{name} is empty", why="perhaps a shell variable is empty")
        return super()._get_values(action, words)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        name = next(iter(action.option_strings), str(action.metavar))
        why = f"it is one of {', '.join(map(str, action.choices))}"
        raise InvalidInput(f"{name} cannot be {value}", why=why, hint=self._see)

    def error(self, message: str) -> NoReturn:
        kind, _, words = message.partition(": ")
        if kind == "unrecognized arguments":
            raise self._unexpected_word((words.split() or ["''"])[0])
        if kind == "the following arguments are required":
            message = (
                f"{' and '.join(words.split(', '))} {'are' if ', ' in words else 'is'} missing"
            )
        if words == "expected one argument":
            message = f"{kind} needs a value"
        raise InvalidInput(message.removeprefix("argument "), hint=self._see)

    @property
    def _see(self) -> str:
        return f"see: {self.prog} --help"

    def _unexpected_word(self, word: str) -> InvalidInput:
        """Return the error for an unexpected word, with a hint how to write it."""
        if not word.startswith("-"):
            return InvalidInput(
                f"unexpected argument: {word}", hint=self._suggest_spelling(word) or self._see
            )
        import difflib

        near = difflib.get_close_matches(word, self._option_string_actions, 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else self._see
        return InvalidInput(f"there is no option {word}", hint=hint)

    def _suggest_spelling(self, word: str) -> str:
        metavars = [action.metavar for action in self._get_positional_actions()]
        if TEXTS.intersection(map(str, metavars)):
            return f'put words that belong together in quotes: {self.prog} "…"'
        if "FILE|DIR" in metavars:
            return f"name one file, or the folder that contains them: {self.prog} ."
        number = word.removeprefix("#")
        known = [one for one in ("--at", "-n") if one in self._option_string_actions]
        if known and number.isdigit():
            return f"did you mean: {self.prog} {known[0]} {number}?"
        if metavars or self.prog.split()[-1] in _WITHOUT_SESSION:
            return ""
        return f"if that is a session: {self.prog} --session {word}"


def build(name: str, help: str, command: Command, *, shared: str = "hidden") -> Parser:
    """Return the parser of one command; the shared options are `hidden` or `shown` in its help."""
    examples = "\n".join(f"  {line}" for line in command.examples)
    parser = Parser(
        f"forestay {name}".rstrip(),
        f"{help[:1].upper()}{help[1:]}. {command.about}".rstrip(),
        shared=shared,
        epilog=f"examples:\n{examples}\n\n{_SHARED}",
    )
    groups: dict[str, Any] = {"": parser}
    for names, values in command.all_arguments():
        if not names:
            parser.set_defaults(**values)
            continue
        group = values.get("group", "")
        if group not in groups:
            groups[group] = parser.add_mutually_exclusive_group()
        given = {name: value for name, value in values.items() if name != "group"}
        groups[group].add_argument(*names.split(), **given)
    return parser


# -- values ------------------------------------------------------------------------------------


def count(text: str) -> int:
    """Parse a whole number from 0 up."""
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return int(text)


def fraction(text: str) -> float:
    """Parse a fraction from 0 to 1, written as 0.6 or 60%."""
    body = text.removesuffix("%")
    try:
        value = float(body) / (100 if body != text else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:  # also refuses nan
        raise argparse.ArgumentTypeError(f"{text!r} is not a fraction, such as 0.6 or 60%")
    return value


def score(text: str) -> float | None:
    """Parse a voice score; `skip` is None, a check that was skipped."""
    if text == "skip":
        return None
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 5") from None


def read_text(text: str, screen: Screen) -> str:
    """Return the text of an argument; `-` reads it from standard input."""
    if text != "-":
        return text
    stream = getattr(screen.source, "buffer", None)
    data = stream.read(_MOST) if stream else screen.source.read(_MOST)
    if isinstance(data, str):
        return data
    try:
        return bytes(data).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(
            "standard input is not UTF-8", why=f"byte {error.start}", hint="convert it with iconv"
        ) from None


_MOST = 16 * 1024 * 1024
