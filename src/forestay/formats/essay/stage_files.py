"""The files next to an essay's session file: their names, versions and contents.

The results of the stages are Markdown with known headings, written for people; a second copy of
each stage's facts can be read from them when the session file is lost:

    thesis       `## Thesis Statement`, `## Claim Type`
    outline      `- **Sections**: N`, `### Section n: Title (~N words)`
    arguments    one `**Verified**: YES | NO | PARTIAL | DEFERRED | COMMON_KNOWLEDGE` per point
    draft        `## Title` per section, blank lines between paragraphs, `---` after a section

All but the draft end with `## Approved By User` once the user approved them. Only the first `MOST`
bytes of a file, `LONGEST` characters of a line and `MOST_SECTIONS` sections are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from forestay.formats import timestamps
from forestay.formats.essay.fields import ARGUMENTS, AUDIENCES, CLAIM_TYPES, STAGE_FILES

MOST = 1024 * 1024
LONGEST = 4000
MOST_SECTIONS = 999
PREFIX = "essay-pipeline-"

_FOLDER = re.compile(re.escape(PREFIX) + r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)", re.ASCII)
_ARGUMENTS = re.compile(re.escape(ARGUMENTS).replace(r"\{\}", "([1-9][0-9]{0,2})"), re.ASCII)
_VERSION = re.compile(r"(.+)\.v([1-9][0-9]{0,8})(\.[^./]+)", re.ASCII)


# -- names ---------------------------------------------------------------------------------------


def section_in(name: str) -> int | None:
    """Return the section whose arguments a file contains, or None."""
    match = _ARGUMENTS.fullmatch(name)
    return int(match[1]) if match else None


def is_current(name: str) -> bool:
    """Return whether a file is one of the pipeline's, and not an archived version."""
    return name in STAGE_FILES[:3] + STAGE_FILES[4:] or section_in(name) is not None


def is_version(name: str) -> bool:
    return _VERSION.fullmatch(name) is not None


def current(names: Iterable[str]) -> list[str]:
    return sorted((name for name in names if is_current(name)), key=_order)


def _order(name: str) -> tuple[str, int, str]:
    return (name[:8] if name.startswith("stage-") else "~", section_in(name) or 0, name)


def version_name(name: str, names: Iterable[str]) -> str:
    """Return the next archive name of a file: `stage-1-thesis.md` → `stage-1-thesis.v1.md`."""
    taken = [number for other in names if (number := _number(other, name)) is not None]
    stem, dot, extension = name.rpartition(".")
    number = max(taken, default=0) + 1
    return f"{stem}.v{number}.{extension}" if dot and stem else f"{name}.v{number}"


def _number(archived: str, name: str) -> int | None:
    match = _VERSION.fullmatch(archived)
    return int(match[2]) if match and match[1] + match[3] == name else None


def folder_name(moment: int, naive: str = "local") -> str:
    """Return the name of a session's folder: `essay-pipeline-20260214-143022`."""
    stamp = timestamps.write(moment, "2000-01-01T00:00:00", naive=naive)
    day, _, time = re.sub("[-:]", "", stamp).partition("T")
    return f"{PREFIX}{day}-{time}"


def folder_moment(name: str, naive: str = "local") -> int | None:
    """Return when a folder of that name was created; None for other names."""
    match = _FOLDER.fullmatch(name)
    if match is None:
        return None
    year, month, day, hour, minute, second = match.groups()
    return timestamps.read(f"{year}-{month}-{day}T{hour}:{minute}:{second}", naive)


# -- contents ------------------------------------------------------------------------------------


class Approval(Struct):
    given: bool = False
    at: int | None = None


class Thesis(Struct):
    approval: Approval
    statement: str = ""
    claim_type: str | None = None


class Outline(Struct):
    approval: Approval
    total: int | None = None
    titles: dict[int, str] = {}
    words: int | None = None
    audience: str | None = None


class Arguments(Struct):
    approval: Approval
    verified: int = 0
    deferred: int = 0


class Drafted(Struct):
    """A section of the draft; it is closed when a line `---` or another section follows."""

    title: str = ""
    paragraphs: int = 0
    closed: bool = False


_SECTIONS = re.compile(r"[-*] \*\*Sections\*\*: *\[?(\d{1,3})\b")
_LENGTH = re.compile(r"[-*] \*\*Target (?:length|word count)\*\*: *\[?~?([\d,]{1,9})\b")
_AUDIENCE = re.compile(r"[-*] \*\*Audience\*\*: *\[?([A-Za-z-]{1,20})\b")
_SECTION = re.compile(r"### Section (\d{1,3}):")
_WORDS = re.compile(r"\(~\[?([\d,]{1,9})\]? words\)\Z")
_VERIFIED = re.compile(r"(?:[-*] )?\*\*Verified\*\*: *\[?([A-Z_]+)")
_MARKS = re.compile(r"`{3,}|~{3,}")
_BREAK = re.compile(r"([-*_])(?: *\1){2,}")
_NUMBERED = re.compile(r"Section (\d{1,3})\b(?:: *)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?")


def thesis(data: bytes, naive: str = "local") -> Thesis:
    lines = _lines(data)
    kind = _below(lines, "## Claim Type").strip("[] .").lower()
    return Thesis(
        approval=_approval(lines, naive),
        statement=_below(lines, "## Thesis Statement"),
        claim_type=kind if kind in CLAIM_TYPES else None,
    )


def outline(data: bytes, naive: str = "local") -> Outline:
    lines = _lines(data)
    made = Outline(_approval(lines, naive))
    targets = 0
    for line in lines:
        if match := _SECTION.match(line):
            words = _WORDS.search(line)
            title = line[match.end() : words.start() if words else None].strip()
            made.titles.setdefault(int(match[1]), title)
            targets += _int(words[1]) if words else 0
        elif match := _SECTIONS.match(line):
            made.total = made.total or int(match[1])
        elif match := _LENGTH.match(line):
            made.words = made.words or _int(match[1])
        elif (match := _AUDIENCE.match(line)) and match[1].lower() in AUDIENCES:
            made.audience = match[1].lower()
    made.total = made.total or max(made.titles, default=None)
    made.words = made.words or targets or None
    return made


def arguments(data: bytes, naive: str = "local") -> Arguments:
    lines = _lines(data)
    words = [match[1] for line in lines if (match := _VERIFIED.match(line))]
    return Arguments(_approval(lines, naive), words.count("YES"), words.count("DEFERRED"))


def draft(data: bytes) -> list[Drafted]:
    """Return the sections of a draft, in order, with their paragraphs counted."""
    found = [Drafted()]
    within, fence = False, ""
    for line in _lines(data):
        opened, fence = bool(fence), _fence(line, fence)
        is_text = opened or bool(fence)
        if not is_text and (line.startswith("## ") or _BREAK.fullmatch(line)):
            _close(found)
            found[-1].title = line[3:].strip() if line.startswith("#") else ""
            within = False
        elif not is_text and (not line or line.startswith("#")):
            within = False
        elif not within:
            found[-1].paragraphs += 1
            within = True
    return [section for section in found if section.title or section.paragraphs][:MOST_SECTIONS]


def _fence(line: str, fence: str) -> str:
    """Return the fence that is open after a line, or nothing; only the same fence closes it."""
    marks = match[0] if (match := _MARKS.match(line)) else ""
    if not fence:
        return marks
    return "" if marks.startswith(fence) and marks == line else fence


def _close(found: list[Drafted]) -> None:
    if found[-1].title or found[-1].paragraphs:
        found[-1].closed = True
        found.append(Drafted())


def words(data: bytes) -> int:
    """Return the number of words in a text, without its markup."""
    found = data.decode("utf-8", "replace").split()
    return sum(any(map(str.isalnum, word)) for word in found)


def place_in(outline: Outline, title: str) -> int | None:
    """Return the section of the outline that a heading of the draft names, or None."""
    if match := _NUMBERED.match(title):
        return int(match[1]) or None
    wanted = title.strip("[] ").casefold()
    return next((n for n, known in outline.titles.items() if known.casefold() == wanted), None)


def _lines(data: bytes) -> list[str]:
    text = data[:MOST].decode("utf-8-sig", "replace")
    return [line[:LONGEST].strip() for line in text.split("\n")]


def _below(lines: list[str], heading: str) -> str:
    """Return the first paragraph below a heading."""
    if heading not in lines:
        return ""
    taken: list[str] = []
    for line in lines[lines.index(heading) + 1 :]:
        if line.startswith("#") or (taken and not line):
            break
        taken += [line] if line else []
    return " ".join(taken)


_NOT_YET = ("no", "not", "pending", "tbd", "[")


def _approval(lines: list[str], naive: str) -> Approval:
    heading = "## Approved By User"
    said = _below(lines, heading)
    first = next(iter(said.lower().replace(",", " ").split()), "")
    date = _DATE.search(said)
    given = heading in lines and not first.startswith("[") and first not in _NOT_YET
    return Approval(given, timestamps.read(date[0], naive) if given and date else None)


def _int(digits: str) -> int:
    return int(digits.replace(",", "") or 0)
