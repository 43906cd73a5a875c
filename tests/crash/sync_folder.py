"""Scenarios of a home and a folder remote under faults, for `test_sync_crash`.

Two devices and the remote are folders of one parent, so that a power cut hits all three. The check:
nothing recorded is lost, an acknowledged push reaches the other device, no reader gets wrong data,
and the next sync of both makes them equal.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from typing import Any

from forestay.api.forestay import Forestay
from forestay.errors import Busy, ReadOnly, RemoteFailed, StoreFailed
from forestay.sync import pack_builder
from forestay.sync import run as sync_run
from forestay.sync.remotes.port import Remote
from forestay.sync.run import SyncOptions
from tests.crash.scenario import Ack, Scenario
from tests.sync.travelling import Travellers, hashes, known, opened

SESSION = "s1"
HERE, THERE, REMOTE = "home", "other", "remote"
Reach = Callable[[str], Remote | None]
REFUSALS = (StoreFailed, Busy, ReadOnly, RemoteFailed)


class _ImmediateExecutor(Executor):
    """Run each task at once in this thread: a sweep needs the same calls every time."""

    def __init__(self, *_: object) -> None: ...

    def submit(self, act: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(act(*given, **named))
        except BaseException as error:
            done.set_exception(error)
        return done


def _make_calls_repeatable() -> None:
    vars(sync_run)["ThreadPoolExecutor"] = _ImmediateExecutor
    vars(pack_builder)["MOST_EVENTS"] = 2  # several packs, few events


def _open(home: str, name: str = HERE) -> Forestay:
    _make_calls_repeatable()
    return opened(os.path.join(os.path.dirname(home), name))


def prepare(home: str, *, meet: bool = True, there: int = 0) -> None:
    """Make two devices; with `meet` they have synced once. Then both record more."""
    _make_calls_repeatable()
    travellers = Travellers(Path(home).parent)
    other, mine = travellers.make(THERE), travellers.make(HERE)
    mine.start("travel", id=SESSION)
    _notes(mine, "before", 2)
    if meet:
        for one in (mine, other):
            _sync(one)
        _notes(mine, "mine", 3)
        _notes(other, "theirs", there)
        if there:
            _sync(other)
    for one in (mine, other):
        one.close()


def _notes(home: Forestay, word: str, count: int) -> None:
    for n in range(count):
        home.session(SESSION).note(f"{word} {n}")


def _sync(
    home: Forestay, *, push: bool = True, pull: bool = True, remote: Remote | None = None
) -> None:
    options = SyncOptions(push=push, pull=pull, patience=())
    report = sync_run.visit(home.context, known(home), options, remote=remote)
    for one in report.problems:
        if one.error is not None:
            raise one.error


def _use_configured_remote(home: str) -> None:
    """Return no remote, so that the one configured in the home is used."""


def run(
    home: str, ack: Ack, *, push: bool, pull: bool, reach: Reach = _use_configured_remote
) -> None:
    with _open(home) as mine:
        _sync(mine, push=push, pull=pull, remote=reach(home))
        for each in sorted(hashes(mine, SESSION)):
            ack(each)


def check(
    events: int,
    home: str,
    acked: Sequence[str],
    *,
    push: bool,
    reach: Reach = _use_configured_remote,
) -> list[str]:
    remote = reach(home)
    with _open(home) as mine, _open(home, THERE) as other:
        problems = [f"lost here: {one}" for one in _find_lost(acked, hashes(mine, SESSION))]
        _sync(other, remote=remote)
        if push:
            problems += [f"lost there: {one}" for one in _find_lost(acked, hashes(other, SESSION))]
        for one in (mine, other, mine):
            _sync(one, remote=remote)
        found = [hashes(one, SESSION) for one in (mine, other)]
        if found[0] != found[1] or len(found[0]) != events:
            problems.append(f"{len(found[0])} events here, {len(found[1])} there, of {events}")
        for one in (mine, other):
            one.session(SESSION).note("the next command")
            if not (report := one.session(SESSION).verify()).ok:
                problems.append(f"does not verify: {report.findings}")
    return problems


def _find_lost(acked: Iterable[str], found: set[str]) -> list[str]:
    return [one[:12] for one in acked if one not in found]


def _scenario(events: int, *, push: bool, pull: bool, **before: Any) -> Scenario:
    return Scenario(
        prepare=partial(prepare, **before),
        run=partial(run, push=push, pull=pull),
        check=partial(check, events, push=push),
        refusals=REFUSALS,
    )


# The remote folder does not exist yet.
FIRST = _scenario(3, push=True, pull=True, meet=False)
PUSH = _scenario(6, push=True, pull=False)
PULL = _scenario(9, push=False, pull=True, there=3)
BOTH = _scenario(8, push=True, pull=True, there=2)
