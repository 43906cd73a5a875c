"""The session file of the essay pipeline as one table; the specification calls it the *template*.

`FIELDS` lists the keys of the file in their order; `SECTION` and `LOGS` list the keys of elements
of its lists. New files, the attributes, the rules for checking (`RULES`) and the test for a
truncated file all come from these tables. A default of None allows null; a default of "" means that
a value is required and the specification gives no default.

The name of an attribute is `essay.` and its path in the file, without `stages`; attributes of
sections are below `section_1` and so on. An attribute exists only if its value is not the default.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeGuard

from forestay.base.hashing import derive_uuid
from forestay.base.vocabulary import DEFER_REASONS, FACT_CHECKS, PUSHBACK, VOICE_MODES
from forestay.formats.coerce import LARGEST, mapping, sequence
from forestay.formats.fields import COUNT, number
from forestay.formats.port import Tree, Where
from forestay.formats.schema import END, EXTRA_RULE, MOMENT, SECOND, Rule
from forestay.formats.status_words import ALSO_SESSION, ALSO_UNIT, session_status, unit_status

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
    *(THESIS, THESIS_LOG, OUTLINE, ARGUMENTS, DRAFT, DRAFT_LOG, FINAL),
    *("fact-check-log.md", "voice-check-log.md"),
)
"""The other files of a session's folder; `{}` stands for the number of a section."""


class Stage(NamedTuple):
    name: str
    title: str
    file: str
    """The key that names the stage's result file; empty for the stage with a file per section."""
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
ID_PATTERN = rf"^essay-[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}{END}"
_PLACEHOLDER = r"\{(path|uuid|ISO8601|session_dir)\}"

_TEXT = {"type": "string", "shape": r"\S", "code": "not-set", "says": "set"}
_WORD = {"type": "string"}
_COUNT = {"type": "integer", "low": 0, "high": LARGEST}
_LIST = {"type": "array"}
KINDS: dict[str, dict[str, Any]] = {
    "id": {
        "type": "string",
        "fine": ID_PATTERN,
        "style": "odd-id",
        "says": "`essay-` and a UUID",
        "blank": _PLACEHOLDER,
    },
    "stamp": {
        "type": "string",
        "shape": MOMENT,
        "code": "bad-stamp",
        "fine": SECOND,
        "style": "stamp-style",
        "moment": True,
        "says": "a time in ISO 8601",
        "blank": _PLACEHOLDER,
    },
    "status": {"type": "string", "also": tuple(ALSO_SESSION)},
    "unit": {"type": "string", "also": tuple(ALSO_UNIT)},
    "stage": _COUNT | {"low": 1, "high": len(STAGES)},
    "stage-name": _WORD,
    "word": _WORD,
    # Any word is allowed: real files have their own words for reasons and results.
    "phrase": _WORD,
    "text": _TEXT,
    "place": _TEXT | {"blank": _PLACEHOLDER},
    "path": _TEXT | {"blank": _PLACEHOLDER},
    "folder": _TEXT | {"blank": _PLACEHOLDER},
    "count": _COUNT,
    "ordinal": _COUNT | {"low": 1},
    "rating": {"type": "number", "low": 1, "high": 5},
    "score": {"type": "number", "low": -LARGEST, "high": LARGEST},
    "flag": {"type": "boolean"},
    "list": _LIST,
    "log": _LIST,
    "names": _LIST,
}
"""Kind of a field → its rule. A `path` can be inside the session's folder, a `place` anywhere."""
_ATTRIBUTES = ("text", "place", "path", "word", "count", "rating", "score", "flag")
"""Kinds of single values that have no fact of their own."""


class Field(NamedTuple):
    path: str
    kind: str
    number: str
    """The requirement that describes it."""
    default: Any = None
    words: tuple[str, ...] = ()

    @property
    def attribute(self) -> bool:
        return self.kind in _ATTRIBUTES

    @property
    def name(self) -> str:
        return f"{ID}.{self.path.removeprefix('stages.')}"

    def rule(self, elements: dict[str, tuple[Field, ...]]) -> Rule:
        """Return what a value must be; `elements` has the fields of lists by their path."""
        more = dict(KINDS[self.kind])
        if self.kind == "phrase":
            more |= {"fine": rf"^({'|'.join(self.words)}){END}", "style": "odd-word"}
            more["says"] = f"one of {', '.join(self.words)}"
        else:
            more["words"] = self.words
        if self.path in elements:
            more["each"] = _object("", elements[self.path], {})
        elif self.kind == "names":
            more["each"] = Rule(type="string", req=self.number)
        return Rule(req=self.number, null=self.default is None or more["type"] == "array", **more)


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
    Field(
        *("current_stage_name", "stage-name", "S3-11", STAGES[1].name),
        words=tuple(stage.name for stage in STAGES.values()),
    ),
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
        Field("reason", "phrase", "S3-54", "", DEFER_REASONS),
        Field("added_at", "stamp", "S3-55", ""),
        Field("resolved", "flag", "S3-56", False),
    ),
    "user_overrides": (
        Field("claim_text", "text", "S3-58", ""),
        Field("fact_checker_result", "phrase", "S3-59", "", FACT_CHECKS),
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


def _object(prefix: str, fields: Iterable[Field], elements: dict[str, tuple[Field, ...]]) -> Rule:
    """Return the rule for the mapping under a path prefix, including the mappings inside it."""
    inner = [field for field in fields if field.path.startswith(prefix)]
    keys: dict[str, Rule] = {}
    for field in inner:
        key, _, deeper = field.path.removeprefix(prefix).partition(".")
        if key not in keys:
            part = _object(f"{prefix}{key}.", inner, elements) if deeper else field.rule(elements)
            keys[key] = part
    want = {key: rule.req for key, rule in keys.items()}
    return Rule(type="object", req=inner[0].number, keys=keys, want=want, free=True)


RULES = _object(
    "",
    FIELDS,
    {**LOGS, **{f"stages.stage_{number}.sections": SECTION[number] for number in SECTIONED}},
)
RULES.keys.update(EXTRA_RULE)


def blank() -> dict[str, Any]:
    """Return the template with its initial values; lists are empty, not null."""
    doc: dict[str, Any] = {}
    for field in FIELDS:
        *parents, key = field.path.split(".")
        node = doc
        for parent in parents:
            node = node.setdefault(parent, {})
        node[key] = [] if KINDS[field.kind]["type"] == "array" else field.default
    return doc


def blank_section(stage: int, index: int) -> dict[str, Any]:
    return {field.path: field.default for field in SECTION[stage]} | {"section_index": index}


def make_id(*parts: object) -> str:
    """Return an id that depends on the given parts only."""
    return "essay-" + derive_uuid("\0".join(map(str, parts)))


# -- ids of steps --------------------------------------------------------------------------------

_STEP = re.compile(r"stage-([1-4])(?:/section-([1-9][0-9]{0,5}))?")


def stage_id(stage: int) -> str:
    return f"stage-{stage}"


def section_id(stage: int, section: int) -> str:
    return f"stage-{stage}/section-{section}"


def place_of(step_id: str) -> tuple[int, int | None] | None:
    """Return the stage, and the section in it, that a step id of this format names."""
    match = _STEP.fullmatch(step_id)
    if match is None:
        return None
    stage, section = int(match[1]), int(match[2]) if match[2] else None
    return None if section and stage not in SECTIONED else (stage, section)


# -- values --------------------------------------------------------------------------------------


def is_count(value: Any, least: int = 0) -> TypeGuard[int]:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole and least <= value <= LARGEST


def is_placeholder(field: Field, value: Any) -> bool:
    """Return whether a value is still a placeholder of the template, such as `{path}`."""
    pattern = KINDS[field.kind].get("blank", "")
    return bool(pattern) and isinstance(value, str) and re.search(pattern, value) is not None


def read_value(field: Field, value: Any) -> Any:
    """Return a single value, or None if it is blank or of another type."""
    rule = KINDS[field.kind]
    if rule["type"] == "integer":
        found = COUNT.read(value, Where())
        return found if found is not None and found >= rule["low"] else None
    if rule["type"] == "number":
        return number(value)
    if rule["type"] == "boolean":
        return value if isinstance(value, bool) else None
    is_filled = isinstance(value, str) and value.strip() and not is_placeholder(field, value)
    return value if is_filled else None


def read_session_status(word: Any) -> str | None:
    return session_status(ID, word) if isinstance(word, str) else None


def read_unit_status(word: Any) -> str | None:
    return unit_status(ID, word) if isinstance(word, str) else None


def value_at(doc: Any, path: str) -> Any:
    """Return the value at a dotted path; an empty path is the whole document."""
    for key in path.split(".") if path else ():
        doc = mapping(doc).get(key)
    return doc


def state_name(tree: Tree) -> str:
    """Return the name of a tree's session file; a lone file may have another name."""
    return STATE if STATE in tree else next(iter(tree), STATE)


def state_of(tree: Tree) -> dict[str, Any]:
    return mapping(tree.get(state_name(tree)))


def sections(doc: dict[str, Any], stage: int) -> dict[int, dict[str, Any]]:
    """Return a stage's sections by number; if two have the same number, the first."""
    found: dict[int, dict[str, Any]] = {}
    for entry in sequence(value_at(doc, f"stages.stage_{stage}.sections")):
        index = mapping(entry).get("section_index")
        if is_count(index, 1) and index < 1_000_000:
            found.setdefault(index, entry)
    return found


class Spot(NamedTuple):
    """A field in a document: the attribute's name, the mapping that holds it, and its key."""

    field: Field
    name: str
    part: dict[str, Any]
    key: str

    @property
    def value(self) -> Any:
        return self.part.get(self.key)


def spots(doc: dict[str, Any]) -> Iterator[Spot]:
    """Yield every field of the document and of its sections, also those that are missing."""
    for field in FIELDS:
        above, _, key = field.path.rpartition(".")
        yield Spot(field, field.name, mapping(value_at(doc, above)), key)
    for stage in SECTIONED:
        for index, section in sections(doc, stage).items():
            for field in SECTION[stage]:
                name = f"{ID}.stage_{stage}.section_{index}.{field.path}"
                yield Spot(field, name, section, field.path)


def stage_of(doc: dict[str, Any]) -> int | None:
    """Return the current stage by its number, else by its name."""
    current, name = doc.get("current_stage"), doc.get("current_stage_name")
    if is_count(current) and current in STAGES:
        return int(current)
    return next((n for n, stage in STAGES.items() if stage.name == name), None)


def section_of(doc: dict[str, Any], stage: int | None) -> int | None:
    """Return the current section of a stage that has sections."""
    path = f"stages.stage_{stage}.current_section"
    index = value_at(doc, path) if stage in SECTIONED else None
    return index if is_count(index, 1) and index < 1_000_000 else None


# -- paths ---------------------------------------------------------------------------------------


def folders(doc: dict[str, Any], where: Where) -> list[str]:
    """Return the known paths of the session's folder: the one in the file, then `where.root`."""
    field = next(field for field in FIELDS if field.kind == "folder")
    named = (read_value(field, doc.get("session_dir")), where.root)
    return [name.rstrip("/") for name in named if name and name.strip("/")]


def inside(path: str, around: list[str]) -> str:
    """Return a path relative to the session's folder (`around`); unchanged if it is outside."""
    begins = (f"{folder}/" for folder in around)
    return next((path[len(b) :].lstrip("/") or path for b in begins if path.startswith(b)), path)


def outside(name: str, around: list[str]) -> str:
    """Return a relative path as in the session file: with the session's folder in front."""
    return name if not around or name.startswith(("/", "~")) else f"{around[0]}/{name}"
