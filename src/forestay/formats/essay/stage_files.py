"""The files next to an essay's session file: names, versions, contents, and the impact of changes.

Each stage writes a Markdown file with fixed headings. If the session file is lost, each stage's
facts can be read from these headings:

    thesis       `## Thesis Statement`, `## Claim Type`
    outline      `- **Sections**: N`, `### Section n: Title (~N words)`
    arguments    one `**Verified**: YES | NO | PARTIAL | DEFERRED | COMMON_KNOWLEDGE` per point
    draft        `## Title` per section, blank lines between paragraphs, `---` after a section

All but the draft end with `## Approved By User` once the user approved them. Only the first `MOST`
bytes of a file, `LONGEST` characters of a line and `MOST_SECTIONS` sections are read.

`assess_change` rates a change to such a file: an impact, a reason, and the sections concerned. It
follows the examples of the specification: another claim type has a major impact on the whole essay,
while a change in one section concerns only that section.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from forestay.formats import timestamps
from forestay.formats.essay.fields import (
    ARGUMENTS,
    AUDIENCES,
    CLAIM_TYPES,
    DRAFT,
    DRAFT_LOG,
    OUTLINE,
    STAGE_FILES,
    THESIS,
    THESIS_LOG,
)

MOST = 1024 * 1024
LONGEST = 4000
MOST_SECTIONS = 999
PREFIX = "essay-pipeline-"

_FOLDER = re.compile(re.escape(PREFIX) + r"(\d{4})(\d\d)(\d\d)-(\d\d)(\d\d)(\d\d)", re.ASCII)
_ARGUMENTS = re.compile(re.escape(ARGUMENTS).replace(r"\{\}", "([1-9][0-9]{0,2})"), re.ASCII)
_VERSION = re.compile(r"(.+)\.v([1-9][0-9]{0,8})(\.[^./]+)", re.ASCII)


# -- names ---------------------------------------------------------------------------------------


def section_in(name: str) -> int | None:
    """Return the number of the section that an arguments file (stage 3) belongs to, or None."""
    match = _ARGUMENTS.fullmatch(name)
    return int(match[1]) if match else None


def is_current(name: str) -> bool:
    """Return whether a file name is one that the pipeline uses for current files, not archived."""
    return name in STAGE_FILES[:3] + STAGE_FILES[4:] or section_in(name) is not None


def is_version(name: str) -> bool:
    return _VERSION.fullmatch(name) is not None


def current(names: Iterable[str]) -> list[str]:
    def order(name: str) -> tuple[int, int, str]:
        return stage_of_file(name) or 0, section_in(name) or 0, name

    return sorted(filter(is_current, names), key=order)


_STAGES = {THESIS: 1, THESIS_LOG: 1, OUTLINE: 2, DRAFT: 4, DRAFT_LOG: 4}


def stage_of_file(name: str) -> int | None:
    """Return the stage that writes a file: 1 to 4, or 5 for files of the essay as a whole.

    Those are the finished essay, and logs that cover all stages.
    """
    if section_in(name) is not None:
        return 3
    return _STAGES.get(name, 5 if is_current(name) else None)


def version_name(name: str, names: Iterable[str]) -> str:
    """Return the next archive name of a file: `stage-1-thesis.md` → `stage-1-thesis.v1.md`."""
    matches = filter(None, map(_VERSION.fullmatch, names))
    taken = [int(match[2]) for match in matches if match[1] + match[3] == name]
    stem, dot, extension = name.rpartition(".")
    number = max(taken, default=0) + 1
    return f"{stem}.v{number}.{extension}" if dot and stem else f"{name}.v{number}"


def folder_name(moment: int, naive: str = "local") -> str:
    """Return the name of a session's folder: `essay-pipeline-20260214-143022`."""
    stamp = timestamps.write(moment, "2000-01-01T00:00:00", naive=naive)
    day, _, time = re.sub("[-:]", "", stamp).partition("T")
    return f"{PREFIX}{day}-{time}"


def folder_moment(name: str, naive: str = "local") -> int | None:
    """Return the time in the name of a session's folder; None for other names."""
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

    title: str
    paragraphs: int = 0
    closed: bool = False


_SECTIONS = re.compile(r"[-*] \*\*Sections\*\*: *\[?(\d{1,3})\b")
_LENGTH = re.compile(r"[-*] \*\*Target (?:length|word count)\*\*: *\[?~?([\d,]{1,9})\b")
_AUDIENCE = re.compile(r"[-*] \*\*Audience\*\*: *\[?([A-Za-z-]{1,20})\b")
_SECTION = re.compile(r"### Section (\d{1,3}):")
_WORDS = re.compile(r"\(~\[?([\d,]{1,9})\]? words\)\Z")
_VERIFIED = re.compile(r"(?:[-*] )?\*\*Verified\*\*: *\[?([A-Z_]+)")
_BREAK = re.compile(r"([-*_])(?: *\1){2,}")
_NUMBERED = re.compile(r"Section (\d{1,3})\b")
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
    found: list[Drafted] = []
    within = False
    for line in _lines(data):
        is_break = _BREAK.fullmatch(line) is not None
        if found and (is_break or line.startswith("## ")):
            found[-1].closed = True
        if line.startswith("## "):
            found.append(Drafted(line[3:].strip()))
        is_text = line != "" and not is_break and not line.startswith("#")
        if found and is_text and not within:
            found[-1].paragraphs += 1
            found[-1].closed = False
        within = is_text
    return found[:MOST_SECTIONS]


def number_sections(drafted: Iterable[Drafted], titles: Mapping[int, str]) -> dict[int, Drafted]:
    """Return the sections of a draft by number: the number in its title, else the next number."""
    numbers = {title.casefold(): number for number, title in titles.items()}
    found: dict[int, Drafted] = {}
    last = 0
    for section in drafted:
        match = _NUMBERED.match(section.title)
        known = int(match[1]) if match else numbers.get(section.title.strip("[] ").casefold())
        last = known or last + 1
        if known or last not in found:
            found[last] = section
    return found


def words(data: bytes) -> int:
    """Return the number of words in a text, without its markup."""
    found = data.decode("utf-8", "replace").split()
    return sum(any(map(str.isalnum, word)) for word in found)


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
    answer = _below(lines, heading)
    first = next(iter(answer.lower().replace(",", " ").split()), "")
    date = _DATE.search(answer)
    given = heading in lines and not first.startswith("[") and first not in _NOT_YET
    return Approval(given, timestamps.read(date[0], naive) if given and date else None)


def _int(digits: str) -> int:
    return int(digits.replace(",", "") or 0)


# -- changes -------------------------------------------------------------------------------------

Compare = Callable[[str, str], float]
"""A function that returns how similar two texts are, from 0 to 1."""
Impact = tuple[str, str, list[int]]
"""The impact of a change, the reason for it, and the numbers of the sections concerned."""

_ALIKE = 0.8


def assess_change(name: str, old: str, new: str, compare: Compare) -> Impact | None:
    """Return the impact of a change by the kind of file; None if only its text can decide."""
    if name == THESIS:
        return _compare_theses(old, new, compare)
    if name == OUTLINE:
        return _compare_outlines(old, new, compare)
    number = section_in(name)
    if number is None:
        return None
    part = compare(old, new)
    word = "minor" if part >= _ALIKE else "moderate"
    return word, f"the arguments of section {number} changed ({_percent(part)})", [number]


def _percent(part: float) -> str:
    return f"{round(part * 100)}% similar"


def _compare_theses(old: str, new: str, compare: Compare) -> Impact | None:
    then, now = thesis(old.encode()), thesis(new.encode())
    if then.claim_type != now.claim_type and then.claim_type and now.claim_type:
        kinds = f"{then.claim_type} → {now.claim_type}"
        return "major", f"the claim type changed: {kinds}; the essay has another direction", []
    if not then.statement and not now.statement:
        return None  # the file does not have the headings of a thesis
    part = compare(then.statement, now.statement)
    if then.statement == now.statement:
        return "minor", "the thesis statement is unchanged", []
    if part >= _ALIKE:
        return "minor", "the thesis statement was reworded", []
    if part >= _ALIKE / 2:
        return "moderate", f"the thesis statement changed ({_percent(part)})", []
    return "major", f"the thesis was replaced ({_percent(part)})", []


def _compare_outlines(old: str, new: str, compare: Compare) -> Impact | None:
    then, now = _outlined(old), _outlined(new)
    if not then and not now:
        return None
    changes = {
        "without": sorted(then.keys() - now.keys()),
        "new:": sorted(now.keys() - then.keys()),
        "changed:": [n for n in then.keys() & now.keys() if compare(then[n], now[n]) < _ALIKE],
    }
    moved = sorted(number for numbers in changes.values() for number in numbers)
    if not moved:
        return "minor", "every section of the outline still exists, reworded at most", []
    parts = [
        f"{word} section{'s' * (len(numbers) > 1)} {', '.join(map(str, sorted(numbers)))}"
        for word, numbers in changes.items()
        if numbers
    ]
    reason = f"the outline changed ({'; '.join(parts)})"
    most = len(changes["without"]) + len(changes["changed:"]) > len(then) / 2 and len(then) > 1
    return ("major", reason, []) if most else ("moderate", reason, moved)


def _outlined(text: str) -> dict[int, str]:
    """Return the text of each section of an outline, with the title repeated three times.

    So a changed title weighs more than a changed sentence.
    """
    titles = outline(text.encode()).titles
    _, *rest = re.split(r"(?m)^### Section (\d{1,3}):", text)
    found: dict[int, str] = {}
    for number, part in zip(map(int, rest[::2]), rest[1::2], strict=True):
        body = re.split(r"(?m)^#{1,2} ", part, maxsplit=1)[0]
        found.setdefault(number, f"{titles.get(number, '')} " * 3 + body)
    return found
