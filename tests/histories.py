"""Generate random histories of several devices, for tests of code that must accept any journal.

`simulate` runs a small world: machines append to one session, exchange parts of their events, are
copied (two machines write under one device id until they notice), are restored from an old backup,
adopt the same external event under the same id, undo and redo, forget events, and receive kinds of
a newer version. Some clocks are days apart. All links are made by the code that makes real ones, so
an honest device could have written every event; `lies` adds some that none could.

All choices come from the `Random` argument: one seed is one history, and a property test may pass a
generator that shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any, TypeVar

import msgspec

from forestay.model import event as ev
from forestay.model.event import Body, Event, Header, Sealed
from forestay.model.fold import advance
from forestay.model.hash_chain import next_of, seal_next
from forestay.model.merge import in_order, parents
from forestay.model.state import Core, State

SESSION = "s-1"
_encode = msgspec.json.Encoder(order="deterministic").encode
_BEGAN = 1_700_000_000_000
_NAMES = ("m", "b", "x", "f", "q", "c")
_SKEW = {"x": 5 * 86_400_000, "q": -400 * 86_400_000}
"""By how much the clocks of some devices are off, by the first letter of their names."""
_Made = TypeVar("_Made")
_NEWER_KINDS = ("future.thing", "step.teleported", "session.cloned")


def next_event(
    core: Core,
    body: Body,
    *,
    session: str,
    device: str,
    id: str,
    at: int,
    actor: str,
    salt: bytes,
    must: str = "",
) -> tuple[Sealed, Event]:
    """Return the next event of a device's chain for an unprocessed body; see `next_of`."""
    fields: dict[str, Any] = {"id": id, "session": session, "at": at, "actor": actor, "must": must}
    return next_of(core, ev.as_stored(body), device, salt, **fields)


class SimulatedMachine:
    """Simulate one home: a device id and the events it holds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.device = name
        self.skew = _SKEW.get(name[0], 0)
        self.ids = 1
        self.core = Core()
        self.held: dict[str, Event] = {}
        self.written: set[str] = set()
        self.backups: list[list[Event]] = []

    def receive(self, events: Iterable[Event]) -> None:
        """Add events; change the device id if another machine wrote under it."""
        fresh = [event for event in in_order(events) if event.hash not in self.held]
        for event in fresh:
            self.held[event.hash] = event
            advance(self.core, event)
        met = {event.head.device for event in fresh if event.hash not in self.written}
        if self.device in met:
            self.use_new_id()

    def use_new_id(self) -> None:
        self.ids += 1
        self.device = f"{self.name}-{self.ids}"

    def restore(self, events: list[Event]) -> None:
        """Hold only these events, and forget all others, even that they were written here."""
        self.core, self.held = Core(), {}
        self.written = {event.hash for event in events}
        self.receive(events)

    def copy(self, name: str) -> SimulatedMachine:
        twin = SimulatedMachine(name)
        twin.device = self.device
        twin.restore(list(self.held.values()))
        return twin


class World:
    """Hold the machines, and all events in the order of writing."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.machines = [SimulatedMachine(random.choice(_NAMES) + "1")]
        self.events: list[Event] = []
        self.sealed: dict[str, Sealed] = {}

    def run(self, steps: int, *, newer: bool = True) -> None:
        self.write(self.machines[0], ev.SessionStarted(goal="hold fast"))
        for _ in range(steps):
            action = self.random.choice(_ACTIONS)
            if newer or action is not _write_newer:
                action(self)

    def write(self, machine: SimulatedMachine, body: Body, id: str = "") -> Event:
        sealed, event = next_event(
            machine.core,
            body,
            session=SESSION,
            device=machine.device,
            id=id or f"e{len(self.events)}",
            at=_BEGAN + machine.skew + self.random.randrange(-5, 100) * 1000,
            actor=self.random.choice(("cli", "user", "agent:a1", "file:praxis")),
            salt=self._salt(),
        )
        return self._store(machine, sealed, event)

    def write_raw(self, machine: SimulatedMachine, kind: str, data: bytes, must: str = "") -> Event:
        """Write an event this version could not: of a newer kind, or with invalid data."""
        fields = {"id": f"e{len(self.events)}", "session": SESSION, "at": _BEGAN, "actor": "cli"}
        sealed, _ = seal_next(
            machine.core, machine.device, kind, data, self._salt(), **fields, must=must
        )
        return self._store(machine, sealed, ev.read(sealed))

    def _salt(self) -> bytes:
        return self.random.getrandbits(8 * ev.SALT_BYTES).to_bytes(ev.SALT_BYTES, "big")

    def _store(self, machine: SimulatedMachine, sealed: Sealed, event: Event) -> Event:
        self.sealed[event.hash] = sealed
        self.events.append(event)
        machine.written.add(event.hash)
        machine.receive([event])
        return event


def simulate(random: Random, steps: int = 20, *, newer: bool = True) -> World:
    """Return a world after so many actions; `newer` allows kinds of a newer version."""
    world = World(random)
    world.run(steps, newer=newer)
    return world


def with_ancestors(held: dict[str, Event], wanted: Iterable[str]) -> list[Event]:
    """Return these events and all of their ancestors."""
    found: dict[str, Event] = {}
    todo = list(wanted)
    while todo:
        event = held.get(todo.pop())
        if event is not None and event.hash not in found:
            found[event.hash] = event
            todo += parents(event)
    return list(found.values())


def erased(event: Event) -> Event:
    """Return the event without its content."""
    return Event(event.head, event.hash, ev.Erased(), event.seq)


def image(state: State) -> dict[tuple[str, str], bytes]:
    """Return every part of a state as bytes, by table and key; equal states have equal images."""
    parts = {(table, key): _encode(row) for table, key, row in state.rows.items()}
    core = msgspec.to_builtins(state.core, str_keys=True)
    return {("core", ""): _encode(core), **parts}


# -- actions -----------------------------------------------------------------------------------


def _write(world: World) -> None:
    world.write(world.random.choice(world.machines), random_body(world.random))


def _write_newer(world: World) -> None:
    random = world.random
    kind = random.choice((*_NEWER_KINDS, *ev.KINDS))
    data = random.choice((b"{}", b'{"step":7}', b"[]", b'{"goal":null,"x":[1]}', b"not json"))
    must = random.choice(("", "", "2", "10", "9.1"))
    world.write_raw(random.choice(world.machines), kind, data, must)


def _adopt(world: World) -> None:
    """Adopt an external event; other machines may adopt it too and derive the same id."""
    id = f"adopted-{world.random.randrange(3)}"
    machine = world.random.choice(world.machines)
    if all(event.id != id for event in machine.held.values()):
        body = random_body(Random(id) if world.random.random() < 0.8 else world.random)
        world.write(machine, body, id)


def _retract(world: World) -> None:
    machine = world.random.choice(world.machines)
    target = world.random.choice(list(machine.held.values()))
    if world.random.random() < 0.4:
        undone = [e for e in machine.held.values() if e.kind == "event.retracted"]
        target = world.random.choice(undone or [target])
    world.write(machine, ev.EventRetracted(event=target.id))


def _forget(world: World) -> None:
    """Forget events, possibly also a tombstone, which stays effective."""
    machine = world.random.choice(world.machines)
    held = list(machine.held.values())
    targets = world.random.sample(held, min(world.random.randrange(1, 4), len(held)))
    hashes, ids = [event.hash for event in targets], [event.id for event in targets]
    world.write(machine, ev.EventForgotten(hashes=hashes, ids=ids))


def _exchange(world: World) -> None:
    source, target = world.random.choice(world.machines), world.random.choice(world.machines)
    if world.random.random() < 0.6:
        target.receive(list(source.held.values()))
    else:
        hashes = list(source.held)
        target.receive(
            with_ancestors(source.held, world.random.sample(hashes, min(2, len(hashes))))
        )


def _join(world: World) -> None:
    """Add another machine to the session: a new one, or a copy of a known home."""
    if len(world.machines) > 4:
        return
    origin = world.random.choice(world.machines)
    name = f"{world.random.choice(_NAMES)}{len(world.machines) + 1}"
    chance = world.random.random()
    if chance < 0.4:
        machine = SimulatedMachine(name)
        machine.receive(list(origin.held.values()))
    else:
        machine = origin.copy(name)
        if chance < 0.6:
            machine.use_new_id()
    world.machines.append(machine)


def _back_up_or_restore(world: World) -> None:
    machine = world.random.choice(world.machines)
    if not machine.backups or world.random.random() < 0.5:
        machine.backups.append(list(machine.held.values()))
        return
    machine.restore(world.random.choice(machine.backups))
    if world.random.random() < 0.5:
        machine.use_new_id()


def _weighted(*rows: tuple[int, _Made]) -> list[_Made]:
    """Return a list with each value as often as its weight."""
    return [value for weight, value in rows for _ in range(weight)]


_ACTIONS: list[Callable[[World], None]] = _weighted(
    (50, _write),
    (20, _exchange),
    (8, _join),
    (8, _retract),
    (3, _forget),
    (6, _adopt),
    (5, _back_up_or_restore),
    (3, _write_newer),
)


# -- bodies ------------------------------------------------------------------------------------


def random_body(random: Random) -> Body:
    """Return a body of any kind; kinds that can contradict each other are more frequent."""
    return random.choice(_BODIES)(random)


def _step(random: Random) -> str:
    return random.choice(("t1", "t2"))


def _agent(random: Random) -> str:
    return random.choice(("a1", "a2"))


def _file(random: Random) -> Body:
    action = random.choice(("created", "modified", "modified", "deleted"))
    after = "" if action == "deleted" else random.choice(("d1", "d2", ""))
    return ev.FileChanged(path=random.choice(("x.py", "y.py")), action=action, after=after)


def _decision(random: Random) -> Body:
    options = random.choice(([], ["red", "blue"], ["red", "blue", "green"]))
    chosen = random.choice(("red", "blue", ""))
    return ev.DecisionMade(
        decision=random.choice(("d1", "d2")), what="colour", options=options, chosen=chosen
    )


def _adopted(random: Random) -> Body:
    status = random.choice(("active", "created", "completed", "paused", "nonsense"))
    return ev.SessionAdopted(goal="found", origin="file:praxis", status=status)


def _verdict(random: Random) -> Body:
    kinds = (
        ev.CheckpointPassed,
        ev.CheckpointFailed,
        ev.CheckpointOverridden,
        ev.CheckpointRolledBack,
    )
    evidence = {"coverage": random.choice((None, 80, {"lines": [1, 2]}))}
    return random.choice(kinds)(step=_step(random), evidence=evidence, observed=True)


def _attribute(random: Random) -> Body:
    value = random.choice(("opus", 0.5, 7, -1, True, None, 10**300))
    return ev.AttributeSet(key=random.choice(("model", "progress", "mood")), value=value)


_BODIES: list[Callable[[Random], Body]] = _weighted(
    (6, lambda r: ev.SessionCompleted()),
    (3, lambda r: ev.SessionFailed(because="no way on")),
    (3, lambda r: ev.SessionAborted()),
    (2, lambda r: ev.SessionAbandoned()),
    (4, lambda r: ev.SessionPaused(context="lunch")),
    (5, lambda r: ev.SessionResumed(git_branch="main")),
    (3, lambda r: ev.SessionReopened(because="more to do")),
    (2, lambda r: ev.SessionRenamed(goal="hold faster")),
    (2, lambda r: ev.SessionArchived(archived=r.random() < 0.7)),
    (1, lambda r: ev.SessionInterrupted(doing="a test", agents=[_agent(r)])),
    (1, lambda r: ev.SessionForgotten() if r.random() < 0.3 else ev.SessionCompleted()),
    (1, _adopted),
    (1, lambda r: ev.PlanSet(workflow="w", total=r.choice((None, 3)))),
    (1, lambda r: ev.PlanResolved(total=4)),
    (3, lambda r: ev.StepAdded(step=_step(r), title="a task", agent=r.choice(("", "a1")))),
    (4, lambda r: ev.StepStarted(step=_step(r))),
    (1, lambda r: ev.StepProgressed(step=_step(r), fraction=r.choice((0.5, 1)))),
    (7, lambda r: ev.StepCompleted(step=_step(r), outcome="it works", files=["x.py"])),
    (4, lambda r: ev.StepFailed(step=_step(r), because="it broke")),
    (2, lambda r: ev.StepBlocked(step=_step(r), because="waiting")),
    (1, lambda r: ev.StepUnblocked(step=_step(r))),
    (2, lambda r: ev.StepSkipped(step=_step(r))),
    (1, lambda r: ev.StepNeedsReview(step=_step(r))),
    (1, lambda r: ev.StepRevisited(step=_step(r), because="second thoughts")),
    (1, lambda r: ev.StepReset(step=_step(r))),
    (2, _verdict),
    (4, lambda r: ev.AgentStarted(agent=_agent(r), type="feature-dev", task="build")),
    (1, lambda r: ev.AgentProgressed(agent=_agent(r), fraction=0.25)),
    (4, lambda r: ev.AgentFinished(agent=_agent(r), result="done", created=["y.py"])),
    (3, lambda r: ev.AgentFailed(agent=_agent(r), error="lost", category="transient")),
    (1, lambda r: ev.AgentTimedOut(agent=_agent(r))),
    (1, lambda r: ev.AgentRetried(agent=_agent(r))),
    (6, _decision),
    (8, _file),
    (1, lambda r: ev.ArtifactSaved(path="out.txt", digest="d3", size=3, kept=False)),
    (1, lambda r: ev.ArtifactVersioned(path="out.txt", version=2, digest="d4")),
    (2, lambda r: ev.CommandRan(name="pytest", status=r.choice(("success", "failure")))),
    (1, lambda r: ev.ContextMeasured(tokens=r.randrange(9999), agent=r.choice(("", "a1")))),
    (1, lambda r: ev.ContextCompressed(summary=r.choice(("", "so far so good")))),
    (1, lambda r: ev.ErrorRaised(message="oh", category="resource")),
    (4, lambda r: ev.NoteAdded(text="a note", for_next=r.random() < 0.3, redacted=["aws"])),
    (1, lambda r: ev.MessageSent(role=r.choice(("user", "machine", "agent")), text="go on")),
    (1, lambda r: ev.ClaimDeferred(claim="c1", text="sure?", reason="no source")),
    (1, lambda r: ev.ClaimResolved(claim="c1")),
    (1, lambda r: ev.ClaimOverridden(claim="c1", result="kept", because="I know")),
    (2, _attribute),
    (1, lambda r: ev.ContractAcknowledged(agent=_agent(r), version="1", checksum="d5")),
    (1, lambda r: ev.ForeignEdited(format="praxis", path="s.json", digest="d6")),
    (1, lambda r: ev.EvidenceObserved(proof="lint", argv=["make"], exit=r.choice((0, 2)))),
)


# -- lies --------------------------------------------------------------------------------------


def lies(random: Random, events: list[Event], count: int = 3) -> list[Event]:
    """Return events no honest device writes: wrong clocks, numbers, links and values."""
    return [_lie(random, random.choice(events), f"lie{i}") for i in range(count)]


def _lie(random: Random, event: Event, id: str) -> Event:
    head = event.head
    any_hash = random.choice((event.hash, "f" * 64, ""))
    fields: dict[str, Any] = {
        "v": head.v,
        "id": random.choice((id, head.id)),
        "session": random.choice((head.session, "s-2")),
        "device": random.choice((head.device, "liar", "")),
        "n": random.choice((head.n, 1, 10**9)),
        "clock": random.choice((head.clock, 1, head.clock + 1, 2**53)),
        "at": random.choice((0, -(2**53), 2**53)),
        "actor": "",
        "kind": head.kind,
        "digest": f"{random.getrandbits(256):064x}",
        "prev": any_hash,
        "seen": random.choice(({}, {"liar": [1, "e" * 64]}, {"x": [1]}, {"x": ["a", 2, 3]})),
    }
    if any_hash and random.random() < 0.5:
        fields["seen"] = {"m1": [head.n, event.hash, 1, any_hash]}
    body = _twist(random, event, id)
    header = Header(**{**fields, "kind": ev.KIND_OF.get(type(body), head.kind)})
    return Event(header, ev.seal(header, b"", b"").hash, body)


def _twist(random: Random, event: Event, id: str) -> Body:
    targets = (id, event.id, "lie0", "lie1", "lie2")
    bodies: tuple[Body, ...] = (
        event.body,
        ev.EventRetracted(event=random.choice(targets)),
        ev.Unknown(raw="{}"),
        ev.Erased(),
    )
    return random.choice(bodies)
