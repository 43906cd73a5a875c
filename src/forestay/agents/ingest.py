"""Ingest: what hooks spooled becomes events, once, however many processes try.

One process at a time takes payloads up, in *lots*: a lot is read, understood, recorded, and only
then deleted. Whoever dies in between leaves files whose events have keys: the next one records
nothing twice. A *span* of a lot has no conversation that begins or ends within it, so what each
conversation says in it can be recorded together.

What is no JSON is set aside, and so is what has a wrong shape; events that nobody knows are
counted and dropped. The beginning of a conversation is left to the hook that waits for it, which
prints the briefing; only if that one seems to have died is it taken by others.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from forestay.agents.agent_run import Conversation, Told
from forestay.agents.hook_event import Heard, WrongShape
from forestay.agents.payloads import hear
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
_PATIENCE_MS = 30_000
_PAUSE = 0.02


class Ingested(Struct):
    """What became of payloads: taken up, of no interest, of a wrong shape, no JSON; and how many
    wait still. `busy` says that another process is at it, `problems` why some could not be taken.
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
    """Take up what waits: at most so many payloads, for about so long.

    Where another process is at it, wait for it no longer than `wait`. `own` is the payload whose
    hook asks; `on_start` is called before it is recorded that a conversation takes a session up.
    """
    taking = _Taking(context, own, on_start, limit, seconds)
    if taking.spool.count() and not taking.run(wait):
        taking.done.busy = True
    if taking.done.taken and not own:  # an agent waits for what its own hook says
        context.run_due_jobs()
    taking.done.waiting = taking.spool.count()
    return taking.done


class _Taking:
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
        self._left = limit
        self._end = None if seconds is None else self._clock.monotonic() + seconds
        self._lot = _LOT if seconds is None else _SMALL_LOT
        self._counted = RunChange(0)
        self._shells: dict[tuple[str, str], tuple[Told, int]] = {}
        self._processes: dict[Sender, str] = {}
        self._later: set[tuple[str, str]] = set()
        self._dropped: set[str] = set()

    def run(self, wait: float) -> bool:
        """Take up until nothing more comes; False if another process does."""
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
                with _undisturbed():
                    moved = self._take_all()
            finally:
                self.spool.unlock(lock)
            # Who saw that we were at it relies on this look.
            if not moved or not self.spool.count():
                return True

    def _take_all(self) -> bool:
        """Whether anything was taken, and time is left for more."""
        waiting = self.spool.waiting()
        before = len(waiting)
        if before > _SMALL_LOT:
            use_openssl()
        self._later.clear()
        for lot in _lots(waiting, self._lot):
            if self._is_over():
                return False
            self._take(lot if self._left is None else lot[: self._left])
        self._look_around()
        return self.spool.count() < before and not self._is_over()

    def _is_over(self) -> bool:
        late = self._end is not None and self._clock.monotonic() >= self._end
        return late or (self._left is not None and self._left <= 0)

    def _take(self, lot: list[Waiting]) -> None:
        if self._left is not None:
            self._left -= len(lot)
        self._drop_taken(lot)
        self._counted = RunChange(self._clock.now())
        done: list[str] = []
        for span in _spans(self._understood(lot, done)):
            done += self._play(span)
        if self._counted.tallies:
            self._context.store.machine.agent_runs.save(self._counted)
        self._drop(done)

    def _drop_taken(self, lot: list[Waiting]) -> None:
        """Make sure that what was recorded is deleted: someone may have died in between."""
        taken = self._context.store.machine.agent_runs.taken()
        if taken:
            lot[:] = [one for one in lot if one.name not in taken]
            self._drop(taken - self._dropped)
            if taken <= self._dropped and self.spool.sync():
                self._context.store.machine.agent_runs.forget_taken()
                self._dropped.clear()

    def _drop(self, names: Iterable[str]) -> None:
        self._dropped.update(name for name in names if self.spool.drop(name))

    # -- understanding -------------------------------------------------------------------------

    def _understood(self, lot: Iterable[Waiting], done: list[str]) -> Iterator[Told]:
        """What payloads mean; those of no interest are `done` at once."""
        for one in lot:
            spooled = self.spool.read(one.name)
            if spooled is None:
                continue
            try:
                heard = hear(spooled.sender.agent, _parsed(spooled), spooled.sender.event)
            except (WrongShape, *_NOT_JSON) as error:
                self._set_aside(one.name, spooled, error)
                continue
            if heard is None:
                self._ignore(one.name, spooled, done)
            elif not self._is_for_later(one, spooled, heard):
                self.done.taken += 1
                yield self._told(one, spooled, heard)

    def _set_aside(self, name: str, spooled: Spooled, error: Exception) -> None:
        sender = spooled.sender
        if isinstance(error, WrongShape):
            self.done.wrong += 1
            self._counted.count(f"{sender.agent} {sender.event}: {error}")
        else:
            self.done.quarantined += 1
            self._counted.count(f"{sender.agent or 'unknown'}: not JSON")
        self.spool.set_aside(name)

    def _ignore(self, name: str, spooled: Spooled, done: list[str]) -> None:
        self.done.ignored += 1
        self._counted.count(f"{spooled.sender.agent} {spooled.sender.event}: {OF_NO_INTEREST}")
        done.append(name)

    def _is_for_later(self, one: Waiting, spooled: Spooled, heard: Heard) -> bool:
        whose = (heard.agent, heard.native)
        if whose not in self._later and not self._is_awaited(one, spooled):
            return False
        self._later.add(whose)
        return True

    def _is_awaited(self, one: Waiting, spooled: Spooled) -> bool:
        """Whether its own hook is about to take it, and to print the briefing."""
        if spooled.sender.event != "SessionStart" or one.name == self._own:
            return False
        return 0 <= self._clock.now() - one.at < _PATIENCE_MS

    def _told(self, one: Waiting, spooled: Spooled, heard: Heard) -> Told:
        digest = "" if heard.key else digest_of(spooled.data)
        return Told(one.name, heard, heard.at or one.at, self._process(spooled.sender), digest)

    def _process(self, sender: Sender) -> str:
        if sender not in self._processes:
            found = process_id_from_report(sender.pid, sender.start, sender.boot, sender.init)
            self._processes[sender] = str(found or "")
        return self._processes[sender]

    # -- recording -----------------------------------------------------------------------------

    def _play(self, span: list[Told]) -> list[str]:
        """Record what was said; returns the names of the payloads that can be deleted."""
        met: dict[tuple[str, str], list[Told]] = {}
        for told in span:
            met.setdefault((told.heard.agent, told.heard.native), []).append(told)
        return [told.name for said in met.values() if self._listen(said) for told in said]

    def _listen(self, said: list[Told]) -> bool:
        on_start = self._on_start if said[0].name == self._own else None
        change = RunChange(self._clock.now())
        try:
            conversation = Conversation(self._context, said[0], change, on_start)
            for told in said:
                if told.heard.what == "end":
                    self._look_first(conversation)
                conversation.play(told)
            conversation.save(said)
            self._remember_shell(conversation)
        except (Damaged, Refused, Outdated) as error:
            # Its session cannot be written to; what was said waits until it can.
            self.done.taken -= len(said)
            if str(error) not in self.done.problems:
                self.done.problems.append(str(error))
            return False
        return True

    def _remember_shell(self, conversation: Conversation) -> None:
        if conversation.shell is not None:
            run, (told, since) = conversation.run, conversation.shell
            _, before = self._shells.get((run.agent, run.native), (told, since))
            self._shells[run.agent, run.native] = told, min(since, before)

    def _look_first(self, conversation: Conversation) -> None:
        """What shell commands did belongs before the end of who ran them."""
        self._remember_shell(conversation)
        shell = self._shells.pop((conversation.run.agent, conversation.run.native), None)
        if shell is not None:
            conversation.scan_now(*shell)

    def _look_around(self) -> None:
        """Once all is taken up: what shell commands did, for each conversation that ran some."""
        shells, self._shells = self._shells, {}
        for told, since in shells.values():
            try:
                conversation = Conversation(self._context, told, RunChange(self._clock.now()))
                conversation.scan(told, since)
                conversation.save([])
            except (Damaged, Refused, Outdated):
                continue  # the next shell command looks again


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Much is made and kept for a while, nothing of it in cycles: nobody need look for them."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


_NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def understood(spooled: Spooled | None) -> Heard | None:
    """What a spooled payload means, if anything."""
    if spooled is None:
        return None
    try:
        return hear(spooled.sender.agent, _parsed(spooled), spooled.sender.event)
    except (WrongShape, *_NOT_JSON):
        return None


def _parsed(spooled: Spooled) -> object:
    """The value of a payload; an empty one says nothing."""
    data = closed(spooled.data) if spooled.is_cut else spooled.data
    if not data.strip():
        return {}
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _leniently(_mended(data))


def _leniently(text: str) -> object:
    """The value of a text in which a number may be larger than any that we can keep."""
    try:
        return msgspec.json.decode(text)
    except msgspec.ValidationError:
        pass  # it is JSON
    try:
        return json.loads(text, parse_float=_number, parse_int=_number, parse_constant=_no_json)
    except ValueError as error:
        raise msgspec.DecodeError(str(error)) from error


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _number(digits: str) -> int | float | None:
    """A number, or nothing where it is beyond range: as if it were not there."""
    try:
        return msgspec.json.decode(digits)  # type: ignore[no-any-return]
    except msgspec.DecodeError:
        return None


_HALVES = re.compile(
    r"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)


def _mended(data: bytes) -> str:
    """Without halves of characters: an agent that cuts a text may cut in the middle of one."""
    text = data.decode("utf-8", "replace")
    return _HALVES.sub(lambda found: found[1] or "\ufffd", text)


def _lots(waiting: list[Waiting], most: int) -> Iterator[list[Waiting]]:
    """So many payloads at a time, fewer if they are large: a lot has room in memory."""
    lot: list[Waiting] = []
    size = 0
    for one in waiting:
        if len(lot) >= most or (lot and size + one.size > _LOT_BYTES):
            yield lot
            lot, size = [], 0
        lot.append(one)
        size += one.size
    if lot:
        yield lot


def _spans(told: Iterable[Told]) -> Iterator[list[Told]]:
    """Runs of payloads without a beginning or an end inside."""
    span: list[Told] = []
    for one in told:
        if one.heard.what == "start" and span:
            yield span
            span = []
        span.append(one)
        if one.heard.what == "end":
            yield span
            span = []
    if span:
        yield span
