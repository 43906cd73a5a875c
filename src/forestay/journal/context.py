"""The context of every call: one home, used from one folder, on behalf of one actor.

A `Context` opens the store, the journal and the workspace only when they are first used, because
every command pays for its start-up. Its *followers* act around every append: they absorb file
edits, register this process, write files, make a backup, sync. The façade lists them in one place;
the modules below it know neither the façade nor each other's followers.
"""

from __future__ import annotations

import os

from forestay.base.clock import Clock
from forestay.base.text import terminal
from forestay.errors import ForestayError
from forestay.store.open import open_store
from forestay.workspace.current_session import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from forestay.base.config import Settings
    from forestay.base.redact import Redactor
    from forestay.journal.journal import Journal
    from forestay.model.event import Body, Event
    from forestay.store.port import Store

    F = TypeVar("F", bound="Follower")
    MakeFollowers = Callable[["Context"], Sequence["Follower"]]


class Follower:
    """Something that happens around every append; each method does nothing unless overridden.

    A failure after an append must not look like a failed append: run such work with
    `Context.best_effort`.
    """

    def before_append(self, session_id: str, bodies: Sequence[Body], actor: str) -> None:
        """Prepare for events that are about to be appended to a session that exists already."""

    def after_append(self, session_id: str, events: Sequence[Event]) -> None:
        """Act on events that are durable now."""

    def run_due_jobs(self, kinds: Sequence[str] = ()) -> None:
        """Run periodic jobs that are due; `kinds` are the kinds of the events just recorded."""

    def before_erasure(self, session_id: str) -> Callable[[], Sequence[str]]:
        """Prepare for erasures that arrive from another device.

        Return a function to call after they are merged; it returns the files that may still hold
        erased content.
        """
        return lambda: ()

    def resume_erasure(self, session_id: str) -> Sequence[str]:
        """Finish the work after an erasure that a dead process did not finish.

        Return the files that may still hold erased content; see `before_erasure`.
        """
        return ()

    def finish(self) -> None:
        """Do delayed work now: the process is about to end, or another one needs the result."""

    def close(self) -> None:
        """Finish delayed work, and release all resources; a later use creates new followers."""


class Context:
    """A home, used from a folder, on behalf of an actor."""

    def __init__(
        self,
        settings: Settings,
        *,
        cwd: str | None = None,
        actor: str = "user",
        clock: Clock | None = None,
        on_notice: Callable[[str], None] | None = None,
        one_shot: bool = False,
        is_helper: bool = False,
        followers: MakeFollowers = lambda _: (),
    ) -> None:
        """Set up a context; open nothing yet.

        `one_shot` is given by a process that ends after one call, `is_helper` by one that works
        for the process that started it. `followers` is called once, when they are first needed.
        """
        self.settings = settings
        self.clock = clock or Clock()
        self.actor = actor
        self.cwd = cwd
        self.on_notice = on_notice
        self.one_shot = one_shot
        self.is_helper = is_helper or one_shot
        self.ask_passphrase: Callable[[], str] | None = None
        """Called at most once in a process, if this device's key has a passphrase, to get it."""
        self.is_unattended = False
        """Whether no user sees the output: then a notice that is shown once counts as not shown."""
        self.is_shared = False
        """Whether the store belongs to another context, which closes it."""
        self._make_followers = followers
        self._followers: Sequence[Follower] | None = None
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._redactor: Redactor | None = None
        self._workspace: Workspace | None = None

    @property
    def store(self) -> Store:
        if self._store is None:
            self._store = self.open_store(self.settings.store)
        return self._store

    def open_store(self, url: str, *, sealed: bool = False) -> Store:
        """Open a store of this home; the caller closes it.

        `sealed` allows a store whose sessions were moved to another store.
        """
        from forestay.base.process import machine_id  # start-up

        return open_store(
            url,
            self.settings.home,
            clock=self.clock,
            busy_timeout=self.settings.busy_timeout,
            machine=machine_id,
            sealed=sealed,
        )

    @property
    def journal(self) -> Journal:
        if self._journal is None:
            from forestay.journal.journal import Journal  # start-up

            self._journal = Journal(self.store, self.clock, self.redactor)
        return self._journal

    @property
    def redactor(self) -> Redactor:
        if self._redactor is None:
            from forestay.base.redact import Redactor  # start-up

            self._redactor = Redactor(self.settings.redact_patterns)
        return self._redactor

    @property
    def workspace(self) -> Workspace:
        if self._workspace is None:
            self._workspace = Workspace(self.store, self.clock, self.cwd)
        return self._workspace

    @property
    def folder(self) -> str:
        """The folder from which the home is used; the working tree contains it."""
        return os.path.abspath(self.cwd or os.getcwd())

    def checkout(self) -> tuple[str, str]:
        """Return the branch and the commit that are checked out here, empty if there are none.

        Secrets are removed from the branch, so that it can be compared with what was recorded.
        """
        from forestay.workspace.tree import head  # start-up

        branch, commit = head(self.workspace.tree)
        return self.redactor.text(terminal(branch or ""))[0], commit or ""

    def seen_from(self, folder: str, actor: str) -> Context:
        """Return a context of the same home, used from another folder, for another actor.

        It shares the store with this context and is closed with it.
        """
        other = Context(
            self.settings,
            cwd=folder,
            actor=actor,
            clock=self.clock,
            on_notice=self.on_notice,
            one_shot=True,
            followers=self._make_followers,
        )
        other._store, other._journal, other.is_shared = self.store, self.journal, True
        return other

    # -- followers -----------------------------------------------------------------------------

    @property
    def followers(self) -> Sequence[Follower]:
        if self._followers is None:
            self._followers = self._make_followers(self)
        return self._followers

    def follower(self, kind: type[F]) -> F:
        """Return the follower of this class; every context that the façade makes has one."""
        return next(one for one in self.followers if isinstance(one, kind))

    def run_due_jobs(self, *kinds: str) -> None:
        """Run jobs that are due, such as a backup, after events of these kinds were recorded."""
        for follower in self.followers:
            follower.run_due_jobs(kinds)

    def finish(self) -> None:
        """Do the work that followers delayed, such as writing files.

        A process that is about to end need not call `close` after this.
        """
        for follower in self._followers or ():
            follower.finish()

    def best_effort(self, act: Callable[[], object]) -> None:
        """Call `act`, after an event is durable; report a failure instead of raising it."""
        try:
            act()
        except ForestayError as error:
            self.notify(f"the event was recorded, but a later step failed: {error}")

    def notify(self, line: str) -> None:
        """Report a line to the caller that is not an error of the call."""
        if self.on_notice is not None:
            self.on_notice(line)

    def close(self) -> None:
        """Close the followers and the store; a later use of the context opens them again."""
        for follower in self._followers or ():
            follower.close()
        if self._store is not None:
            self._store.close()
        self._store = self._journal = self._workspace = self._followers = None
