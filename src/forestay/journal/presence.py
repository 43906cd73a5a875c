"""Register this process as a holder of the sessions it works on, and report other holders."""

from __future__ import annotations

import os

from forestay.errors import ForestayError
from forestay.journal.context import Follower

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from forestay.journal.context import Context
    from forestay.model.event import Body, Event
    from forestay.store.machine.holders import Holder


class Presence(Follower):
    """Registers this process as a holder of every session that it records something in."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._held: dict[str, Holder] = {}
        self._registered: set[str] = set()
        self._introduced: set[str] = set()
        self._reported: set[str] = set()
        self._check_again = 0.0
        self._pid = os.getpid()

    @classmethod
    def of(cls, context: Context) -> Presence:
        return context.follower(cls)

    def before_append(self, session_id: str, bodies: Sequence[Body], actor: str) -> None:
        self.register_process(session_id)

    def after_append(self, session_id: str, events: Sequence[Event]) -> None:
        if session_id not in self._registered:  # these events created the session
            self._context.best_effort(lambda: self.register_process(session_id))

    def register_process(self, session: str) -> None:
        """Register this process as working on the session, and report the others."""
        self._registered.add(session)
        if self._context.one_shot:
            return
        self._notice_fork()
        if session not in self._held:
            name = self._context.journal.clean_actor(self._context.actor)
            holder = self._context.workspace.hold(session, name)
            if holder is not None:
                if not self._held:
                    _close_at_exit(self)
                self._held[session] = holder
        self._report_others(session)

    def _report_others(self, session: str) -> None:
        """Report, once each, live processes on the same session; check at most once a second."""
        now = self._context.clock.monotonic()
        if self._context.on_notice is None or now < self._check_again:
            return
        self._check_again = now + 1.0
        for holder, word in self.others(session):
            if word != "dead" and holder.process not in self._reported:
                self._reported.add(holder.process)
                pid = holder.process.split("/")[3]
                line = f"another process is working on session {session}: {holder.name} ({pid})"
                self._context.notify(line)

    def introduce(self, session: str, agent: str, doing: str, pid: int) -> None:
        """Register the process of an agent, so that its death will be noticed."""
        name = f"agent {agent}"
        holder = self._context.workspace.hold(session, name, agent=agent, doing=doing, pid=pid)
        if holder is not None:
            self._introduced.add(holder.process)

    def others(self, session: str) -> list[tuple[Holder, str]]:
        """Return the other holders of the session, each with "alive", "dead" or "unknown".

        Neither this process nor any that it registered is among them.
        """
        from forestay.base.process import find_same_agent  # start-up

        workspace = self._context.workspace
        held = workspace.holders(session)
        mine = self.own_processes() | self._introduced
        if self._context.is_helper:
            mine |= find_same_agent([holder.process for holder, _ in held])
        return workspace.distinct([(h, w) for h, w in held if h.process not in mine])

    def own_processes(self) -> set[str]:
        """Return the identities under which this process holds sessions."""
        return {holder.process for holder in self._held.values()}

    def hold_while(self, session: str, doing: str) -> Holder | None:
        """Hold the session with a description of the work, until `release`."""
        name = self._context.journal.clean_actor(self._context.actor)
        return self._context.workspace.hold(session, name, doing=doing)

    def release(self, holder: Holder | None) -> None:
        """End a registration by `hold_while`; restore the registration that it replaced, if any."""
        before = self._held.get(holder.session) if holder else None
        if before is not None:
            self._context.best_effort(lambda: self._context.store.machine.holders.add(before))
        elif holder is not None:
            self._context.best_effort(lambda: self._context.workspace.release([holder]))

    def _notice_fork(self) -> None:
        if self._pid != os.getpid():
            # A forked child is another process: it holds no session until it records something.
            self._pid, self._held = os.getpid(), {}

    def close(self) -> None:
        """Release every session that this process holds."""
        self._notice_fork()
        held, self._held = list(self._held.values()), {}
        try:
            if held:
                self._context.workspace.release(held)
        except ForestayError as error:
            # No event is lost: another process will find that this holder is dead, and remove it.
            self._context.notify(f"could not release the sessions of this process: {error}")

    def close_context(self) -> None:
        self._context.close()


def _close_at_exit(presence: Presence) -> None:
    import atexit
    import weakref

    # A program that ends normally releases its sessions; only one that is killed does not.
    reference = weakref.ref(presence)

    def close() -> None:
        alive = reference()
        if alive is not None:
            alive.close_context()

    atexit.register(close)
