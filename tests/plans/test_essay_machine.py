"""An essay against a simple oracle: any methods, allowed or not, with restarts between them.

The oracle knows stages, sections and paragraphs in the words of document S3 and nothing of
journals. After every move the file of the session must agree, and be without an error by the
rules of its format.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

import forestay
from forestay import Forestay, Session
from forestay.base.clock import FakeClock
from forestay.base.words import DeferReason
from forestay.errors import Refused
from forestay.formats.port import ERROR
from forestay.formats.text.document import Document

NO, NOW, DONE = "not_started", "in_progress", "completed"
NUMBERS = st.integers(1, 4)
FILES = ["stage-1-thesis.md", "stage-2-outline.md", "stage-4-draft.md", "final-essay.md"]
MAPS = [f"stage-3-section-{n}-arguments.md" for n in (1, 2, 3, 4)]


def outline(sections: int) -> str:
    return "\n".join(f"### Section {n}: Part {n} (~100 words)" for n in range(1, sections + 1))


class Oracle:
    """The state of an essay by the rules of document S3, in plain values."""

    def __init__(self) -> None:
        self.status = "active"
        self.stages = {1: NOW, 2: NO, 3: NO, 4: NO}
        self.outlined = 0
        self.files: set[str] = set()
        self.arguments: dict[int, str] = {}
        self.writing: dict[int, str] = {}
        self.mapped: set[int] = set()
        self.approved: set[int] = set()
        self.completed: dict[int, int] = {}
        self.total: dict[int, int | None] = {}
        self.claims: list[dict[str, Any]] = []
        self.here: tuple[int, int | None] = (1, None)
        self.sections_now: dict[int, int | None] = {3: None, 4: None}
        self.paragraph: int | None = None
        self.output = False

    @property
    def works(self) -> bool:
        return self.status == "active"

    def add(self, section: int) -> None:
        self.arguments[section] = self.writing[section] = NO
        self.completed[section], self.total[section] = 0, None

    def go(self, stage: int, section: int | None) -> None:
        self.here = (stage, section)
        if stage in self.sections_now:
            self.sections_now[stage] = section
        if stage == 4:
            self.paragraph = None if section is None else self.completed[section] + 1

    def go_on(self, stage: int) -> None:
        units = self.arguments if stage == 3 else self.writing
        running = [n for n, word in units.items() if word == NOW]
        ready = [n for n, word in units.items() if word == NO]
        if stage == 4:
            waiting, ready = ready, [n for n in ready if self.arguments[n] == DONE]
            if not running and not ready and waiting and self.stages[3] != DONE:
                return self.go_on(3)
        if not running and ready:
            units[ready[0]] = NOW
        self.go(stage, next(iter(running or ready), None))

    def argued(self, section: int) -> None:
        """A section of stage 3 is done when it is both mapped and approved."""
        self.arguments[section] = NOW
        if section in self.mapped and section in self.approved:
            self.arguments[section] = DONE
            self.go_on(3)
        else:
            self.go(3, section)

    def may_argue(self, section: int) -> bool:
        open = self.arguments.get(section) in (NO, NOW)
        return self.works and open and self.stages[3] == NOW

    def may_write(self, section: int) -> bool:
        return (
            self.works
            and self.writing.get(section) in (NO, NOW)
            and self.arguments[section] == DONE
        )

    def may_end(self, confirm: bool) -> bool:
        written = bool(self.writing) and all(word == DONE for word in self.writing.values())
        stages = all(self.stages[n] == DONE for n in (1, 2, 3))
        settled = all(claim["resolved"] for claim in self.claims)
        stood = any(claim["result"] for claim in self.claims)
        final = FILES[3] in self.files
        return self.works and written and stages and settled and (confirm or not stood) and final


class Essays(RuleBasedStateMachine):
    stay: Forestay

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="forestay-essay-"))
        self.clock = FakeClock()
        self.oracle = Oracle()
        self.place = Path()
        self.ahead = False
        """Whether sections are written as soon as they can be."""

    @initialize(steps=st.sampled_from(range(14)), ahead=st.booleans(), claims=st.integers(0, 2))
    def begin(self, steps: int, ahead: bool, claims: int) -> None:
        (self.folder / "project").mkdir()
        self.stay = self.opened()
        session = self.stay.start("an essay", workflow="essay", formats=["essay"], id="it")
        self.place = Path(session.files.list()[0].root)
        self.ahead = ahead
        for _ in range(claims):
            self.defer_a_claim(None, "timeout")
        for _ in range(steps):
            self._one_step()

    def opened(self) -> Forestay:
        where = {"cwd": str(self.folder / "project"), "clock": self.clock}
        return forestay.open(str(self.folder / "home"), **where)  # type: ignore[arg-type]

    @property
    def session(self) -> Session:
        return self.stay.session("it")

    def attempt(self, allowed: bool, act: Callable[[], object]) -> bool:
        """Call it; it must be refused exactly if the oracle forbids it, and then change nothing."""
        before = self.session.status().seq
        self.clock.sleep(1)
        try:
            act()
        except Refused:
            assert not allowed
            assert self.session.status().seq == before
            return False
        assert allowed
        return True

    # -- surroundings --------------------------------------------------------------------------

    @rule(name=st.sampled_from([*FILES, *MAPS]), sections=st.integers(1, 3))
    def write_a_file(self, name: str, sections: int) -> None:
        if name == FILES[1]:
            self.oracle.outlined = sections
        text = outline(sections) if name == FILES[1] else f"words of {name}, {sections}\n"
        (self.place / name).write_text(text)
        self.oracle.files.add(name)

    @rule()
    def write_everything(self) -> None:
        for name in (*FILES, *MAPS):
            if name not in self.oracle.files:
                self.write_a_file(name, 2)

    @rule()
    def the_process_restarts(self) -> None:
        self.stay.close()
        self.stay = self.opened()

    @rule()
    def pause(self) -> None:
        if self.attempt(self.oracle.works, lambda: self.session.pause()):
            self.oracle.status = "paused"

    @rule()
    def resume(self) -> None:
        if self.attempt(self.oracle.status != DONE, lambda: self.session.resume()):
            self.oracle.status = "active"

    @rule()
    def complete_without_a_gate(self) -> None:
        self.attempt(False, lambda: self.session.complete())

    @rule(steps=st.integers(1, 8))
    def go_forward(self, steps: int) -> None:
        """Take the next steps in order: chance alone would seldom get far."""
        for _ in range(steps):
            self._one_step()
            self.the_file_agrees()

    def _one_step(self) -> None:
        oracle = self.oracle
        argue = next((n for n, word in oracle.arguments.items() if word != DONE), None)
        ready = [n for n, word in oracle.writing.items() if word != DONE and oracle.may_write(n)]
        write = next(iter(ready), None)
        if oracle.status == "paused":
            self.resume()
        self.write_everything()
        if oracle.stages[1] != DONE:
            self.approve_the_thesis()
        elif oracle.stages[2] != DONE:
            self.approve_the_outline()
        elif argue is not None and not (self.ahead and write):
            known = argue in oracle.mapped
            self.approve_arguments(argue) if known else self.record_a_map(argue)
        elif oracle.stages[3] != DONE and write is None:
            self.approve_all_arguments()
        elif write is not None and not oracle.completed[write]:
            self.approve_a_paragraph(write, 0, False)
        elif write is not None:
            self.approve_a_written_section(write, True)
        elif oracle.works:
            self.approve_the_essay(False)
            for number in range(1, len(oracle.claims) + 1):
                self.settle_a_claim(number, "verified")
            self.approve_the_essay(True)

    # -- gates ---------------------------------------------------------------------------------

    @rule()
    def approve_the_thesis(self) -> None:
        oracle = self.oracle
        allowed = oracle.works and oracle.stages[1] == NOW and FILES[0] in oracle.files
        if self.attempt(allowed, lambda: self.session.essay.approve("G1")):
            oracle.stages |= {1: DONE, 2: NOW}
            oracle.go(2, None)

    @rule()
    def approve_the_outline(self) -> None:
        oracle = self.oracle
        ready = oracle.stages[1] == DONE and oracle.stages[2] == NOW
        allowed = oracle.works and ready and FILES[1] in oracle.files
        if self.attempt(allowed, lambda: self.session.essay.approve("g2")):
            oracle.stages |= {2: DONE, 3: NOW}
            for section in [n for n in oracle.arguments if n > oracle.outlined]:
                del oracle.arguments[section], oracle.writing[section]
            for section in range(1, oracle.outlined + 1):
                if section not in oracle.arguments:
                    oracle.add(section)
            oracle.go_on(3)

    @rule(section=NUMBERS)
    def approve_arguments(self, section: int) -> None:
        oracle = self.oracle
        again = oracle.arguments.get(section) == NOW and section in oracle.approved
        allowed = oracle.may_argue(section) and not again
        if self.attempt(allowed, lambda: self.session.essay.approve(f"G3.{section}")):
            oracle.approved.add(section)
            oracle.argued(section)

    @rule()
    def approve_all_arguments(self) -> None:
        oracle = self.oracle
        argued = bool(oracle.arguments) and set(oracle.arguments.values()) == {DONE}
        allowed = oracle.works and oracle.stages[3] == NOW and argued
        if self.attempt(allowed, lambda: self.session.essay.approve("G3-Final")):
            oracle.stages |= {3: DONE, 4: NOW}
            oracle.go_on(4)

    @rule(section=NUMBERS, off=st.integers(-1, 1), last=st.booleans())
    def approve_a_paragraph(self, section: int, off: int, last: bool) -> None:
        oracle = self.oracle
        number = max(1, oracle.completed.get(section, 0) + 1 + off)
        total = oracle.total.get(section)
        fits = number == oracle.completed.get(section, 0) + 1 and number <= (total or number)
        allowed = oracle.may_write(section) and fits and FILES[2] in oracle.files

        def act() -> None:
            self.session.essay.paragraph_done(number, section=section, last=last)

        if self.attempt(allowed, act):
            oracle.stages[4] = oracle.writing[section] = NOW
            oracle.completed[section] = number
            if last:
                oracle.total[section] = number
            oracle.go(4, section)

    @rule(section=NUMBERS, last=st.booleans())
    def approve_a_written_section(self, section: int, last: bool) -> None:
        oracle = self.oracle
        done, total = oracle.completed.get(section, 0), oracle.total.get(section)
        whole = done > 0 and (done == total or (total is None and last))
        allowed = oracle.works and oracle.writing.get(section) == NOW and whole

        def act() -> None:
            self.session.essay.approve("G4-Section", section=section, last=last)

        if self.attempt(allowed, act):
            oracle.total[section], oracle.writing[section] = done, DONE
            oracle.go_on(4)

    @rule(confirm=st.booleans())
    def approve_the_essay(self, confirm: bool) -> None:
        oracle = self.oracle
        if self.attempt(
            oracle.may_end(confirm), lambda: self.session.essay.approve("G5", confirm=confirm)
        ):
            oracle.status, oracle.stages[4], oracle.output = DONE, DONE, True

    # -- sections ------------------------------------------------------------------------------

    @rule(off=st.integers(-1, 1))
    def add_a_section(self, off: int) -> None:
        oracle = self.oracle
        section = len(oracle.arguments) + 1 + off
        if section < 1 or section > 4:
            return
        allowed = oracle.works and not off and oracle.stages[3] != DONE
        if self.attempt(allowed, lambda: self.session.essay.sections.add(section)):
            oracle.add(section)

    @rule(section=NUMBERS, stage=st.sampled_from([None, 3, 4]))
    def start_a_section(self, section: int, stage: int | None) -> None:
        oracle = self.oracle
        meant = stage or (4 if oracle.arguments.get(section) == DONE else 3)
        may = oracle.may_argue if meant == 3 else oracle.may_write
        if self.attempt(
            may(section), lambda: self.session.essay.sections.start(section, stage=stage)
        ):
            if meant == 4:
                oracle.stages[4] = oracle.writing[section] = NOW
            else:
                oracle.arguments[section] = NOW
            oracle.go(meant, section)

    @rule(section=NUMBERS)
    def record_a_map(self, section: int) -> None:
        oracle = self.oracle
        allowed = oracle.may_argue(section) and MAPS[section - 1] in oracle.files
        if self.attempt(allowed, lambda: self.session.essay.sections.done(section)):
            oracle.mapped.add(section)
            oracle.argued(section)

    # -- claims, voice, output -----------------------------------------------------------------

    @rule(section=st.one_of(st.none(), NUMBERS), reason=st.sampled_from(["timeout", "no_results"]))
    def defer_a_claim(self, section: int | None, reason: DeferReason) -> None:
        oracle = self.oracle
        allowed = oracle.works and (section is None or section in oracle.arguments)
        text = f"claim {len(oracle.claims) + 1}"
        where = oracle.here[1] if section is None else section
        act = lambda: self.session.essay.claims.defer(text, reason=reason, section=section)  # noqa: E731  # type: ignore[arg-type]
        if self.attempt(allowed, act):
            made = {"claim_text": text, "section": where, "reason": reason}
            oracle.claims.append({**made, "resolved": False, "result": ""})

    @rule(number=NUMBERS, result=st.sampled_from(["verified", "contested"]))
    def settle_a_claim(self, number: int, result: str) -> None:
        oracle = self.oracle
        claim = oracle.claims[number - 1] if number <= len(oracle.claims) else None
        allowed = oracle.works and claim is not None and not claim["resolved"]

        def act() -> None:
            if result == "verified":
                self.session.essay.claims.resolve(f"c{number}", sources=["a book"])
            else:
                self.session.essay.claims.override(f"c{number}", result=result, because="I know")  # type: ignore[arg-type]

        if self.attempt(allowed, act) and claim is not None:
            claim |= {"resolved": True, "result": "" if result == "verified" else result}

    @rule(section=NUMBERS, score=st.integers(1, 5))
    def check_the_voice(self, section: int, score: int) -> None:
        oracle = self.oracle
        allowed = oracle.works and oracle.writing.get(section) in (NOW, DONE)
        self.attempt(allowed, lambda: self.session.essay.voice(score, section=section))

    @rule()
    def record_the_output(self) -> None:
        oracle = self.oracle
        allowed = oracle.works and oracle.stages[4] != NO and FILES[3] in oracle.files
        if self.attempt(allowed, lambda: self.session.essay.output(FILES[3])):
            oracle.output = True

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def the_file_agrees(self) -> None:
        if not self.place.name:
            return
        oracle, file = self.oracle, self.place / "session-state.yaml"
        doc = Document.parse(file.read_bytes(), "yaml").value
        words = {"active": NOW, "paused": "paused", DONE: DONE}
        assert doc["status"] == words[oracle.status]
        assert doc["current_stage"] == oracle.here[0]
        for stage, word in oracle.stages.items():
            assert doc["stages"][f"stage_{stage}"]["status"] == word
        self._sections_agree(doc["stages"])
        reported = [
            {key: entry[key] for key in ("claim_text", "section", "reason", "resolved")}
            for entry in doc["deferred_verifications"]
        ]
        assert reported == [{k: v for k, v in c.items() if k != "result"} for c in oracle.claims]
        stood = [claim["claim_text"] for claim in oracle.claims if claim["result"]]
        assert sorted(entry["claim_text"] for entry in doc["user_overrides"]) == sorted(stood)
        assert (doc["output"]["final_essay_file"] is not None) == oracle.output
        (report,) = self.stay.files.check(str(file))
        assert [f.what for f in report.findings if f.severity == ERROR] == []

    def _sections_agree(self, stages: dict[str, Any]) -> None:
        oracle, third, fourth = self.oracle, stages["stage_3"], stages["stage_4"]
        argued = {entry["section_index"]: entry["status"] for entry in third["sections"]}
        assert argued == oracle.arguments
        mapped = {e["section_index"] for e in third["sections"] if e["argument_map_file"]}
        assert mapped == oracle.mapped
        written = {entry["section_index"]: entry for entry in fourth["sections"]}
        for section, word in oracle.writing.items():
            assert written[section]["status"] == word
            assert written[section]["completed_paragraphs"] == oracle.completed[section]
            assert written[section]["total_paragraphs"] == oracle.total[section]
        now = (third["current_section"], fourth["current_section"], fourth["current_paragraph"])
        assert now == (oracle.sections_now[3], oracle.sections_now[4], oracle.paragraph)

    @invariant()
    def the_status_agrees(self) -> None:
        if self.place.name:
            shown = self.session.status()
            assert shown.status == self.oracle.status
            done = [n for n, word in self.oracle.stages.items() if word == DONE]
            assert shown.as_json()["phase"]["completed"] == done
            assert shown.as_json()["phase"]["current"] == self.oracle.here[0]

    def teardown(self) -> None:
        try:
            if self.place.name:
                assert self.session.verify().ok
                self.stay.close()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)


@pytest.mark.req("X3-2", "X3-3", "X3-4")
def test_essay_agrees_with_the_oracle_after_any_methods_and_restarts() -> None:
    options = settings(max_examples=12, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(Essays, settings=options)
