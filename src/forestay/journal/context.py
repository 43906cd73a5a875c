"""What the engine works with: one home, seen from one folder, on behalf of one actor.

A `Context` opens the store, the journal and the workspace when they are first used, because
start-up is paid at every call. Its *followers* act around every append: they absorb file edits,
register this process, write files, make a backup, sync. The façade lists them in one place; the
modules below it neither know the façade nor each other's followers.
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

    What fails after an append must not look like a failed append: use `Context.best_effort`.
    """

    def before_append(self, session_id: str, bodies: Sequence[Body], actor: str) -> None:
        """Prepare for events that are about to be appended to a session that exists already."""

    def after_append(self, session_id: str, events: Sequence[Event]) -> None:
        """Act on events that are durable now."""

    def run_due_jobs(self, kinds: Sequence[str] = ()) -> None:
        """Do what is due from time to time; `kinds` are those of the events just recorded."""

    def before_erasure(self, session_id: str) -> Callable[[], Sequence[str]]:
        """Prepare for erasures that arrive from another device.

        Return what to do after they are merged; it returns files that may still hold something.
        """
        return lambda: ()

    def resume_erasure(self, session_id: str) -> Sequence[str]:
        """Do what a process left to do after an erasure when it died; see `before_erasure`."""
        return ()

    def finish(self) -> None:
        """Do delayed work now: the process is about to end, or another one needs the result."""

    def close(self) -> None:
        """Finish, and release everything. The context opens new followers when it is used again."""


class Context:
    """A home, seen from a folder, on behalf of an actor."""

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
        """`one_shot` is a process that ends at once; a helper works for the one that started it.

        `followers` is called once, when the followers are first needed.
        """
        self.settings = settings
        self.clock = clock or Clock()
        self.actor = actor
        self.cwd = cwd
        self.on_notice = on_notice
        self.one_shot = one_shot
        self.is_helper = is_helper or one_shot
        self.ask_passphrase: Callable[[], str] | None = None
        """Called for the passphrase of this device's key, once in a process, if it has one."""
        self.is_unattended = False
        """Whether no user sees the output, so that a notice shown once is still due."""
        self.is_shared = False
        """Whether another context owns the store, and closes it."""
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
        """Open a store of this home; the caller closes it. `sealed` allows one that was moved."""
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
        """The folder that the home is seen from; the tree is around it."""
        return os.path.abspath(self.cwd or os.getcwd())

    def checkout(self) -> tuple[str, str]:
        """Return the branch and the commit that are checked out here, empty if there are none.

        Secrets are removed from the branch, so that it can be compared with what was recorded.
        """
        from forestay.workspace.tree import head  # start-up

        branch, commit = head(self.workspace.tree)
        return self.redactor.text(terminal(branch or ""))[0], commit or ""

    def seen_from(self, folder: str, actor: str) -> Context:
        """Return the same home seen from another folder, for another actor; it shares the store
        and is closed with this one."""
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
        """Return the follower of a kind; every context that the façade makes has one of each."""
        return next(one for one in self.followers if isinstance(one, kind))

    def run_due_jobs(self, *kinds: str) -> None:
        """Do what is due after events of these kinds were recorded, such as a backup."""
        for follower in self.followers:
            follower.run_due_jobs(kinds)

    def finish(self) -> None:
        """Do what the followers put off, such as writing files; a process that ends needs no more
        than this."""
        for follower in self._followers or ():
            follower.finish()

    def best_effort(self, act: Callable[[], object]) -> None:
        """Do something after an event is durable: a failure is reported, not raised."""
        try:
            act()
        except ForestayError as error:
            self.notify(f"the event was recorded, but a later step failed: {error}")

    def notify(self, line: str) -> None:
        """Report something to the caller that is no error of its call."""
        if self.on_notice is not None:
            self.on_notice(line)

    def close(self) -> None:
        """Close the followers and the store. Can be called twice; using it again reopens them."""
        for follower in self._followers or ():
            follower.close()
        if self._store is not None:
            self._store.close()
        self._store = self._journal = self._workspace = self._followers = None
