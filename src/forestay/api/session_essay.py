"""The essay of a session: approvals, sections, claims, voice, output."""

from __future__ import annotations

from forestay.api.topic import Topic
from forestay.api.values import ClaimInfo
from forestay.plans import essay_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence

    from forestay.api.words import DeferReason, FactCheck, Pushback
    from forestay.plans.essay_steps import Done, EssayText, SectionListed


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
        return essay_steps.so_far(self._recorder)

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
        return essay_steps.approve(
            self._recorder,
            gate,
            section=section,
            paragraph=paragraph,
            last=last,
            confirm=confirm,
            key=key,
        )

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
        """Record how close the first voice result sounds to the user, 1 to 5; asked once."""
        return essay_steps.calibrate(
            self._recorder, rating, notes=notes, reference=reference, again=again, key=key
        )

    def voice(
        self,
        score: float | None,
        *,
        section: int | None = None,
        because: str = "",
        key: str = "",
    ) -> Done:
        """Record the voice check of a section, 1 to 5; None if it was skipped, with the reason."""
        return essay_steps.voice(self._recorder, score, section=section, because=because, key=key)

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
        return essay_steps.output(
            self._recorder, file, words=words, sources=sources, voice=voice, key=key
        )

    def pushback(self, level: Pushback, *, key: str = "") -> Done:
        """Set how hard the essay's author wants to be questioned: full, light or minimal."""
        return essay_steps.pushback(self._recorder, level, key=key)


class Sections(Topic):
    """Sections of an essay."""

    def list(self) -> builtins.list[SectionListed]:
        """Return the sections, each with the status of its arguments and its paragraphs."""
        return essay_steps.sections(self._recorder)

    def add(self, number: int, *, title: str = "", key: str = "") -> Done:
        """Add a section; those of the outline are added when it is approved."""
        return essay_steps.section_add(self._recorder, number, title=title, key=key)

    def start(self, number: int, *, stage: int | None = None, key: str = "") -> Done:
        """Start work on a section: on its arguments or, once they are complete, its paragraphs."""
        return essay_steps.section_start(self._recorder, number, stage=stage, key=key)

    def done(
        self,
        number: int,
        *,
        map: str = "",
        verified: int | None = None,
        deferred: int | None = None,
        key: str = "",
    ) -> Done:
        """Record the argument map of a section; with G3 approved that completes its arguments.

        The numbers of verified and deferred claims are counted in the map unless given.
        """
        return essay_steps.section_done(
            self._recorder, number, map=map, verified=verified, deferred=deferred, key=key
        )


class Claims(Topic):
    """Claims of an essay that have to be checked before G5."""

    def list(self) -> builtins.list[ClaimInfo]:
        """Return every claim that was deferred, with its result."""
        return [ClaimInfo(row) for row in self._rows("claim")]

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
        return essay_steps.claim_defer(
            self._recorder, text, reason=reason, section=section, paragraph=paragraph, key=key
        )

    def resolve(
        self, id: str, *, result: FactCheck = "verified", sources: Sequence[str] = (), key: str = ""
    ) -> Done:
        """Record that a deferred claim was checked, with the result and the sources used."""
        return essay_steps.claim_resolve(
            self._recorder, id, result=result, sources=sources, key=key
        )

    def override(self, id: str, *, result: FactCheck, because: str, key: str = "") -> Done:
        """Record that the user accepts a claim although the check disagrees, and why."""
        return essay_steps.claim_override(
            self._recorder, id, result=result, because=because, key=key
        )
