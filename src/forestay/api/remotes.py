"""Remotes: the storage through which sessions reach the user's other devices."""

from __future__ import annotations

from forestay.api.values import RemoteInfo
from forestay.journal.topics import HomeTopic
from forestay.mirror.session_files import SessionFiles
from forestay.sync import arrival, known_remotes
from forestay.sync.run import SyncOptions, visit_all
from forestay.workspace.current_session import find_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Sequence

    from forestay.sync.arrival import Pulled
    from forestay.sync.known_remotes import Checked
    from forestay.sync.run import Report

    Reports = list[Report]
    OnBytes = Callable[[str, int], None]


class Remotes(HomeTopic):
    """Remotes of this home: add and check them, push and pull."""

    def add(self, name: str, address: str) -> Checked:
        """Add a remote under a name after testing it: `folder:PATH` or `s3://BUCKET/…`."""
        added = known_remotes.add(self._context, name, address)
        SessionFiles.of(self._context).write_sync_state()
        return added

    def list(self) -> builtins.list[RemoteInfo]:
        """Return the remotes of this home, with the result of the last sync."""
        return [RemoteInfo(known) for known in self._context.store.machine.remotes.all()]

    def remove(self, name: str) -> RemoteInfo:
        """Remove a remote from this home; nothing on the remote is changed."""
        removed = known_remotes.remove(self._context, name)
        SessionFiles.of(self._context).write_sync_state()
        return RemoteInfo(removed)

    def check(self, name: str) -> Checked:
        """Test a remote again: what it supports, and which of its files are not Forestay's."""
        return known_remotes.check(self._context, name)

    def push(
        self,
        remote: str = "",
        *,
        sessions: Sequence[str] = (),
        again: bool = False,
        on_bytes: OnBytes | None = None,
    ) -> Reports:
        """Send what was recorded on this device to one remote, or to all; all sessions, or some.

        `again` also sends what the remote lost. `on_bytes` is called with "up" or "down" and a
        number of bytes as they are sent or received. If it has methods `expect` and `done`, they
        are called with the number of events to transfer, and of those transferred: for both
        directions, and from several threads.
        """
        options = SyncOptions(pull=False, again=again, sessions=sessions)
        return visit_all(self._context, remote, options, on_bytes=on_bytes)

    def pull(
        self,
        remote: str = "",
        *,
        sessions: Sequence[str] = (),
        join: Sequence[str] = (),
        doubt: Sequence[str] = (),
        believe: Sequence[str] = (),
        on_bytes: OnBytes | None = None,
    ) -> Reports:
        """Fetch what other devices sent to a remote.

        `join` names sessions that were imported and continued here, and are now shared by their
        owner: what this device recorded becomes part of the shared session. `doubt` names persons
        whose claims about missing events are ignored in `sessions` from now on, until they are
        named in `believe`: what they recorded is merged, and what they only claim blocks nothing.
        """
        ids = [find_session(self._context.store, one) for one in join]
        options = SyncOptions(push=False, sessions=sessions, join=ids, doubt=doubt, believe=believe)
        return visit_all(self._context, remote, options, on_bytes=on_bytes)

    def sync(
        self, remote: str = "", *, sessions: Sequence[str] = (), on_bytes: OnBytes | None = None
    ) -> Reports:
        """Pull from a remote, or from all of them, then push; see `pull` and `push`."""
        options = SyncOptions(sessions=sessions)
        return visit_all(self._context, remote, options, on_bytes=on_bytes)

    def unpushed(self, session: str = "") -> int | None:
        """Return how many events are on no remote yet; None without a remote."""
        return self._context.store.machine.remotes.waiting(session)

    def fetch(self, session: str = "") -> Pulled:
        """Fetch what other devices sent, before a session is resumed; being offline is no error."""
        return arrival.pull(self._context, session)
