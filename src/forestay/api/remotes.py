"""The verbs by which sessions travel between devices: a home has them all.

Each delegates to the module that knows how: nothing of it is loaded until it is asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from forestay.journal.context import Context
    from forestay.store.machine.remotes import Known
    from forestay.sync.arrival import Pulled
    from forestay.sync.crypto.device_group import Circle
    from forestay.sync.keychain import Asking, Changed
    from forestay.sync.known_remotes import Checked
    from forestay.sync.run import Report
    from forestay.sync.sharing import Shared

    # `list` is a verb of a home.
    Remotes = list[Known]
    Reports = list[Report]
    OnBytes = Callable[[str, int], None]


class TravelVerbs:
    """What a home can do with devices elsewhere; `Forestay` inherits it."""

    if TYPE_CHECKING:
        context: Context

    def device(self, id: str) -> str:
        """What people call the device that wrote a chain; the id itself where nobody told."""
        from forestay.sync.device_names import name_of

        return name_of(self.context, id)

    @property
    def ask_passphrase(self) -> Callable[[], str] | None:
        """Called for the passphrase of this device's key, once in a process, if it has one."""
        return self.context.ask_passphrase

    @ask_passphrase.setter
    def ask_passphrase(self, ask: Callable[[], str] | None) -> None:
        self.context.ask_passphrase = ask

    def _write_sync_state(self) -> None:
        """Update the files that show how their sessions stand with other devices."""
        from forestay.mirror.session_files import SessionFiles  # start-up

        SessionFiles.of(self.context).write_sync_state()

    def reached_from_desktop(self) -> None:
        """Remember that Claude Desktop reaches this home: files of sessions tell it."""
        if not self.context.store.machine.remotes.in_desktop():
            self.context.store.machine.remotes.is_in_desktop()
            self._write_sync_state()

    def arrive(self, session: str = "") -> Pulled:
        """Take what other devices put on remotes before a session is taken up; offline is fine."""
        from forestay.sync.arrival import pull

        return pull(self.context, session)

    def last_on(self, device: str) -> str:
        """The open session that was worked on last on a device, by its name."""
        from forestay.sync.arrival import last_on

        return last_on(self.context, device)

    def in_circle(self) -> bool:
        """Whether this device has keys by which sessions travel."""
        from forestay.sync.crypto.device_group import is_kept
        from forestay.sync.keychain import folder

        return is_kept(folder(self.context))

    # -- keys ----------------------------------------------------------------------------------

    def key_init(self, *, passphrase: str = "", keyring: bool = False) -> Changed:
        """Make the key of this device and its circle, or wrap the key that there is.

        What comes back has the recovery code, which is kept nowhere: show it once.
        """
        from forestay.sync import keychain

        return keychain.init(self.context, passphrase=passphrase, keyring=keyring)

    def key_show(self) -> dict[str, Any]:
        """What is known of this device's key; nothing of it is secret."""
        from forestay.sync import keychain

        return keychain.show(self.context)

    def key_export(self, path: str, passphrase: str) -> str:
        """Write the key into a new file, wrapped in a passphrase; returns its id."""
        from forestay.sync import keychain

        return keychain.export(self.context, path, passphrase)

    def key_import(self, path: str) -> Changed:
        """Take over the key of such a file; `ask_passphrase` is asked for its passphrase."""
        from forestay.sync import keychain

        return keychain.import_(self.context, path)

    def key_recover(self, code: str, *, agree: Callable[[Circle], object] | None = None) -> Changed:
        """Join one's circle again with nothing but the recovery code and a remote.

        `agree` is shown the circle before anything is made, and raises if it is another one.
        """
        from forestay.sync import keychain

        return keychain.recover(self.context, code, agree)

    def key_rotate(self, *, recovery: bool = False) -> Changed:
        """Begin a new epoch of keys; with `recovery` the recovery code is replaced too."""
        from forestay.sync import keychain

        done = keychain.rotate(self.context, recovery=recovery)
        self._push_new_keys()
        return done

    def _push_new_keys(self) -> None:
        """Start a push, which gives sessions new keys: a revoked device must not be faster."""
        self.context.run_due_jobs("session.forgotten")

    # -- devices -------------------------------------------------------------------------------

    def devices_list(self) -> tuple[Circle, str]:
        """The circle as this device knows it, and the id of this device in it."""
        from forestay.sync import keychain

        return keychain.devices(self.context)

    def devices_add(self, *, confirm: str = "", new_key: bool = False) -> Asking | Changed:
        """Ask to be let in, by a code; once that is approved, `confirm` its fingerprint."""
        from forestay.sync import keychain

        if confirm:
            return keychain.confirm(self.context, confirm)
        return keychain.ask(self.context, new_key=new_key)

    def devices_approve(self, code: str) -> Changed:
        """Let the device in that shows this code; compare its fingerprint first."""
        from forestay.sync import keychain
        from forestay.sync.crypto.key_text import read_device_code

        return keychain.approve(self.context, read_device_code(code))

    def devices_revoke(self, which: str) -> Changed:
        """Put a device out, by its name or id: it reads nothing written from now on."""
        from forestay.sync import keychain

        done = keychain.revoke(self.context, which)
        self._push_new_keys()
        return done

    def devices_rename(self, which: str, name: str) -> Changed:
        """Call a device by another name."""
        from forestay.sync import keychain

        return keychain.rename(self.context, which, name)

    # -- remotes -------------------------------------------------------------------------------

    def remote_add(self, name: str, address: str) -> Checked:
        """Remember a remote by a name, once it was tried: `folder:PATH` or `s3://BUCKET/…`."""
        from forestay.sync import known_remotes

        added = known_remotes.add(self.context, name, address)
        self._write_sync_state()
        return added

    def remote_list(self) -> Remotes:
        """The remotes of this home, with how the last sync went."""
        return self.context.store.machine.remotes.all()

    def remote_remove(self, name: str) -> Known:
        """Forget a remote, and what it has shown; nothing there is changed."""
        from forestay.sync import known_remotes

        removed = known_remotes.remove(self.context, name)
        self._write_sync_state()
        return removed

    def remote_check(self, name: str) -> Checked:
        """Try a remote again: what it can do, and what lies there that is none of ours."""
        from forestay.sync import known_remotes

        return known_remotes.check(self.context, name)

    def push(
        self,
        remote: str = "",
        *,
        sessions: Sequence[str] = (),
        again: bool = False,
        on_bytes: OnBytes | None = None,
    ) -> Reports:
        """Put what was recorded here on a remote, or on all of them; all sessions, or some.

        `again` puts there what the remote should have and lost. `on_bytes` is told "up" or
        "down" and a number of bytes as they move. If it has methods `expect` and `done`, they
        are told how many events will move, and have: both ways and in several threads.
        """
        from forestay.sync.run import Manner, visit_all

        manner = Manner(pull=False, again=again, sessions=sessions)
        return visit_all(self.context, remote, manner, tell=on_bytes)

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
        """Take what others put on a remote.

        `join` names sessions that were imported and worked on here, and are now shared by whoever
        owns them: what was added here becomes part of what is shared. `doubt` names persons whose
        word of what else is there is not to count, in `sessions` from now on, until they are named
        in `believe`: what they added is taken, and what they tell and is not there stops nothing.
        """
        from forestay.sync.run import Manner, visit_all
        from forestay.workspace.current_session import find_session

        meant = [find_session(self.context.store, one) for one in join]
        manner = Manner(push=False, sessions=sessions, join=meant, doubt=doubt, believe=believe)
        return visit_all(self.context, remote, manner, tell=on_bytes)

    def sync(
        self, remote: str = "", *, sessions: Sequence[str] = (), on_bytes: OnBytes | None = None
    ) -> Reports:
        """Pull, then push."""
        from forestay.sync.run import Manner, visit_all

        manner = Manner(sessions=sessions)
        return visit_all(self.context, remote, manner, tell=on_bytes)

    def unpushed(self, session: str = "") -> int | None:
        """How many events are on no remote yet, of one session or all; None without a remote."""
        return self.context.store.machine.remotes.waiting(session)

    # -- persons -------------------------------------------------------------------------------

    def share(self, session: str, person: str, *, mode: str = "", email: str = "") -> Shared:
        """Let the person of a key read a session, or `continue` it, on every remote.

        Compare the fingerprint of their key with them first.
        """
        from forestay.sync import sharing
        from forestay.sync.crypto.key_text import read_person_key

        return sharing.share(self.context, session, read_person_key(person), mode=mode, email=email)

    def unshare(self, session: str, who: str) -> Shared:
        """Let someone read no more of a session; what they have read they still have."""
        from forestay.sync import sharing

        return sharing.unshare(self.context, session, who)

    def owner(self, circle: str) -> str:
        """Who the person of a circle is, if that is not the user: what is known here of them."""
        from forestay.sync.keychain import owner_name

        return owner_name(self.context, circle)

    def shares(self, session: str) -> Shared:
        """With whom a session is shared, as its remotes tell."""
        from forestay.sync import sharing

        return sharing.shares(self.context, session)
