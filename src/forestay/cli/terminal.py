"""The only way out: lines, tables and JSON on the streams of one command.

People get lines. A line is made of *parts*: a text, or a text with a style. Each part goes
through `text.terminal` before it is painted, so nothing that was recorded can move a cursor or
change a colour; styles become color on a terminal and vanish elsewhere. On a terminal lines are
broken between words and tables fit its width; in a pipe lines, and the last column, are left whole.

Programs get JSON: one object on one line, in UTF-8 whatever the locale, with every character
that a terminal might obey escaped.
"""

from __future__ import annotations

import os
import sys

from forestay.base.text import fit, terminal, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, TextIO

    from forestay.base.config import Settings

    Part = str | tuple[str, str]

VERSION = 1
"""Of the JSON contract: the value of "forestay" in every object."""

_STYLES = {
    "bold": "1",
    "dim": "2",
    "strike": "2;9",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "title": "1",
}
SEVERITIES = {"error": "red", "warning": "yellow", "info": "dim"}
"""Worst first, with the style of each."""
_LAST = 16
"""What a column that is cut keeps at least."""
_PLAIN = str.maketrans({"…": "...", "–": "-", "→": "->", "·": "-", "█": "#"})
_ONE = str.maketrans(dict.fromkeys("…–→·", "x"))
"""Our own signs beyond ASCII: how an old terminal gets them, and that each is one column."""


class Unwritable(OSError):
    """The answer cannot be written: a full disk, say. Who stops reading is a broken pipe."""


class Screen:
    """Where the answer of one command goes."""

    def __init__(self, out: TextIO | None, err: TextIO | None, source: TextIO | None) -> None:
        self.out = out or sys.stdout
        self.err = err or sys.stderr
        self.source = source or sys.stdin
        self.command = ""
        self.json = False
        self.quiet = False
        self.colorless = False
        self.settled = False
        self.patterns: Sequence[str] = ()
        """Of secrets, besides those that everyone knows: errors repeat what was typed."""
        self.given: dict[str, str] = {}
        """Shared options with a value that were typed, which suggested lines repeat."""
        self.chosen = ""
        """The session that a command named by itself, and made the current one if all went well."""
        self._color = "auto"
        self._pager = ""
        self._kept: list[str] | None = None
        self._aside: list[tuple[Part, ...]] = []
        self._is_within_line = False
        self._is_progressing = False

    def settle(self, settings: Settings) -> None:
        """Take over what the settings say about color and the pager."""
        self.settled = True
        self.patterns = settings.redact_patterns
        self._color = settings.color
        self._pager = settings.pager

    @property
    def is_terminal(self) -> bool:
        return _is_terminal(self.out)

    @property
    def columns(self) -> int:
        """The width of the terminal; 0 where there is none and lines may be of any length."""
        return self._size()[0] if self.is_terminal else 0

    @property
    def beside(self) -> int:
        """The width of what errors are shown on; 0 where that is no terminal."""
        return self._size()[0] if _is_terminal(self.err) else 0

    def _size(self) -> tuple[int, int]:
        try:
            columns, lines = os.get_terminal_size(self.out.fileno())
        except (OSError, ValueError):
            columns, lines = 80, 24
        return max(columns or 80, 40), lines or 24

    # -- for people ----------------------------------------------------------------------------

    def line(self, *parts: Part) -> None:
        """One line, broken between words where it does not fit. Nothing in a JSON answer."""
        if not self.json:
            for line in _broken(parts, self.columns):
                self._write("".join(self._painted(part, self.out) for part in line) + "\n")

    def done(self, *parts: Part) -> None:
        """A line that only confirms; not shown with --quiet."""
        if not self.quiet:
            self.line(*parts)

    def hint(self, lead: str, line: str) -> None:
        """What one might type next. Only on a terminal: a program pays for every word."""
        if line and self.is_terminal:
            first, *others = self.as_typed(line).split(" · ")
            more = [part for way in others for part in ((" · ", "dim"), (way, "cyan"))]
            self.done(("  " + lead, "dim"), (first, "cyan"), *more)

    def offer(self, lead: str, line: str) -> None:
        """A line to type that belongs to the answer, in a pipe too; words may stand before it."""
        words, name, command = self.as_typed(line).partition("forestay ")
        self.line(lead, words, (name + command, "cyan"))

    def as_typed(self, line: str) -> str:
        """A line to type next, with the options that were typed this time."""
        if not self.given:
            return line
        from forestay.cli.suggestions import as_typed

        return as_typed(line, self.given)

    def block(self, text: str) -> None:
        """Text of several lines."""
        if not self.json:
            lines = text.rstrip("\n").split("\n")
            self._write("".join(f"{_text_of(line)}\n" for line in lines))

    def wrapped(self, text: str, indent: str = "  ") -> list[str]:
        """A line as lines that fit the terminal, broken between words; whole in a pipe."""
        return self._wrapped(text, self.columns, indent)

    def prose(self, lead: Part, text: str, style: str = "") -> None:
        """Words beside a lead; those that do not fit the terminal go on below its end."""
        beside = _width(_text_of(lead))
        for line in self._wrapped(_text_of(text), self.columns - beside):
            self.line(lead, (line, style))
            lead = " " * beside

    def _wrapped(self, text: str, columns: int, indent: str = "") -> list[str]:
        if columns <= 0 or _width(text) <= columns:
            return [text]
        import textwrap

        return textwrap.wrap(
            text, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )

    def aside(self, *parts: Part) -> None:
        """A line beside the answer, on the error stream; the same one once."""
        if not (self.quiet or self.json) and parts not in self._aside:
            self._aside.append(parts)
            for line in _broken(parts, self.beside):
                self.complain(*line)

    def notice(self, line: str) -> None:
        """What the engine has to say besides, with what one might type as it is from here."""
        from forestay.cli.suggestions import shorten_paths

        self.aside(self.as_typed(shorten_paths(line)))

    def complain(self, *parts: Part) -> None:
        """A line on the error stream that is always shown."""
        self.flush()
        _put(self.err, "".join(self._painted(part, self.err) for part in parts) + "\n")

    def explain(self, lead: Part, text: str, style: str = "") -> None:
        """Prose on the error stream, broken between words where it does not fit a terminal."""
        for line in self._wrapped(_text_of(text), self.beside - _width(_text_of(lead))):
            for parts in _broken((lead, (line, style)), self.beside):
                self.complain(*parts)
            lead = "  "

    def advise(self, text: str) -> None:
        """What one might type, on the error stream; several ways below each other, if need be.

        A line to type is never broken: a terminal does that so that it can still be copied.
        """
        typed = self.as_typed(text)
        fits = not self.beside or _width(typed) + 4 <= self.beside
        for way in [typed] if fits else typed.replace(" · ", "; ").split("; "):
            self.complain("  → ", way)

    def end_line(self) -> None:
        """After Ctrl-C on a terminal, the next prompt gets a line of its own."""
        if _is_terminal(self.err):
            _put(self.err, "\r\x1b[K" if self._is_progressing else "\n")

    def pass_through(self, data: bytes) -> bool:
        """Pass on what another program prints, as it is; False once nobody reads it.

        With --json it goes to the error stream, so that the answer stays one object.
        """
        stream = self.err if self.json else self.out
        self._is_within_line = not (self.json or data.endswith(b"\n"))
        try:
            buffer = getattr(stream, "buffer", None)
            stream.flush()
            if buffer is None:
                stream.write(data.decode("utf-8", "replace"))
            else:
                buffer.write(data)
                buffer.flush()
        except (OSError, ValueError):
            return False
        return True

    def progress(self, text: str = "") -> None:
        """How far long work has come, on a line that the next one replaces; empty clears it."""
        if _is_terminal(self.err) and not (self.quiet or self.json):
            self._is_progressing = bool(text)
            shown = fit(_text_of(text), self._size()[0] - 1) if text else ""
            _put(self.err, f"\r\x1b[K{shown}\r")
            self.err.flush()

    def table(
        self,
        rows: Sequence[Sequence[Part]],
        *,
        indent: int = 0,
        right: str = "",
        whole: bool = False,
    ) -> None:
        """Aligned columns that fit the terminal, unless they are to be shown `whole`.

        `right` holds the numbers of columns that end at the same place.
        """
        if not rows or self.json:
            return
        cells = [[(_text_of(part), _style_of(part)) for part in row] for row in rows]
        widths = [max(_width(row[i][0]) for row in cells) for i in range(len(cells[0]))]
        if self.columns and not whole:
            _narrow(widths, self.columns - indent - 2 * (len(widths) - 1))
        paints = self._paints(self.out)
        for row in cells:
            line = "  ".join(_aligned(row, widths, right, paints=paints))
            self._write(" " * indent + line + "\n")

    def listing(
        self, head: str, rows: Sequence[Sequence[Part]], empty: str = "", **more: Any
    ) -> None:
        """Print a table with the words of `head` above its columns, or the line `empty`.

        A dash in `head` stands for a column without a name.
        """
        self.long()
        if rows:
            titles = [
                ("" if word == "-" else word.replace("_", " "), "dim") for word in head.split()
            ]
            self.table([titles, *rows], **more)
        elif empty:
            self.offer("", empty)

    def fields(self, pairs: Iterable[tuple[str, Part]]) -> None:
        """Names and values below each other, whole on a terminal too; empty ones are left out."""
        told = [(name, value) for name, value in pairs if _text_of(value)]
        room = self.columns - 4 - max((_width(name) for name, _ in told), default=0)
        rows = []
        for name, value in told:
            lines = self._wrapped(_text_of(value), room) if room >= _LAST else [_text_of(value)]
            names = [name, *[""] * (len(lines) - 1)]
            rows += [
                ((n, "dim"), (line, _style_of(value))) for n, line in zip(names, lines, strict=True)
            ]
        # What cannot be broken, such as a key, is for copying: a cut one is of no use.
        self.table(rows, indent=2, whole=True)

    def _painted(self, part: Part, stream: TextIO) -> str:
        text = _text_of(part)
        return _paint(text, _style_of(part)) if self._paints(stream) else text

    def _paints(self, stream: TextIO) -> bool:
        wanted = _is_terminal(stream) if self._color == "auto" else self._color == "always"
        return wanted and not self.colorless

    @property
    def shows_strike(self) -> bool:
        """Whether struck-out text can be seen as such."""
        return self._paints(self.out)

    # -- questions -----------------------------------------------------------------------------

    @property
    def can_ask(self) -> bool:
        """Whether someone sits there who sees a question and can type an answer."""
        return not self.json and self.is_terminal and self.source.isatty()

    def confirms(self, when: str) -> bool:
        """Whether someone types yes; `when` says what that means."""
        self.flush()
        self.out.write(f"Type yes {when}: ")
        self.out.flush()
        return self.source.readline().strip().lower() == "yes"

    # -- for programs --------------------------------------------------------------------------

    def answer(self, values: dict[str, Any]) -> None:
        """The answer as one JSON object, if JSON was asked for."""
        if self.json:
            self.object({"forestay": VERSION, **values})

    def object(self, values: object) -> None:
        """One JSON value on one line."""
        line = json_text(values) + "\n"
        encoding = (getattr(self.out, "encoding", None) or "utf-8").lower()
        if encoding in ("utf-8", "utf8") or not hasattr(self.out, "buffer"):
            _put(self.out, line)
            return
        self.flush()
        self.out.buffer.write(line.encode())

    # -- long answers --------------------------------------------------------------------------

    def long(self) -> None:
        """From here on the answer may be long: it goes to the pager if there is one."""
        if self._pager and self.is_terminal and not self.json:
            self._kept = []

    def finish(self) -> None:
        """Show what was kept for the pager; through it when it does not fit the terminal."""
        kept, self._kept = self._kept, None
        if not kept:
            return
        text = "".join(kept)
        if text.count("\n") < self._size()[1] or not _page(self._pager, text):
            _put(self.out, text)

    def flush(self) -> None:
        """See to it that everything said so far is out."""
        self.finish()
        try:
            self.out.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Unwritable(error.strerror or type(error).__name__) from error

    def _write(self, text: str) -> None:
        if self._is_within_line:
            text, self._is_within_line = f"\n{text}", False
        if self._kept is None:
            _put(self.out, text)
        else:
            self._kept.append(text)


def json_text(values: object) -> str:
    """JSON on one line that is valid UTF-8 and that no terminal obeys."""
    import json

    text = json.dumps(values, ensure_ascii=False)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def pick(thing: object, *names: str) -> dict[str, Any]:
    """Return attributes of an object as JSON values.

    `names` hold one or more names, separated by blanks. One that ends in `?` is None where the
    attribute is empty; `key=attribute` gives it another name.
    """
    found = {}
    for word in " ".join(names).split():
        key, _, attribute = word.rstrip("?").partition("=")
        value = getattr(thing, attribute or key)
        found[key] = value or None if word.endswith("?") else value
    return found


def format_size(count: float) -> str:
    """Return a number of bytes in a unit that fits."""
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _escaped(sign: str) -> str:
    if "\ud800" <= sign <= "\udfff":
        return "\ufffd"  # half a character: there is no JSON for it that all readers take
    data = sign.encode("utf-16-be")
    return "".join(f"\\u{data[i] << 8 | data[i + 1]:04x}" for i in range(0, len(data), 2))


def _broken(parts: Sequence[Part], columns: int) -> Iterable[Sequence[Part]]:
    """The parts of a line, by the lines they make where only so many columns are.

    A long path gets a line of its own, less indented if need be. A word that fits no line stays
    where it is: the terminal breaks it, and it can still be copied.
    """
    if not columns or sum(_width(_text_of(part)) for part in parts) <= columns:
        return [parts]
    lines: list[list[tuple[str, str]]] = [[]]
    indent = used = 0
    for gap, word in _words(parts):
        long = sum(_width(text) for text, _ in word)
        if not used:
            indent = gap + 2
        elif used + gap + long > columns >= long:
            lines.append([])
            gap, used = indent, 0
        if not used and long <= columns:
            gap = min(gap, columns - long)
        _join(lines[-1], " " * gap, word)
        used += gap + long
    return lines


def _join(line: list[tuple[str, str]], gap: str, word: list[tuple[str, str]]) -> None:
    for text, style in word:
        if line and line[-1][1] == style:
            line[-1] = (line[-1][0] + gap + text, style)
        else:
            line += [(gap, ""), (text, style)] if gap else [(text, style)]
        gap = ""


def _words(parts: Sequence[Part]) -> Iterator[tuple[int, list[tuple[str, str]]]]:
    """What must stay together, and how many blanks are before it; a command to type is one word."""
    gap = 0
    word: list[tuple[str, str]] = []
    for part in parts:
        for i, one in enumerate(_split(_text_of(part), _style_of(part))):
            if i and word:
                yield gap, word
                gap, word = 0, []
            gap += min(i, 1)
            word += [(one, _style_of(part))] if one else []
    if word:
        yield gap, word


def _split(text: str, style: str) -> list[str]:
    bare = text.strip(" ")
    if not (bare and (style == "cyan" or bare.startswith("forestay "))):
        return text.split(" ")
    before, _, after = text.partition(bare)
    return [""] * len(before) + [bare] + [""] * len(after)


def _text_of(part: Part) -> str:
    """A part's text, without anything a terminal obeys.

    What is beyond doubt is not looked at closely: compiling the patterns that recognise the
    rest takes longer than printing a table.
    """
    text = part if isinstance(part, str) else part[0]
    plain = text if text.isascii() else text.translate(_ONE)
    return text if plain.isascii() and plain.isprintable() else terminal(text)


def _style_of(part: Part) -> str:
    return "" if isinstance(part, str) else part[1]


def _paint(text: str, style: str) -> str:
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if style and text.strip() else text


def _aligned(
    row: Sequence[tuple[str, str]], widths: Sequence[int], right: str, *, paints: bool
) -> Iterator[str]:
    last = max((i for i, (text, _) in enumerate(row) if text), default=0)
    for i, (text, style) in enumerate(row[: last + 1]):
        text = _fitted(text, widths[i], right=str(i) in right)
        text = text.rstrip() if i == last else text
        yield _paint(text, style) if paints else text


def _narrow(widths: list[int], room: int) -> None:
    """Make columns fit: the last one gives way, then the widest of the others."""
    *others, last = widths
    widths[-1] = min(last, max(room - sum(others), _LAST))
    over = sum(widths) - room
    if over > 0 and others:
        widest = others.index(max(others))
        widths[widest] = max(widths[widest] - over, min(widths[widest], _LAST))


def _width(text: str) -> int:
    plain = text if text.isascii() else text.translate(_ONE)
    return len(plain) if plain.isascii() else width(text)


def _fitted(text: str, columns: int, *, right: bool) -> str:
    room = columns - _width(text)
    if room < 0:
        return fit(text, columns)
    return " " * room + text if right else text + " " * room


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # it was closed
        return False


def _put(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except UnicodeEncodeError as error:
        # A terminal of another age: our own signs have plain forms, the rest is escaped.
        data = text.translate(_PLAIN).encode(error.encoding, "backslashreplace")
        stream.write(data.decode(error.encoding))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Unwritable(error.strerror or type(error).__name__) from error


def _page(pager: str, text: str) -> bool:
    """Show the text in the pager; False when it cannot be started."""
    import signal
    import subprocess

    # As in git: a pager that is told nothing leaves short output alone and keeps colors.
    command = f"LESS=${{LESS-FRX}}; export LESS; {pager}"
    # Ctrl-C is for the pager, which has uses for it; a handler, unlike SIG_IGN, is not inherited.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        done = subprocess.run(["/bin/sh", "-c", command], input=text.encode("utf-8", "replace"))
    except OSError:
        return False
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode not in (126, 127)
