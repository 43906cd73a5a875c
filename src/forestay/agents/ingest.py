"""Ingest: turn spooled hook payloads into events, each once, however many processes try.

One process at a time ingests, in *lots*: a lot is read, parsed, recorded, and only then deleted.
If the process dies in between, the payloads are read again; their events have keys, so nothing is
recorded twice. Within a *span* of a lot no run begins or ends, so the payloads of each run in it
can be recorded together.

Payloads that are not JSON or have a wrong shape are set aside; unknown events are counted and
dropped. The start of a run is left to its own hook, which is waiting to print the briefing; others
ingest it only if that hook seems to have died.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from forestay.agents.agent_run import Received, RunRecorder
from forestay.agents.hook_event import HookEvent, WrongShape
from forestay.agents.payloads import parse_payload
from forestay.agents.spool import OF_NO_INTEREST, Sender, Spool, Spooled, Waiting, closed
from forestay.base.hashing import digest_of, use_openssl
from forestay.base.process import process_id_from_report
from forestay.errors import Damaged, Outdated, Refused
from forestay.store.machine.agent_runs import RunChange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.agents.agent_run import OnStart
    from forestay.journal.context import Context

_LOT, _LOT_BYTES = 2500, 64 * 1024 * 1024
_SMALL_LOT = 50
_HOOK_MS = 30_000
_PAUSE = 0.02


class Ingested(Struct):
    """Counts of payloads: recorded, ignored, of a wrong shape, not JSON, and still waiting.

    `busy` is set if another process is ingesting; `problems` has the errors of those not recorded.
    """

    taken: int = 0
    ignored: int = 0
    wrong: int = 0
    quarantined: int = 0
    waiting: int = 0
    busy: bool = False
    problems: list[str] = []


def ingest(
    context: Context,
    *,
    limit: int | None = None,
    seconds: float | None = None,
    wait: float = 0.0,
    own: str = "",
    on_start: OnStart | None = None,
) -> Ingested:
    """Record waiting payloads: at most `limit`, for about `seconds`.

    If another process is ingesting, wait for it up to `wait` seconds. `own` is the payload of the
    hook that calls; `on_start` is called before a run is recorded as resuming a session.
    """
    ingestion = _Ingestion(context, own, on_start, limit, seconds)
    if ingestion.spool.count() and not ingestion.run(wait):
        ingestion.done.busy = True
    if ingestion.done.taken and not own:  # not while an agent waits for its hook
        context.run_due_jobs()
    ingestion.done.waiting = ingestion.spool.count()
    return ingestion.done


class _Ingestion:
    def __init__(
        self,
        context: Context,
        own: str,
        on_start: OnStart | None,
        limit: int | None,
        seconds: float | None,
    ) -> None:
        self._context, self._own, self._on_start = context, own, on_start
        self._clock = context.clock
        self.spool = Spool(context.store.home)
        self.done = Ingested()
        self._remaining = limit
        self._deadline = None if seconds is None else self._clock.monotonic() + seconds
        self._lot_size = _LOT if seconds is None else _SMALL_LOT
        self._tallies = RunChange(0)
        self._shells: dict[tuple[str, str], tuple[Received, int]] = {}
        self._processes: dict[Sender, str] = {}
        self._left_to_hooks: set[tuple[str, str]] = set()
        self._deleted: set[str] = set()

    def run(self, wait: float) -> bool:
        """Ingest until nothing is waiting; return False if another process is ingesting."""
        give_up = self._clock.monotonic() + wait
        while True:
            lock = self.spool.lock()
            if lock is None:
                if self._clock.monotonic() >= give_up:
                    return False
                self._clock.sleep(_PAUSE)
                continue
            try:
                self.spool.rescue(self._clock.now())
                with _without_gc():
                    moved = self._record_all()
            finally:
                self.spool.unlock(lock)
            # A process that found the spool locked relies on this loop to ingest its payload.
            if not moved or not self.spool.count():
                return True

    def _record_all(self) -> bool:
        """Ingest what is waiting now; return whether it is worth trying again."""
        waiting = self.spool.waiting()
        before = len(waiting)
        if before > _SMALL_LOT:
            use_openssl()
        self._left_to_hooks.clear()
        for lot in _lots(waiting, self._lot_size):
            if self._is_over():
                return False
            self._record_lot(lot if self._remaining is None else lot[: self._remaining])
        # Shell commands can have changed files: scan once for each run, after all payloads.
        shells, self._shells = self._shells, {}
        for received, since in shells.values():
            try:
                recorder = RunRecorder(self._context, received, RunChange(self._clock.now()))
                recorder.scan(received, since)
                recorder.save([])
            except (Damaged, Refused, Outdated):
                continue  # the next shell command scans again
        return self.spool.count() < before and not self._is_over()

    def _is_over(self) -> bool:
        late = self._deadline is not None and self._clock.monotonic() >= self._deadline
        return late or (self._remaining is not None and self._remaining <= 0)

    def _record_lot(self, lot: list[Waiting]) -> None:
        if self._remaining is not None:
            self._remaining -= len(lot)
        # Delete payloads that are recorded already: an earlier process can have died before that.
        taken = self._context.store.machine.agent_runs.taken()
        if taken:
            lot[:] = [one for one in lot if one.name not in taken]
            self._delete(taken - self._deleted)
            if taken <= self._deleted and self.spool.sync():
                self._context.store.machine.agent_runs.forget_taken()
                self._deleted.clear()
        self._tallies = RunChange(self._clock.now())
        done: list[str] = []
        for span in _spans(self._parse_lot(lot, done)):
            done += self._record_span(span)
        if self._tallies.tallies:
            self._context.store.machine.agent_runs.save(self._tallies)
        self._delete(done)

    def _delete(self, names: Iterable[str]) -> None:
        self._deleted.update(name for name in names if self.spool.drop(name))

    # -- parsing -------------------------------------------------------------------------------

    def _parse_lot(self, lot: Iterable[Waiting], done: list[str]) -> Iterator[Received]:
        """Yield parsed payloads; those that are ignored are added to `done` at once."""
        for one in lot:
            spooled = self.spool.read(one.name)
            if spooled is None:
                continue
            try:
                hook = parse_payload(spooled.sender.agent, _decode(spooled), spooled.sender.event)
            except (WrongShape, *_NOT_JSON) as error:
                sender = spooled.sender
                if isinstance(error, WrongShape):
                    self.done.wrong += 1
                    self._tallies.count(f"{sender.agent} {sender.event}: {error}")
                else:
                    self.done.quarantined += 1
                    self._tallies.count(f"{sender.agent or 'unknown'}: not JSON")
                self.spool.set_aside(one.name)
                continue
            sender = spooled.sender
            if hook is None:
                self.done.ignored += 1
                self._tallies.count(f"{sender.agent} {sender.event}: {OF_NO_INTEREST}")
                done.append(one.name)
            elif not self._is_left_to_its_hook(one, spooled, hook):
                self.done.taken += 1
                digest = "" if hook.key else digest_of(spooled.data)
                process = self._process(sender)
                yield Received(one.name, hook, hook.at or one.at, process, digest)

    def _is_left_to_its_hook(self, one: Waiting, spooled: Spooled, hook: HookEvent) -> bool:
        """Return whether to leave the start of a run to its own hook, which prints the briefing."""
        is_start = spooled.sender.event == "SessionStart" and one.name != self._own
        if is_start and 0 <= self._clock.now() - one.at < _HOOK_MS:
            self._left_to_hooks.add((hook.agent, hook.native))
        return (hook.agent, hook.native) in self._left_to_hooks

    def _process(self, sender: Sender) -> str:
        if sender not in self._processes:
            found = process_id_from_report(sender.pid, sender.start, sender.boot, sender.init)
            self._processes[sender] = str(found or "")
        return self._processes[sender]

    # -- recording -----------------------------------------------------------------------------

    def _record_span(self, span: list[Received]) -> list[str]:
        """Record a span; return the names of the payloads that can be deleted."""
        by_run: dict[tuple[str, str], list[Received]] = {}
        for received in span:
            by_run.setdefault((received.hook.agent, received.hook.native), []).append(received)
        return [
            received.name
            for payloads in by_run.values()
            if self._record_run(payloads)
            for received in payloads
        ]

    def _record_run(self, payloads: list[Received]) -> bool:
        on_start = self._on_start if payloads[0].name == self._own else None
        change = RunChange(self._clock.now())
        try:
            recorder = RunRecorder(self._context, payloads[0], change, on_start)
            for received in payloads:
                if received.hook.what == "end":
                    self._remember_shell(recorder)
                    shell = self._shells.pop((recorder.run.agent, recorder.run.native), None)
                    if shell is not None:
                        recorder.scan_now(*shell)
                recorder.apply(received)
            recorder.save(payloads)
            self._remember_shell(recorder)
        except (Damaged, Refused, Outdated) as error:
            # The session cannot be written now; its payloads wait in the spool until it can.
            self.done.taken -= len(payloads)
            if str(error) not in self.done.problems:
                self.done.problems.append(str(error))
            return False
        return True

    def _remember_shell(self, recorder: RunRecorder) -> None:
        if recorder.shell is not None:
            run, (received, since) = recorder.run, recorder.shell
            _, before = self._shells.get((run.agent, run.native), (received, since))
            self._shells[run.agent, run.native] = received, min(since, before)


@contextmanager
def _without_gc() -> Iterator[None]:
    """Disable garbage collection in a `with` block that makes many objects but no cycles."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def parse_spooled(spooled: Spooled | None) -> HookEvent | None:
    """Return the event of a spooled payload, or None."""
    if spooled is None:
        return None
    try:
        return parse_payload(spooled.sender.agent, _decode(spooled), spooled.sender.event)
    except (WrongShape, *_NOT_JSON):
        return None


def _decode(spooled: Spooled) -> object:
    """Decode a payload; an empty one is an empty object."""
    data = closed(spooled.data) if spooled.is_cut else spooled.data
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # An agent can cut a text in the middle of a character.
        text = data.decode("utf-8", "replace")
        return _decode_leniently(_HALF_CHARACTERS.sub(lambda found: found[1] or "\ufffd", text))


def _decode_leniently(text: str) -> object:
    """Decode JSON in which a number is too large to store; such numbers become None."""
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:
        pass  # the text is JSON; only a number is too large
    import json  # start-up

    try:
        number, constant = _decode_number, _refuse_constant
        return json.loads(text, parse_float=number, parse_int=number, parse_constant=constant)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _decode_number(digits: str) -> int | float | None:
    """Return a number, or None if it is out of range."""
    try:
        return msgspec.json.decode(digits)  # type: ignore[no-any-return]
    except msgspec.DecodeError:
        return None


_HALF_CHARACTERS = re.compile(
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def _lots(waiting: list[Waiting], limit: int) -> Iterator[list[Waiting]]:
    """Split payloads into lots that are small enough for memory."""
    lot: list[Waiting] = []
    size = 0
    for one in waiting:
        if len(lot) >= limit or (lot and size + one.size > _LOT_BYTES):
            yield lot
            lot, size = [], 0
        lot.append(one)
        size += one.size
    if lot:
        yield lot


def _spans(received: Iterable[Received]) -> Iterator[list[Received]]:
    """Split payloads so that a run begins or ends only at the edge of a span."""
    span: list[Received] = []
    for one in received:
        if one.hook.what == "start" and span:
            yield span
            span = []
        span.append(one)
        if one.hook.what == "end":
            yield span
            span = []
    if span:
        yield span
