"""Record the steps of an essay: approvals, sections, claims, voice checks, output.

A *verb* is a method that records one step: it reads its file, asks `model.essay` for the events in
the state under the lock, and records them together. An essay's files are named relative to its
*folder*: that of the essay format, else the target of its plan, else the project.

In a folder of the essay format, verbs also write the logs that its specification requires, a line
per entry. A log is created before an event names it. Its lines are recorded with the events, as
pending file operations, and written once the events are durable, if need be by the next process.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec import Struct

from forestay.base import files
from forestay.base.clock import iso
from forestay.base.text import clean_input, coerce_input
from forestay.base.value import Value
from forestay.base.vocabulary import DEFER_REASONS, FACT_CHECKS, PUSHBACK, VOICE_MODES
from forestay.errors import ForestayError, InvalidInput, Refused
from forestay.formats.essay import fields, stage_files
from forestay.journal.journal import AppendOptions
from forestay.journal.topics import Topic
from forestay.mirror.session_files import absorb_file_edits, read_rows
from forestay.model import event as ev
from forestay.model.essay import rules as model
from forestay.model.essay.moves import Moves, is_essay, name_of, step_id
from forestay.model.essay.next_step import Summary, next_command, summary
from forestay.model.essay.rules import Gate, Outline, parse_gate
from forestay.model.event import Body
from forestay.model.state import State
from forestay.plans import essay_sessions
from forestay.plans.pending_file_ops import finish
from forestay.workspace.file_changes import read_artifact

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from typing import Literal

    from forestay.base.words import DeferReason, FactCheck, Pushback
    from forestay.journal.recorder import Recorder
    from forestay.model.event import Event

FACTS, VOICES = "fact-check-log.md", "voice-check-log.md"
_TITLES = {
    FACTS: "Fact checks",
    VOICES: "Voice checks",
    fields.DRAFT_LOG: "Paragraphs",
    fields.THESIS_LOG: "Development of the thesis",
}
_MOST = 16 * 1024 * 1024
_LINE = 2000
_TEXT = 4000

Act = Callable[[Moves], None]
Same = Callable[[Body], bool]


class Done(Struct, frozen=True):
    """The result of a recorded step: a message, what is still missing, and the next command.

    `action` is what a voice check calls for, `ask` a question to the user.
    """

    event: Event
    message: str
    missing: list[str]
    next: str
    warnings: list[str] = []
    claim: str = ""
    action: str = ""
    ask: str = ""
    summary: Summary | None = None


class SectionListed(Struct, frozen=True):
    """A section of an essay, in its two stages."""

    number: int
    title: str
    arguments: str
    map: str
    approved: bool
    verified: int
    deferred: int
    paragraphs: str
    completed: int
    total: int | None
    voice: float | None


# -- one verb ----------------------------------------------------------------------------------


class ClaimInfo(Value):
    """A claim of an essay that could not be checked at once."""

    id: str
    text: str
    reason: DeferReason
    section: int | None
    paragraph: int | None
    resolved: bool
    result: FactCheck | Literal[""]
    because: str

    @property
    def is_open(self) -> bool:
        """Whether it has to be checked before G5."""
        return bool(self._source.is_open)


class EssayText(NamedTuple):
    """The essay so far: the file that contains most of it, and its text."""

    path: str
    text: str


class _Look:
    """The state of an essay and the folder with its files, for reading."""

    def __init__(self, session: Recorder) -> None:
        self.session, self.context = session, session.context
        self.state = essay_sessions.state_of(session)
        self.folder = essay_sessions.folder_of(self.context, session.id, self.state)

    def has(self, name: str) -> bool:
        return os.path.isfile(os.path.join(self.folder, name))


class _Verb(_Look):
    """A verb that is being recorded, with the blobs and warnings of its events."""

    def __init__(self, session: Recorder, key: str) -> None:
        absorb_file_edits(session.context, session.id)
        super().__init__(session)
        self.key = key
        self.binding = essay_sessions.binding_of(self.context, session.id)
        self.blobs: list[tuple[str, bytes]] = []
        self.warnings: list[str] = []

    def log(self, name: str) -> str:
        """Return the name of a log of this essay; empty if it has none."""
        return name if self.binding is not None else ""

    def read(self, name: str, what: str, *, again: str) -> tuple[ev.ArtifactSaved, bytes]:
        """Return a file of the essay as an event with its contents, and its bytes."""
        inside = essay_sessions.inside(self.context, self.folder, name)
        try:
            body, blobs, data = read_artifact(
                inside, self.folder, self.context.journal.find_secrets
            )
        except ForestayError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise self.missing(inside, what, again=again) from error
        self.blobs += blobs
        return body, data

    def missing(self, name: str, what: str, *, again: str) -> Refused:
        """Return the error for a file that does not exist, with the command to repeat."""
        return Refused(
            f"{what} is missing: there is no {name}",
            why=f"looked for in {self.folder}",
            hint=f"write it, then: forestay {again}",
            file=os.path.join(self.folder, name),
        )

    def do(self, act: Act, is_same: Same, log: str = "", **more: object) -> Done:
        """Record the events of the act, and a line in the log."""
        if earlier := self.session.called_before(self.key, is_same):
            return self._answer(earlier[-1], Moves(self.state), more)
        last: list[Moves] = []
        log = self.log(log) if log else ""
        chores: list[str] = []

        def made(state: State) -> Sequence[Body]:
            moves = model.begin(state)
            act(moves)
            last.append(moves)
            chores[:] = [self._line(log, moves.message)] if log else []
            return moves.bodies

        with self.context.store.view(self.session.id) as view:
            made(self.context.journal.state(view))
        if log:
            self._make_log(log)
        options = AppendOptions(make=made, file_work=chores)
        event = self.session.record(key=self.key, blobs=self.blobs, options=options)
        if log:
            self.context.best_effort(lambda: finish(self.context, self.session.id))
        return self._answer(event, last[-1], more)

    def _answer(self, event: Event, moves: Moves, more: dict[str, object]) -> Done:
        state = essay_sessions.state_of(self.session)
        completed = state.core.status == "completed"
        return Done(
            event=event,
            message=moves.message or "nothing new",
            missing=moves.missing,
            next="" if completed else next_command(state),
            warnings=self.warnings,
            claim=next((b.claim for b in moves.bodies if isinstance(b, ev.ClaimDeferred)), ""),
            summary=summary(state) if completed else None,
            **more,  # type: ignore[arg-type]
        )

    def _make_log(self, name: str) -> None:
        path = os.path.join(self.folder, name)
        if not os.path.lexists(path):
            files.append_lines(path, f"# {_TITLES[name]}\n".encode(), mode=0o644)

    def _line(self, name: str, message: str) -> str:
        """Return the pending file work that writes a line into a log."""
        kept = coerce_input(self.context.journal.redact(message), limit=_LINE, lines=False)
        line = f"- {iso(self.context.clock.now())} {kept}"
        path = os.path.join(self.folder, name)
        return json.dumps({"op": "line", "file": path, "title": _TITLES[name], "line": line})


def _same(kind: type[Body], **fields: object) -> Same:
    """Return a predicate for events of a kind with these values in their fields."""
    return lambda body: (
        isinstance(body, kind)
        and all(getattr(body, name) == value for name, value in fields.items())
    )


def _sets(field: str, **value: object) -> Same:
    return _same(ev.AttributeSet, key=name_of(field), **value)


# -- gates -------------------------------------------------------------------------------------


def _act_for(verb: _Verb, gate: Gate, *, last: bool, confirm: bool) -> tuple[Act, str]:
    if _is_over(verb):
        # Do not read a file if the approval will be refused, or was recorded before.
        return (lambda moves: None), ""
    if gate.name == "G1":
        return _thesis(verb), fields.THESIS_LOG
    if gate.name == "G2":
        return _outline(verb), ""
    if gate.name == "G3":
        return _arguments(verb, gate), FACTS
    if gate.name == "G3-Final":
        return model.approve_arguments, FACTS
    if gate.name == "G4":
        return _paragraph(verb, gate, last=last), fields.DRAFT_LOG
    if gate.name == "G4-Section":
        return (
            lambda moves: model.approve_section_text(moves, gate.section, last=last)
        ), fields.DRAFT_LOG
    return _essay(verb, confirm=confirm), FACTS


def _is_over(verb: _Verb) -> bool:
    repeated = bool(verb.key and verb.context.journal.events_of_key(verb.session.id, verb.key))
    at_work = verb.state.core.status in ("active", "created")
    return repeated or not is_essay(verb.state) or not at_work


def _thesis(verb: _Verb) -> Act:
    if Moves(verb.state).status(1) == "done":
        return lambda moves: model.approve_thesis(moves, _NOTHING, claim_type=None)
    kept, data = verb.read(
        _named(verb, "stage_1.thesis_file", fields.THESIS), "the thesis", again="essay approve G1"
    )
    parsed = stage_files.thesis(data)
    log = verb.log(fields.THESIS_LOG)
    return lambda moves: model.approve_thesis(moves, kept, claim_type=parsed.claim_type, log=log)


_NOTHING = ev.ArtifactSaved(path="", digest="", size=0)
"""Stands for a file that is not read, because the approval will be refused anyway."""


def _named(found: _Look, field: str, default: str) -> str:
    """Return the file that a field names if it exists, else the default."""
    value = Moves(found.state).value(field)
    return value if isinstance(value, str) and value and found.has(value) else default


def _outline(verb: _Verb) -> Act:
    looked = Moves(verb.state)
    if looked.status(1) != "done" or looked.status(2) == "done":
        return lambda moves: model.approve_outline(moves, _NOTHING, Outline())
    name = _named(verb, "stage_2.outline_file", fields.OUTLINE)
    kept, data = verb.read(name, "the outline", again="essay approve G2")
    if beyond := re.search(rb"(?m)^### Section (\d{4,20}):", data):
        number = beyond[1].decode()
        raise Refused(
            f"the outline has a section {number}", why=f"at most {model.MOST_SECTIONS} are allowed"
        )
    parsed = stage_files.outline(data)
    outline = Outline(parsed.total, parsed.titles, parsed.words, parsed.audience)
    return lambda moves: model.approve_outline(moves, kept, outline)


def _arguments(verb: _Verb, gate: Gate) -> Act:
    """Return the act for gate G3: the recorded argument map must still exist, and is saved."""
    looked, kept = Moves(verb.state), None
    try:
        section = model.find_section(looked, gate.section, 3)
    except Refused:
        # Read no file here: the act itself refuses this under the lock.
        return lambda moves: model.approve_section_arguments(moves, gate.section)
    path = looked.value(f"stage_3.section_{section}.argument_map_file")
    if path and looked.status(3, section) != "done":
        again = f"essay approve G3 --section {section}"
        kept, _ = verb.read(str(path), f"the argument map of section {section}", again=again)
    return lambda moves: model.approve_section_arguments(moves, gate.section, kept)


def _paragraph(verb: _Verb, gate: Gate, *, last: bool) -> Act:
    draft = _named(verb, "stage_4.draft_file", fields.DRAFT)
    has = verb.has(draft)
    log = verb.log(fields.DRAFT_LOG)

    def act(moves: Moves) -> None:
        section, number = model.approve_paragraph(
            moves, gate.paragraph, section=gate.section, last=last, draft=draft, log=log
        )
        if not has:
            again = f"essay paragraph done {number} --section {section}"
            raise verb.missing(draft, "the draft", again=again)
        verb.warnings[:] = _short_draft(verb, moves, draft, section, number)

    return act


def _short_draft(verb: _Verb, moves: Moves, draft: str, section: int, number: int) -> list[str]:
    """Return a warning if the draft has fewer paragraphs than are approved now."""
    data = files.read_optional(os.path.join(verb.folder, draft), _MOST) or b""
    titles = {n: _title(moves.state, n) for n in moves.sections(4)}
    written = stage_files.number_sections(stage_files.draft(data), titles).get(section)
    have = written.paragraphs if written else 0
    if have >= number:
        return []
    return [f"the draft has {have} paragraph{'s' * (have != 1)} in section {section}, not {number}"]


def _title(state: State, section: int) -> str:
    step = state.step(step_id(4, section)) or state.step(step_id(3, section))
    return step.title if step else ""


def _essay(verb: _Verb, *, confirm: bool) -> Act:
    """Return the act for gate G5; a final essay with the default file name is recorded with it."""
    recorded = Moves(verb.state).value("output.final_essay_file")
    name = str(recorded or fields.FINAL)
    found = verb.read(name, "the final essay", again="essay approve G5") if verb.has(name) else None

    def act(moves: Moves) -> None:
        if recorded and found is None:
            raise Refused(
                f"the final essay is missing: there is no {name}",
                why=f"looked for in {verb.folder}",
                legal=["essay output final-essay.md"],
            )
        if found is not None and moves.status(4) not in ("", "pending"):
            words = stage_files.words(found[1])
            parsed = moves.whole_number("output.total_word_count")
            if not recorded or parsed is None:
                model.record_output(moves, found[0], words=words)
            else:
                moves.save_artifact(found[0])
        model.approve_essay(moves, confirm=confirm)

    return act


# -- the topic ---------------------------------------------------------------------------------

_ASK = "how close does this sound to you, from 1 to 5? forestay essay calibrate N"


_SO_FAR = (
    ("output.final_essay_file", fields.FINAL),
    ("stage_4.draft_file", fields.DRAFT),
    ("stage_2.outline_file", fields.OUTLINE),
    ("stage_1.thesis_file", fields.THESIS),
)


class Essay(Topic):
    """The essay of a session; in a session without one, every method is refused."""

    @property
    def sections(self) -> Sections:
        """The sections of the essay."""
        return Sections(self._recorder)

    @property
    def claims(self) -> Claims:
        """The claims that could not be checked at once."""
        return Claims(self._recorder)

    def show(self) -> EssayText:
        """Return the essay so far: the file that contains most of it, and its text."""
        found = _Look(self._recorder)
        model.require_essay(found.state)
        for field, default in _SO_FAR:
            name = _named(found, field, default)
            path = os.path.join(found.folder, name)
            if found.has(name):
                text = files.read_bounded(path, _MOST).decode("utf-8", "replace")
                return EssayText(path, text)
        raise Refused(
            "there is no text of the essay yet",
            why=f"looked for in {found.folder}",
            hint=f"first write {fields.THESIS} there",
        )

    def approve(
        self,
        gate: str,
        *,
        section: int | None = None,
        paragraph: int | None = None,
        last: bool = False,
        confirm: bool = False,
        key: str = "",
    ) -> Done:
        """Record that the user approves the work at a gate: G1, G2, G3, G3-Final, G4, …

        G3 and the G4s are for a section, the current one unless named. `last` marks the last
        paragraph. `confirm` confirms the user's overrides, which G5 requires.
        """
        meant = parse_gate(gate, section, paragraph)
        verb = _Verb(self._recorder, key)
        act, log = _act_for(verb, meant, last=last, confirm=confirm)

        def is_same(body: Body) -> bool:
            if not isinstance(body, ev.CheckpointPassed) or body.evidence.get("gate") != meant.name:
                return False
            asked = {"section": meant.section, "paragraph": meant.paragraph}
            return all(n is None or body.evidence.get(word) == n for word, n in asked.items())

        return verb.do(act, is_same, log)

    def paragraph_done(
        self, number: int, *, section: int | None = None, last: bool = False, key: str = ""
    ) -> Done:
        """Record that the user approves a paragraph: the same as approving G4."""
        return self.approve("G4", section=section, paragraph=number, last=last, key=key)

    def calibrate(
        self,
        rating: int,
        *,
        notes: str = "",
        reference: str = "",
        again: bool = False,
        key: str = "",
    ) -> Done:
        """Record how much the first text sounds like the user, from 1 to 5; it is asked once."""
        model.require_score(rating, "the rating")
        if rating != int(rating):
            raise InvalidInput(
                f"the rating cannot be {rating}", why="it must be a whole number from 1 to 5"
            )
        if reference:
            _require_word("reference", reference, VOICE_MODES)
        if notes:
            notes = clean_input(notes, "notes", limit=_TEXT, lines=True)

        def act(moves: Moves) -> None:
            model.calibrate_voice(moves, int(rating), notes, reference, again=again)
            moves.message += f" – {notes}" if notes else ""

        field = "voice_calibration.first_assessment_user_rating"
        is_same = _sets(field, value=int(rating))
        return _Verb(self._recorder, key).do(act, is_same, VOICES)

    def voice(
        self,
        score: float | None,
        *,
        section: int | None = None,
        because: str = "",
        key: str = "",
    ) -> Done:
        """Record the voice score of a section, from 1 to 5; None, with a reason, if skipped."""
        if score is not None:
            model.require_score(score, "the voice score")
            score = int(score) if score == int(score) else score
        if section is not None:
            _require_section(section)
        verb = _Verb(self._recorder, key)
        looked = Moves(verb.state)
        first = looked.value("voice_calibration.first_assessment_user_rating") is None
        scored = any(_listed(looked, number).voice is not None for number in looked.sections())

        def is_same(body: Body) -> bool:
            if score is None:
                return isinstance(body, ev.NoteAdded)
            is_score = isinstance(body, ev.AttributeSet) and body.key.endswith(".voice_check_score")
            return is_score and body.value == score  # type: ignore[attr-defined]

        return verb.do(
            lambda moves: model.record_voice_check(moves, score, section, because),
            is_same,
            VOICES,
            action="" if score is None else model.action_for_score(score),
            ask=_ASK if first and not scored and score is not None else "",
        )

    def output(
        self,
        file: str,
        *,
        words: int | None = None,
        sources: int | None = None,
        voice: float | None = None,
        key: str = "",
    ) -> Done:
        """Record the file of the final essay; its words are counted unless given."""
        for word, value in (("words", words), ("sources", sources)):
            if value is not None and not 0 <= value < 1_000_000_000:
                raise InvalidInput(f"{word} cannot be {value}", why="it is a count")
        if voice is not None:
            model.require_score(voice, "the voice score")
        verb = _Verb(self._recorder, key)
        kept, data = verb.read(file, "the final essay", again="essay output final-essay.md")
        count = stage_files.words(data) if words is None else words

        def act(moves: Moves) -> None:
            model.record_output(moves, kept, words=count, sources=sources, voice=voice)

        return verb.do(act, _sets("output.final_essay_file", value=kept.path))

    def pushback(self, level: Pushback, *, key: str = "") -> Done:
        """Set how hard the essay's author wants to be questioned: full, light or minimal."""
        _require_word("level", level, PUSHBACK)
        verb = _Verb(self._recorder, key)
        log = fields.THESIS_LOG if Moves(verb.state).position()[0] == 1 else ""
        is_same = _sets("pushback_level", value=level)
        return verb.do(lambda moves: model.set_pushback(moves, level), is_same, log)


class Sections(Topic):
    """Sections of an essay."""

    def list(self) -> builtins.list[SectionListed]:
        """Return the sections, each with the status of its argument map and its paragraphs."""
        state = essay_sessions.state_of(self._recorder)
        model.require_essay(state)
        moves = model.with_paired_sections(state)
        return [_listed(moves, number) for number in moves.sections()]

    def add(self, number: int, *, title: str = "", key: str = "") -> Done:
        """Add a section; those of the outline are added when it is approved."""
        if title:
            title = clean_input(title, "title", limit=500, lines=False)
        _require_section(number)
        is_same = _same(ev.StepAdded, step=step_id(3, number))
        verb = _Verb(self._recorder, key)
        return verb.do(lambda moves: model.add_section(moves, number, title), is_same)

    def start(self, number: int, *, stage: int | None = None, key: str = "") -> Done:
        """Start work on a section: its argument map (stage 3) or, after that, its paragraphs."""
        _require_section(number)
        if stage not in (None, 3, 4):
            raise InvalidInput(
                f"stage {stage} has no sections", why="only stages 3 and 4 have sections"
            )

        def is_same(body: Body) -> bool:
            places = [step_id(n, number) for n in (3, 4) if stage in (None, n)]
            return isinstance(body, ev.AttributeSet) and body.value in places

        verb = _Verb(self._recorder, key)
        return verb.do(lambda moves: model.start_section(moves, number, stage), is_same)

    def done(
        self,
        number: int,
        *,
        map: str = "",
        verified: int | None = None,
        deferred: int | None = None,
        key: str = "",
    ) -> Done:
        """Record the argument map of a section; once G3 is approved too, its stage 3 is complete.

        The numbers of verified and deferred claims are counted in the map unless given.
        """
        _require_section(number)
        for word, value in (("verified", verified), ("deferred", deferred)):
            if value is not None and not 0 <= value < 1_000_000:
                raise InvalidInput(f"{word} cannot be {value}", why="it is a count")
        verb, field = _Verb(self._recorder, key), f"stage_3.section_{number}.argument_map_file"
        kept = _NOTHING
        if not (_is_over(verb) or Moves(verb.state).status(3, number) in ("", "done")):
            name = map or _named(verb, field, fields.ARGUMENTS.format(number))
            again = f"essay section done {number} --map {fields.ARGUMENTS.format(number)}"
            kept, data = verb.read(name, f"the argument map of section {number}", again=again)
            parsed = stage_files.arguments(data)
            verified = parsed.verified if verified is None else verified
            deferred = parsed.deferred if deferred is None else deferred

        def act(moves: Moves) -> None:
            model.record_map(moves, number, kept, verified=verified, deferred=deferred)

        return verb.do(act, _sets(field), FACTS)


def _require_section(number: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 999_999:
        raise InvalidInput(f"there is no section {number}", why="sections are counted from 1")


def _listed(moves: Moves, number: int) -> SectionListed:
    arguments, writing = f"stage_3.section_{number}", f"stage_4.section_{number}"
    row = moves.state.rows.get("checkpoint", step_id(3, number))
    voice = moves.value(f"{writing}.voice_check_score")
    return SectionListed(
        number=number,
        title=_title(moves.state, number),
        arguments=moves.status(3, number),
        map=str(moves.value(f"{arguments}.argument_map_file") or ""),
        approved=getattr(row, "verdict", "") in ("passed", "overridden"),
        verified=moves.count(f"{arguments}.verified_claims"),
        deferred=moves.count(f"{arguments}.deferred_claims"),
        paragraphs=moves.status(4, number),
        completed=moves.completed(number),
        total=moves.whole_number(f"{writing}.total_paragraphs"),
        voice=voice if isinstance(voice, int | float) else None,
    )


class Claims(Topic):
    """Claims of an essay that have to be checked before G5."""

    def list(self) -> builtins.list[ClaimInfo]:
        """Return every claim that was deferred, with its result."""
        return [ClaimInfo(row) for row in read_rows(self._recorder, "claim")]

    def defer(
        self,
        text: str,
        *,
        reason: DeferReason,
        section: int | None = None,
        paragraph: int | None = None,
        key: str = "",
    ) -> Done:
        """Record that a claim could not be checked now, and for which of three reasons."""
        text = clean_input(text, "claim", limit=_TEXT, lines=True)
        _require_word("reason", reason, DEFER_REASONS)
        if section is not None:
            _require_section(section)
        if paragraph is not None and not 1 <= paragraph <= 999_999:
            raise InvalidInput(f"there is no paragraph {paragraph}")
        kept = self._context.journal.redact(text)

        def act(moves: Moves) -> None:
            model.defer_claim(moves, kept, reason, section, paragraph)
            moves.message += f" – {kept}"

        return _Verb(self._recorder, key).do(act, _same(ev.ClaimDeferred, text=kept), FACTS)

    def resolve(
        self, id: str, *, result: FactCheck = "verified", sources: Sequence[str] = (), key: str = ""
    ) -> Done:
        """Record that a deferred claim was checked, with the result and the sources used."""
        _require_word("result", result, FACT_CHECKS)
        used = [clean_input(source, "source", limit=1000, lines=False) for source in sources]

        def act(moves: Moves) -> None:
            model.resolve_claim(moves, id, result, used)
            moves.message += "".join(f"; {source}" for source in used)

        return _Verb(self._recorder, key).do(act, _same(ev.ClaimResolved, claim=id), FACTS)

    def override(self, id: str, *, result: FactCheck, because: str, key: str = "") -> Done:
        """Record that the user accepts a claim although the check disagrees, and why."""
        _require_word("result", result, FACT_CHECKS)

        def act(moves: Moves) -> None:
            model.override_claim(moves, id, result, because)
            moves.message += f", because {because}"

        return _Verb(self._recorder, key).do(act, _same(ev.ClaimOverridden, claim=id), FACTS)


def _require_word(what: str, word: str, words: Sequence[str]) -> None:
    if word not in words:
        raise InvalidInput(f"the {what} cannot be {word}", why=f"it is one of {', '.join(words)}")
