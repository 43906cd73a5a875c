"""Disputes between devices of the user, and how the user settles them."""

from __future__ import annotations

from forestay.api.values import DeviceViewInfo, DisputeInfo
from forestay.errors import InvalidInput, Refused
from forestay.journal.journal import AppendOptions
from forestay.journal.topics import Topic
from forestay.mirror.session_files import absorb_file_edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence
    from typing import Any

    from forestay.model.disputes import Case
    from forestay.model.event import Body, Event
    from forestay.model.state import State


class Disputes(Topic):
    """Disputes of a session: fields to which two devices gave different values."""

    def list(self, dispute: str = "") -> builtins.list[DisputeInfo]:
        """Return the open disputes, oldest first, with their sides and which of them is newer.

        With `dispute`, return only that one; see `settle` for its forms.
        """
        found = self._cases()
        return [DisputeInfo(case) for case in (self._named(found, dispute) if dispute else found)]

    def _cases(self) -> builtins.list[Case]:
        from forestay.model.disputes import cases

        return cases(*self._read())

    def devices(self) -> builtins.list[DeviceViewInfo]:
        """Return every device that recorded something, with the events it knew; latest
        first."""
        from forestay.model.disputes import device_views

        return [DeviceViewInfo(one) for one in device_views(self._read()[0])]

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
        """Settle a dispute, or all of them: record the chosen value again; both sides stay in the
        log.

        `dispute` is its number, its subject (`step:t1`) or the id in it (`t1`). `prefer` is
        the number of a side or its device, by name or id.
        """
        way = _chosen_way(prefer, merge, keep_both)
        if before := self._recorder.called_before(key, lambda body: True):
            return before[-1]
        events, state = self._read()
        chosen = [(case, self._side(case, prefer)) for case in self._chosen(dispute)]
        bodies = [
            body
            for case, number in chosen
            for body in self._settling_events(case, way, number, because, state, events)
        ]
        return self._recorder.record(
            key=key, options=AppendOptions(make=_require_unchanged(chosen, bodies))
        )

    def _read(self) -> tuple[builtins.list[Event], State]:
        from forestay.model.fold import fold

        absorb_file_edits(self._context, self._recorder.id)
        with self._context.store.view(self._recorder.id) as view:
            events = [*self._context.journal.events(view)]
        return events, fold(events)

    def _chosen(self, dispute: str) -> builtins.list[Case]:
        """Return the disputes to settle; raise if there are none."""
        found = self._cases()
        return self._named(found, dispute) if dispute or not found else found

    def _named(self, found: builtins.list[Case], dispute: str) -> builtins.list[Case]:
        if not found:
            raise Refused(
                f"nothing is disputed in session {self._recorder.id}", hint="forestay status"
            )
        named = [case for case in found if _is_named(case, dispute)]
        named = named or [case for case in found if _is_prefix(case, dispute)]
        if len(named) != 1:
            names = ", ".join(f"{case.number} ({case.about})" for case in found)
            what = "several disputes match" if named else "there is no dispute"
            raise InvalidInput(
                f"{what} {dispute}", why=f"the disputes are {names}", hint="forestay settle"
            )
        return named

    def _side(self, case: Case, prefer: str | int) -> int:
        if prefer == "":
            return 0
        wanted = str(prefer)
        if wanted.isdigit() and 1 <= int(wanted) <= len(case.sides):
            return int(wanted)
        found = [s.number for s in case.sides if self._is_side_of(wanted, s.device, s.outcome)]
        if len(found) == 1:
            return found[0]
        sides = ", ".join(
            f"{s.number} ({s.outcome}, {self._device_name(s.device)})" for s in case.sides
        )
        hint = f"forestay settle {case.number} --prefer {case.newer}"
        raise InvalidInput(f"{wanted} is not one side of {case.about}", why=sides, hint=hint)

    def _device_name(self, device: str) -> str:
        from forestay.sync.device_names import name_of  # start-up

        return name_of(self._context, device)

    def _is_side_of(self, wanted: str, device: str, outcome: str) -> bool:
        names = (device, self._device_name(device), outcome.removeprefix("the "))
        return wanted.casefold() in (name.casefold() for name in names)

    def _settling_events(
        self,
        case: Case,
        way: str,
        number: int,
        because: str,
        state: State,
        events: builtins.list[Event],
    ) -> Sequence[Body]:
        from forestay.model.disputes import events_to_settle, settlement_note

        known, named = {event.id: event for event in events}, self._device_name
        bodies = events_to_settle(case, way, number, state, known, named)
        if way == "merge" and case.kind == "file":
            bodies = [self._with_file_now(body) for body in bodies]
        return [*bodies, settlement_note(case, way, number, because, named)]

    def _with_file_now(self, body: Any) -> Body:
        """Return the file event with the file's present content, in which the user merged both."""
        from msgspec.structs import replace

        from forestay.workspace.file_changes import complete_change

        tree, now = self._context.workspace.tree, self._context.clock.now()
        return complete_change(replace(body, action=""), tree, None, now)[0]


def _chosen_way(prefer: str | int, merge: bool, keep_both: bool) -> str:
    given = {"prefer": prefer != "", "merge": merge, "keep-both": keep_both}
    ways = [way for way, is_given in given.items() if is_given]
    if len(ways) != 1:
        what = "no way to settle is given" if not ways else "more than one way to settle is given"
        hint = "forestay settle DISPUTE --prefer N | --merge | --keep-both"
        raise InvalidInput(what, hint=hint)
    return ways[0]


def _is_named(case: Case, dispute: str) -> bool:
    names = (str(case.number), case.subject, case.about, case.subject.partition(":")[2])
    return dispute in names or dispute.replace("task:", "step:", 1) == case.subject


def _is_prefix(case: Case, dispute: str) -> bool:
    """Return whether the id of a dispute begins with a text that is not a number."""
    return not dispute.isdigit() and case.subject.partition(":")[2].startswith(dispute)


def _require_unchanged(chosen: list[tuple[Case, int]], bodies: list[Body]) -> Any:
    """Return a function that returns the events, or refuses if a dispute changed meanwhile."""

    def make(state: State) -> list[Body]:
        for case, _ in chosen:
            row: Any = state.rows.get("dispute", case.subject)
            if row is None or not row.is_open or len(row.sides) != _count_sides(case):
                raise Refused(
                    f"not settled: the dispute about {case.about} changed just now",
                    hint="see the disputes again: forestay settle",
                )
        return bodies

    return make


def _count_sides(case: Case) -> int:
    """Return how many sides are events: 1 for an edited file, whose other side is the journal."""
    return 1 if case.kind == "edit" else len(case.sides)
