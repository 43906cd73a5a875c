"""The essay pipeline's session file, key by key: what the document calls the *template*.

`FIELDS` is the file in the order of its keys. From this one table come the fresh file, what is
read as attributes, and most of what is checked. A default of None means that null is allowed, a
default of "" that the document wants a value and gives none. `SECTION` and `LOGS` are the same for
the elements of lists.

An attribute is named as its place in the file, without `stages`, behind `essay.`; those of
sections stand under `section_1` and so on. It is there only when it says more than the default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeGuard

from holdfast.choice import DEFER_REASONS, FACT_CHECKS, PUSHBACK, VOICE_MODES
from holdfast.layout import Tree, Where, stamps, words
from holdfast.layout.torn import ends_within_a_line
from holdfast.layout.value import copied, mapping, put_back, sequence

ID = "essay"
STATE = "session-state.yaml"
BACKUP = f"{STATE}.bak"
TEMPORARY = f"{STATE}.tmp"
THESIS, THESIS_LOG = "stage-1-thesis.md", "stage-1-development-log.md"
OUTLINE = "stage-2-outline.md"
ARGUMENTS = "stage-3-section-{}-arguments.md"
DRAFT, DRAFT_LOG = "stage-4-draft.md", "stage-4-paragraph-log.md"
FINAL = "final-essay.md"
STAGE_FILES = (
    THESIS,
    THESIS_LOG,
    OUTLINE,
    ARGUMENTS,
    DRAFT,
    DRAFT_LOG,
    FINAL,
    "fact-check-log.md",
    "voice-check-log.md",
)
"""What else lies in a session's folder; `{}` stands for the number of a section."""


class Stage(NamedTuple):
    name: str
    title: str
    file: str
    """The key that names the stage's result, empty for the stage with one per section."""
    default: str


STAGES = {
    1: Stage("thesis_development", "Thesis development", "thesis_file", THESIS),
    2: Stage("essay_structuring", "Essay structuring", "outline_file", OUTLINE),
    3: Stage("argument_development", "Argument development", "", ""),
    4: Stage("paragraph_writing", "Paragraph writing", "draft_file", DRAFT),
}
SECTIONED = (3, 4)

SESSION_STATUSES = ("in_progress", "paused", "completed", "abandoned")
UNIT_STATUSES = ("not_started", "in_progress", "completed", "needs_review")
CLAIM_TYPES = ("argument", "explainer", "prediction", "hybrid")
AUDIENCES = ("general", "semi-technical", "expert")
OVERRIDE = "override"
IMPACTS = ("minor", "moderate", "major")

LARGEST = 2**53
"""Beyond this, other readers of numbers lose digits."""


class Field(NamedTuple):
    path: str
    kind: str
    number: str
    """The requirement that describes it."""
    default: Any = None
    words: tuple[str, ...] = ()

    @property
    def attribute(self) -> bool:
        return self.kind in ATTRIBUTES

    @property
    def name(self) -> str:
        return f"{ID}.{self.path.removeprefix('stages.')}"


ATTRIBUTES = ("text", "place", "path", "word", "count", "rating", "score", "flag")
"""Kinds of single values with no fact of their own. A path may lie in the session's folder, a
place is anywhere."""


def _stage(number: int, *fields: Field) -> list[Field]:
    return [field._replace(path=f"stages.stage_{number}.{field.path}") for field in fields]


FIELDS = (
    Field("pipeline_id", "id", "S3-2", ""),
    Field("started_at", "stamp", "S3-3", ""),
    Field("last_activity", "stamp", "S3-4", ""),
    Field("status", "status", "S3-5", "in_progress", SESSION_STATUSES),
    Field("style_profile_path", "place", "S3-6", ""),
    Field("samples_dir_path", "place", "S3-7", ""),
    Field("pushback_level", "word", "S3-8", "full", PUSHBACK),
    Field("session_dir", "folder", "S3-9", ""),
    Field("current_stage", "stage", "S3-10", 1),
    Field("current_stage_name", "stage-name", "S3-11", STAGES[1].name),
    *_stage(
        1,
        Field("status", "unit", "S3-12", "not_started", UNIT_STATUSES),
        Field("thesis_file", "path", "S3-13"),
        Field("development_log", "path", "S3-14"),
        Field("claim_type", "word", "S3-15", None, CLAIM_TYPES),
        Field("completed_at", "stamp", "S3-16"),
    ),
    *_stage(
        2,
        Field("status", "unit", "S3-17", "not_started", UNIT_STATUSES),
        Field("outline_file", "path", "S3-18"),
        Field("total_sections", "count", "S3-19"),
        Field("target_word_count", "count", "S3-20"),
        Field("audience", "word", "S3-21", None, AUDIENCES),
        Field("completed_at", "stamp", "S3-22"),
    ),
    *_stage(
        3,
        Field("status", "unit", "S3-23", "not_started", UNIT_STATUSES),
        Field("total_sections", "count", "S3-24"),
        Field("current_section", "ordinal", "S3-25"),
        Field("sections", "list", "S3-26"),
        Field("birds_eye_approved", "flag", "S3-33", False),
        Field("completed_at", "stamp", "S3-34"),
    ),
    *_stage(
        4,
        Field("status", "unit", "S3-35", "not_started", UNIT_STATUSES),
        Field("current_section", "ordinal", "S3-36"),
        Field("current_paragraph", "count", "S3-37"),
        Field("draft_file", "path", "S3-38"),
        Field("paragraph_log", "path", "S3-39"),
        Field("sections", "list", "S3-40"),
        Field("completed_at", "stamp", "S3-46"),
    ),
    Field("voice_calibration.first_assessment_user_rating", "rating", "S3-47"),
    Field("voice_calibration.calibration_notes", "text", "S3-48"),
    Field("voice_calibration.voice_reference_mode", "word", "S3-49", "profile", VOICE_MODES),
    Field("deferred_verifications", "log", "S3-50", []),
    Field("user_overrides", "log", "S3-57", []),
    Field("revision_history", "log", "S3-63", []),
    Field("output.final_essay_file", "path", "S3-69"),
    Field("output.sources_verified", "count", "S3-70"),
    Field("output.voice_consistency_score", "score", "S3-71"),
    Field("output.total_word_count", "count", "S3-72"),
    Field("output.completed_at", "stamp", "S3-73"),
)

SECTION = {
    3: (
        Field("section_index", "ordinal", "S3-27", ""),
        Field("status", "unit", "S3-28", "not_started", UNIT_STATUSES),
        Field("argument_map_file", "path", "S3-29"),
        Field("verified_claims", "count", "S3-30", 0),
        Field("deferred_claims", "count", "S3-31", 0),
        Field("completed_at", "stamp", "S3-32"),
    ),
    4: (
        Field("section_index", "ordinal", "S3-41", ""),
        Field("total_paragraphs", "count", "S3-42"),
        Field("completed_paragraphs", "count", "S3-43", 0),
        Field("status", "unit", "S3-44", "not_started", UNIT_STATUSES),
        Field("voice_check_score", "score", "S3-45"),
    ),
}

LOGS = {
    "deferred_verifications": (
        Field("claim_text", "text", "S3-51", ""),
        Field("section", "ordinal", "S3-52"),
        Field("paragraph", "ordinal", "S3-53"),
        Field("reason", "word", "S3-54", "", DEFER_REASONS),
        Field("added_at", "stamp", "S3-55", ""),
        Field("resolved", "flag", "S3-56", False),
    ),
    "user_overrides": (
        Field("claim_text", "text", "S3-58", ""),
        Field("fact_checker_result", "word", "S3-59", "", FACT_CHECKS),
        Field("user_action", "word", "S3-60", OVERRIDE, (OVERRIDE,)),
        Field("user_rationale", "text", "S3-61", ""),
        Field("logged_at", "stamp", "S3-62", ""),
    ),
    "revision_history": (
        Field("stage_revisited", "stage", "S3-64", 1),
        Field("impact", "word", "S3-65", "", IMPACTS),
        Field("reason", "text", "S3-66", ""),
        Field("downstream_archived", "names", "S3-67", []),
        Field("timestamp", "stamp", "S3-68", ""),
    ),
}


def blank() -> dict[str, Any]:
    """The template with its initial values; lists are empty, not null."""
    doc: dict[str, Any] = {}
    for field in FIELDS:
        *parents, key = field.path.split(".")
        node = doc
        for parent in parents:
            node = node.setdefault(parent, {})
        node[key] = [] if field.kind in ("list", "log") else field.default
    return doc


def blank_section(stage: int, index: int) -> dict[str, Any]:
    values = {field.path: field.default for field in SECTION[stage]}
    return {**values, "section_index": index}


# -- ids of steps --------------------------------------------------------------------------------

_STEP = re.compile(r"stage-([1-4])(?:/section-([1-9][0-9]{0,5}))?")


def stage_id(stage: int) -> str:
    return f"stage-{stage}"


def section_id(stage: int, section: int) -> str:
    return f"stage-{stage}/section-{section}"


def place_of(step_id: str) -> tuple[int, int | None] | None:
    """The stage, and the section in it, that an id of ours names."""
    match = _STEP.fullmatch(step_id)
    if match is None:
        return None
    stage, section = int(match[1]), int(match[2]) if match[2] else None
    return None if section and stage not in SECTIONED else (stage, section)


# -- values --------------------------------------------------------------------------------------

_PLACEHOLDER = re.compile(r"\{(?:path|uuid|ISO8601|session_dir)\}")
_UNTOUCHED = ("id", "stamp", "place", "path", "folder")
_TEXTS = ("id", "place", "path", "folder", "text", "word")
"""Any text may stand there: whoever wrote it meant something."""


def is_placeholder(field: Field, value: Any) -> bool:
    """Whether a value is still the template's own, as `{path}`."""
    is_text = isinstance(value, str) and field.kind in _UNTOUCHED
    return is_text and _PLACEHOLDER.search(value) is not None


def is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -LARGEST <= value <= LARGEST and math.isfinite(value)


def is_count(value: Any, least: int = 0) -> TypeGuard[int]:
    return isinstance(value, int) and is_number(value) and value >= least


def said(field: Field, value: Any) -> Any:
    """What a single value says, or None when it says nothing or is of a wrong type."""
    if is_placeholder(field, value):
        return None
    if field.kind == "count":
        return value if is_count(value) else None
    if field.kind == "ordinal":
        return value if is_count(value, 1) else None
    if field.kind in ("rating", "score"):
        return value if is_number(value) else None
    if field.kind == "flag":
        return value if isinstance(value, bool) else None
    return value if isinstance(value, str) and value.strip() else None


def said_nothing(field: Field, part: dict[str, Any], key: str) -> bool:
    """Whether a key that the template wants is missing, or has a value that means nothing."""
    value = part.get(key)
    if key not in part or value is None:
        nullable = field.default is None or field.kind == "log"
        return key not in part or not nullable
    if field.kind in ("list", "log"):
        return not isinstance(value, list)
    if field.kind in ("status", "unit"):
        return (session_status if field.kind == "status" else unit_status)(value) is None
    if field.kind == "stage":
        return not is_count(value, 1) or value not in STAGES
    if field.kind == "stage-name":
        # Of the two, the number counts.
        number = part.get("current_stage")
        return is_count(number) and number in STAGES and value != STAGES[number].name
    if field.kind == "stamp":
        return not is_placeholder(field, value) and stamps.read(value) is None
    if isinstance(value, str) and field.kind in _TEXTS:
        return False
    return said(field, value) is None


def torn(data: bytes, doc: Any) -> str:
    """Why a file is only the beginning of one: it breaks off within a line, and what it lacks is
    the end of the template. Its last value is not to be believed: 15 may have been 1500."""
    order = [field.path for field in FIELDS]
    if list(mapping(doc)) == sorted(mapping(doc)):
        order.sort(key=lambda path: path.split("."))  # as many programs write them
    lacking = [path for path in order if not _has(doc, path)]
    is_end = lacking != [] and lacking == order[-len(lacking) :]
    return f"it breaks off before `{lacking[0]}`" if is_end and ends_within_a_line(data) else ""


def _has(doc: Any, path: str) -> bool:
    above, _, key = path.rpartition(".")
    return key in mapping(at(doc, above) if above else doc)


PARTS = ("stages", *dict.fromkeys(p for f in FIELDS if (p := f.path.rpartition(".")[0])))
"""The mappings in a file, each before those in it."""


class Spot(NamedTuple):
    """A key that the template wants, the mapping it belongs to, and its place in the file."""

    field: Field
    place: str
    part: dict[str, Any]
    key: str

    @property
    def is_blank(self) -> bool:
        return said_nothing(self.field, self.part, self.key)


def spots(doc: dict[str, Any]) -> Iterator[Spot]:
    """Every key that is wanted; entries of logs are their writers'."""
    for field in FIELDS:
        above, _, key = field.path.rpartition(".")
        yield Spot(field, field.path, mapping(at(doc, above)) if above else doc, key)
    for stage in SECTIONED:
        for index, section in sections(doc, stage).items():
            for field in SECTION[stage]:
                place = f"stages.stage_{stage}.section_{index}.{field.path}"
                yield Spot(field, place, section, field.path)


def complete(doc: dict[str, Any], old: dict[str, Any]) -> list[str]:
    """Give a file what it lacks, or says in words that mean nothing, as it was; says what that
    is."""
    number = doc.get("current_stage")
    if number != old.get("current_stage") and is_count(number) and number in STAGES:
        doc["current_stage_name"] = STAGES[number].name
    parts = [path for path in PARTS if isinstance(at(old, path), dict)]
    gone = [path for path in parts if not isinstance(at(doc, path), dict)]
    for path in gone:
        above, _, key = path.rpartition(".")
        if not isinstance(at(doc, path), dict):
            put_back(at(doc, above) if above else doc, at(old, above) if above else old, key)
    gone += [place for stage in SECTIONED for place in _with_sections(doc, old, stage)]
    known = {spot.place: spot for spot in spots(old) if not spot.is_blank}
    lost = [spot for spot in spots(doc) if spot.is_blank and spot.place in known]
    told = [f"{place} was taken out" for place in gone] + [_told(spot) for spot in lost]
    for spot in lost:
        put_back(spot.part, known[spot.place].part, spot.key)
    return told


def _told(spot: Spot) -> str:
    is_gone = spot.part.get(spot.key) is None
    return f"{spot.place} " + ("was taken out" if is_gone else "was given a value it cannot have")


def _with_sections(doc: dict[str, Any], old: dict[str, Any], stage: int) -> list[str]:
    """Put sections back into their list, and count them; a list that is gone comes as a whole."""
    listed, had = at(doc, f"stages.stage_{stage}.sections"), sections(old, stage)
    lost = had.keys() - sections(doc, stage).keys() if isinstance(listed, list) else set()
    if not lost:
        return []
    listed += [copied(had[index]) for index in sorted(lost)]
    places = {index: place for place, index in enumerate(had)}
    listed.sort(key=lambda entry: places.get(_index(entry), len(had)))
    for path in ("stages.stage_2", "stages.stage_3"):
        part, before = mapping(at(doc, path)), at(old, f"{path}.total_sections")
        total = part.get("total_sections")
        if is_count(before) and is_count(total) and total < min(before, len(listed)):
            part["total_sections"] = before
    return [f"stages.stage_{stage}.section_{index}" for index in sorted(lost)]


def _index(entry: Any) -> int:
    index = mapping(entry).get("section_index")
    return index if is_count(index, 1) else 0


def at(doc: Any, path: str) -> Any:
    for key in path.split("."):
        doc = mapping(doc).get(key)
    return doc


def main(tree: Tree) -> str:
    """The key of a tree's session file; a lone file may have another name."""
    return STATE if STATE in tree else next(iter(tree), STATE)


def state_of(tree: Tree) -> dict[str, Any]:
    return mapping(tree.get(main(tree)))


def sections(doc: dict[str, Any], stage: int) -> dict[int, dict[str, Any]]:
    """A stage's sections by number; of two with one number the first."""
    found: dict[int, dict[str, Any]] = {}
    for entry in sequence(at(doc, f"stages.stage_{stage}.sections")):
        index = mapping(entry).get("section_index")
        if is_count(index, 1) and index < 1_000_000:
            found.setdefault(index, entry)
    return found


def section_fields(stage: int, section: int) -> Iterator[tuple[str, Field]]:
    """The attributes of a section: name and field."""
    for field in SECTION[stage]:
        if field.attribute:
            yield f"{ID}.stage_{stage}.section_{section}.{field.path}", field


# -- words ---------------------------------------------------------------------------------------


def session_status(word: Any) -> str | None:
    return words.session_status(ID, word) if isinstance(word, str) else None


def unit_status(word: Any) -> str | None:
    return words.unit_status(ID, word) if isinstance(word, str) else None


# -- paths ---------------------------------------------------------------------------------------


def folders(doc: dict[str, Any], where: Where) -> list[str]:
    """The session's folder, as the file and the surroundings name it."""
    field = next(field for field in FIELDS if field.kind == "folder")
    named = (said(field, doc.get("session_dir")), where.root)
    return [name.rstrip("/") for name in named if name and name.strip("/")]


def inside(path: str, around: list[str]) -> str:
    """A path relative to the session's folder if it lies there; any other as it is."""
    begins = (f"{folder}/" for folder in around)
    return next((path[len(b) :].lstrip("/") or path for b in begins if path.startswith(b)), path)


def outside(name: str, around: list[str]) -> str:
    """A relative path as the file writes it, below the session's folder."""
    return name if not around or name.startswith(("/", "~")) else f"{around[0]}/{name}"
