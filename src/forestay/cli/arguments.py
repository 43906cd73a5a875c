"""What commands take: the parser they share, the options all of them have, and kinds of values."""

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
"""Placeholders of free text: a value of - reads it from standard input."""
_OF_NO_SESSION = frozenset({"forestay", "list", "doctor", "init"})
_SHARED = "Options that all commands have, and exit codes: forestay --help"


class Command:
    """One command: the function that runs it, its arguments, and lines that show its use.

    `parts` are arguments (from `arg`, `flag` and `fixed`) and examples (strings). `about` is a
    second sentence for its help page. `careful` decides from the options whether the command must
    run even when the config file has a bad value, because it is the command that repairs it.
    """

    __slots__ = ("about", "arguments", "careful", "examples", "run")

    def __init__(
        self,
        run: Run,
        *parts: Argument | str,
        about: str = "",
        careful: Callable[[Namespace], bool] | None = None,
    ) -> None:
        self.run, self.about, self.careful = run, about, careful
        self.arguments = [part for part in parts if not isinstance(part, str)]
        self.examples = [part for part in parts if isinstance(part, str)]

    def all_arguments(self) -> list[Argument]:
        """Return the arguments for the parser."""
        return self.arguments


def arg(names: str, metavar: str, help: str, *, many: bool = False, **more: Any) -> Argument:
    """Describe an argument with a value; names that begin with a dash make it an option.

    The name of a positional argument may end in `?`, `*` or `+` (how often it occurs). An option
    with `many` may be repeated. What is not given is "", or None where a `type` is named.
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
        # A fixed width: without one, argparse loads shutil for every argument it is given.
        super().__init__(prog, max_help_position=30, width=80)

    def _set_color(self, _color: bool) -> None:
        """From Python 3.14 on argparse asks for its colors, and loads inspect for having none.

        Colours are the screen's business.
        """
        self._theme, self._decolor = _NoColors(), str

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """`-o, --output OUT` with every Python; before 3.13 argparse names the value twice."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """argparse that raises our error instead of leaving, and never guesses an option."""

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

    def joined(self, argv: list[str]) -> list[str]:
        """`--because -x` as `--because=-x`, where the value cannot be meant as an option."""
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
        # What a command was given looks like options more often than not.
        if value.startswith("-") and (option == "--arguments" or not is_option):
            return [f"{option}={value}"]
        return [option, value]

    def _get_values(self, action: argparse.Action, words: list[str]) -> Any:
        """Refuse an empty argument or id: it would silently mean the default."""
        is_optional = action.nargs == "?" and not action.option_strings
        if words == [""] and (is_optional or "--id" in action.option_strings):
            name = next(iter(action.option_strings), action.metavar)
            raise InvalidInput(f"{name} is empty", why="an empty variable, perhaps")
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
            raise self._stray((words.split() or ["''"])[0])
        if kind == "the following arguments are required":
            message = (
                f"{' and '.join(words.split(', '))} {'are' if ', ' in words else 'is'} missing"
            )
        if words == "expected one argument":
            message = f"{kind} is given without a value"
        raise InvalidInput(message.removeprefix("argument "), hint=self._see)

    @property
    def _see(self) -> str:
        return f"see: {self.prog} --help"

    def _stray(self, word: str) -> InvalidInput:
        """A word too many, with the spelling that was probably meant."""
        if not word.startswith("-"):
            return InvalidInput(f"unexpected: {word}", hint=self._respelled(word) or self._see)
        import difflib

        near = difflib.get_close_matches(word, self._option_string_actions, 1, 0.6)
        hint = f"did you mean {near[0]}?" if near else self._see
        return InvalidInput(f"there is no option {word}", hint=hint)

    def _respelled(self, word: str) -> str:
        taken = [action.metavar for action in self._get_positional_actions()]
        if TEXTS.intersection(map(str, taken)):
            return f'put words that belong together in quotes: {self.prog} "…"'
        if "FILE|DIR" in taken:
            return f"one at a time, or the folder that they are in: {self.prog} ."
        number = word.removeprefix("#")
        known = [one for one in ("--at", "-n") if one in self._option_string_actions]
        if known and number.isdigit():
            return f"did you mean: {self.prog} {known[0]} {number}?"
        if taken or self.prog.split()[-1] in _OF_NO_SESSION:
            return ""
        return f"if that is a session: {self.prog} --session {word}"


def build(name: str, help: str, command: Command, *, shared: str = "hidden") -> Parser:
    """The parser of one command; the options all commands have are `hidden` or `shown`."""
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
    """A whole number, not negative."""
    if not (text.isascii() and text.isdigit() and len(text) <= 16):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 up")
    return int(text)


def fraction(text: str) -> float:
    """A part of the whole: 0.6 or 60%."""
    body = text.removesuffix("%")
    try:
        value = float(body) / (100 if body != text else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:  # also refuses nan
        raise argparse.ArgumentTypeError(f"{text!r} is not a part from 0 to 1, such as 0.6 or 60%")
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
