"""What devices of the user contradict each other about, and how the user settles it."""

from __future__ import annotations

from forestay.api.topic import Topic
from forestay.errors import InvalidInput, Refused
from forestay.journal.journal import AppendOptions
from forestay.mirror.session_files import absorb_file_edits

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Sequence
    from typing import Any

    from forestay.model.disputes import Case, DeviceView
    from forestay.model.event import Body, Event
    from forestay.model.state import State


class Disputes(Topic):
    """Disputes of a session: fields to which two devices gave different values."""

    def list(self, dispute: str = "") -> builtins.list[Case]:
        """Return what is disputed now, oldest first: the sides, and which of them is newer.

        With `dispute`, return only the one it names; see `settle`.
        """
        from forestay.model.disputes import cases

        found = cases(*self._read())
        return self._named(found, dispute) if dispute else found

    def devices(self) -> builtins.list[DeviceView]:
        """Return every device that recorded something, with what it knew of the session; the
        last one first."""
        from forestay.model.disputes import device_views

        return device_views(self._read()[0])

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
        """Settle a dispute, or all of them: the value that holds is recorded again, and both
        sides stay in the log.

        `dispute` is its number, its subject (`step:t1`) or what it is about (`t1`). `prefer` is
        the number of a side or its device, by name or id.
        """
        way = _way(prefer, merge, keep_both)
        if before := self._recorder.called_before(key, lambda body: True):
            return before[-1]
        events, state = self._read()
        chosen = [(case, self._side(case, prefer)) for case in self._chosen(dispute)]
        bodies = [
            body
            for case, number in chosen
            for body in self._settling(case, way, number, because, state, events)
        ]
        return self._recorder.record(
            key=key, options=AppendOptions(make=_unless_changed(chosen, bodies))
        )

    def _read(self) -> tuple[builtins.list[Event], State]:
        from forestay.model.fold import fold

        absorb_file_edits(self._context, self._recorder.id)
        with self._context.store.view(self._recorder.id) as view:
            events = [*self._context.journal.events(view)]
        return events, fold(events)

    def _chosen(self, dispute: str) -> builtins.list[Case]:
        """Return the disputes to settle; none is an error."""
        found = self.list()
        return self._named(found, dispute) if dispute or not found else found

    def _named(self, found: builtins.list[Case], dispute: str) -> builtins.list[Case]:
        if not found:
            raise Refused(
                f"nothing is disputed in session {self._recorder.id}", hint="forestay status"
            )
        meant = [case for case in found if _is_meant(case, dispute)]
        meant = meant or [case for case in found if _begins(case, dispute)]
        if len(meant) != 1:
            names = ", ".join(f"{case.number} ({case.about})" for case in found)
            what = "several disputes match" if meant else "there is no dispute"
            raise InvalidInput(f"{what} {dispute}", why=f"they are {names}", hint="forestay settle")
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
        sides = ", ".join(
            f"{s.number} ({s.outcome}, {self._device_name(s.device)})" for s in case.sides
        )
        hint = f"forestay settle {case.number} --prefer {case.newer}"
        raise InvalidInput(f"{wanted} is no one side of {case.about}", why=sides, hint=hint)

    def _device_name(self, device: str) -> str:
        from forestay.sync.device_names import name_of  # start-up

        return name_of(self._context, device)

    def _is_of(self, wanted: str, device: str, outcome: str) -> bool:
        names = (device, self._device_name(device), outcome.removeprefix("the "))
        return wanted.casefold() in (name.casefold() for name in names)

    def _settling(
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
        """Return the change with the file as the user merged it by hand."""
        from msgspec.structs import replace

        from forestay.workspace.file_changes import complete_change

        tree, now = self._context.workspace.tree, self._context.clock.now()
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
    """Whether a dispute is named by the start of its id: ids of decisions end in digits."""
    return not dispute.isdigit() and case.subject.partition(":")[2].startswith(dispute)


def _unless_changed(chosen: list[tuple[Case, int]], bodies: list[Body]) -> Any:
    """Return the events, if what they settle is still what the user was shown."""

    def made(state: State) -> list[Body]:
        for case, _ in chosen:
            row: Any = state.rows.get("dispute", case.subject)
            if row is None or not row.is_open or len(row.sides) != _count(case):
                raise Refused(f"{case.about} changed just now", hint="look again: forestay settle")
        return bodies

    return made


def _count(case: Case) -> int:
    """Return how many sides the journal has: the other side of a file is the journal itself."""
    return 1 if case.kind == "edit" else len(case.sides)
