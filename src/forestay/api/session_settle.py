"""Verbs for what devices contradict each other about: laying it before the user, settling it."""

from __future__ import annotations

from forestay.api.session_base import SessionBase
from forestay.errors import InvalidInput, Refused
from forestay.mirror.session_files import absorb_file_edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from forestay.model.disputes import Case, Seat
    from forestay.model.event import Body, Event
    from forestay.model.state import State


class SettleVerbs(SessionBase):
    """Disputes of a session, and how they end."""

    def disputes(self) -> list[Case]:
        """What is disputed now: the sides, and which of them is newer; oldest first."""
        from forestay.model.disputes import cases

        return cases(*self._heard())

    def devices(self) -> list[Seat]:
        """Every device that wrote, with what it knew of the session; who wrote last is first."""
        from forestay.model.disputes import seats

        return seats(self._heard()[0])

    def settle(
        self,
        dispute: str = "",
        *,
        prefer: str | int = "",
        merge: bool = False,
        keep_both: bool = False,
        because: str = "",
        key: str = "",
    ) -> Event:
        """Settle a dispute, or all of them: what stands is stated again, both sides are kept.

        `dispute` is its number, its subject (`step:t1`) or what it is about (`t1`). `prefer` is
        the number of a side or its device, by name or id.
        """
        from forestay.journal.journal import AppendOptions  # start-up

        way = _way(prefer, merge, keep_both)
        if before := self.called_before(key, lambda body: True):
            return before[-1]
        events, state = self._heard()
        chosen = [(case, self._side(case, prefer)) for case in self._cases(dispute)]
        bodies = [
            body
            for case, number in chosen
            for body in self._settling(case, way, number, because, state, events)
        ]
        return self.record(key=key, options=AppendOptions(make=_unless_changed(chosen, bodies)))

    def _heard(self) -> tuple[list[Event], State]:
        from forestay.model.fold import fold

        absorb_file_edits(self.context, self.id)
        with self.context.store.view(self.id) as view:
            events = list(self.context.journal.events(view))
        return events, fold(events)

    def _cases(self, dispute: str) -> list[Case]:
        found = self.disputes()
        if not found:
            raise Refused(f"nothing is disputed in session {self.id}", hint="forestay status")
        meant = [case for case in found if _is_meant(case, dispute)] if dispute else found
        meant = meant or [case for case in found if _begins(case, dispute)]
        if not meant or (dispute and len(meant) > 1):
            told = ", ".join(f"{case.number} ({case.about})" for case in found)
            what = "several disputes match" if meant else "there is no dispute"
            raise InvalidInput(f"{what} {dispute}", why=f"they are {told}", hint="forestay settle")
        return meant

    def _side(self, case: Case, prefer: str | int) -> int:
        if prefer == "":
            return 0
        wanted = str(prefer)
        if wanted.isdigit() and 1 <= int(wanted) <= len(case.sides):
            return int(wanted)
        found = [s.number for s in case.sides if self._is_of(wanted, s.device, s.outcome)]
        if len(found) == 1:
            return found[0]
        told = ", ".join(
            f"{s.number} ({s.outcome}, {self._device_name(s.device)})" for s in case.sides
        )
        hint = f"forestay settle {case.number} --prefer {case.newer}"
        raise InvalidInput(f"{wanted} is no one side of {case.about}", why=told, hint=hint)

    def _device_name(self, device: str) -> str:
        from forestay.sync.device_names import name_of  # start-up

        return name_of(self.context, device)

    def _is_of(self, wanted: str, device: str, outcome: str) -> bool:
        names = (device, self._device_name(device), outcome.removeprefix("the "))
        return wanted.casefold() in (name.casefold() for name in names)

    def _settling(
        self, case: Case, way: str, number: int, because: str, state: State, events: list[Event]
    ) -> Sequence[Body]:
        from forestay.model.disputes import note_of, settling

        known, named = {event.id: event for event in events}, self._device_name
        bodies = settling(case, way, number, state, known, named)
        if way == "merge" and case.kind == "file":
            bodies = [self._as_it_is(body) for body in bodies]
        return [*bodies, note_of(case, way, number, because, named)]

    def _as_it_is(self, body: Any) -> Body:
        """A file that was merged by hand is what it is now."""
        from msgspec.structs import replace

        from forestay.workspace.file_changes import complete_change

        tree, now = self.context.workspace.tree, self.context.clock.now()
        return complete_change(replace(body, action=""), tree, None, now)[0]


def _way(prefer: str | int, merge: bool, keep_both: bool) -> str:
    asked = {"prefer": prefer != "", "merge": merge, "keep-both": keep_both}
    ways = [way for way, is_asked in asked.items() if is_asked]
    if len(ways) != 1:
        what = "no way of settling is named" if not ways else "more than one way is named"
        hint = "forestay settle DISPUTE --prefer N | --merge | --keep-both"
        raise InvalidInput(what, hint=hint)
    return ways[0]


def _is_meant(case: Case, dispute: str) -> bool:
    names = (str(case.number), case.subject, case.about, case.subject.partition(":")[2])
    return dispute in names or dispute.replace("task:", "step:", 1) == case.subject


def _begins(case: Case, dispute: str) -> bool:
    """Ids of decisions end in digits that nobody remembers."""
    return not dispute.isdigit() and case.subject.partition(":")[2].startswith(dispute)


def _unless_changed(chosen: list[tuple[Case, int]], bodies: list[Body]) -> Any:
    """The moves, if what they settle is still what the user was shown."""

    def made(state: State) -> list[Body]:
        for case, _ in chosen:
            row: Any = state.rows.get("dispute", case.subject)
            if row is None or not row.is_open or len(row.sides) != _count(case):
                raise Refused(f"{case.about} changed just now", hint="look again: forestay settle")
        return bodies

    return made


def _count(case: Case) -> int:
    """How many sides the journal has: the other one of a file is the journal itself."""
    return 1 if case.kind == "edit" else len(case.sides)
