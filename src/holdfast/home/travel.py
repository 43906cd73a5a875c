"""The verbs by which sessions travel between devices: a home has them all.

Each delegates to the module that knows how: nothing of it is loaded until it is asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from holdfast.arrival import Pulled
    from holdfast.home import Holdfast
    from holdfast.keychain import Asking, Changed
    from holdfast.layout import Travel
    from holdfast.remote.circle import Circle
    from holdfast.sharing import Shared
    from holdfast.store.remotes import Known
    from holdfast.travel.remotes import Checked
    from holdfast.travel.visit import Report

    # `list` is a verb of a home.
    Remotes = list[Known]
    Reports = list[Report]
    OnBytes = Callable[[str, int], None]


MOMENTS = frozenset(
    """
    agent.started agent.finished agent.failed agent.timed_out decision.made error.raised
    session.paused session.completed session.failed session.aborted session.abandoned
    session.forgotten
    """.split()
)
"""Kinds of events after which other devices should know at once."""


class TravelVerbs:
    """What a home can do with devices elsewhere; `Holdfast` inherits it."""

    ask_passphrase: Callable[[], str] | None = None
    """Called for the passphrase of this device's key, once in a process, if it has one."""
    _look_again_at = 0.0

    if TYPE_CHECKING:

        @property
        def _home(self) -> Holdfast: ...

    def device(self, id: str) -> str:
        """What people call the device that wrote a chain; the id itself where nobody told."""
        from holdfast.who import name_of

        return name_of(self._home, id)

    def travel(self, session: str) -> Travel | None:
        """How a session stands with other devices; None where none was ever heard of."""
        remotes = self._home.store.remotes
        if not (remotes.any() or remotes.circle() or remotes.in_desktop()):
            return None
        from holdfast.who import travel

        return travel(self._home, session)

    def tell_files(self) -> None:
        """Have the files that tell how their sessions travel say it as it is now."""
        from holdfast.layout.customs import custom

        every = self._home.store.bound.bindings()
        for session in dict.fromkeys(one.session for one in every if custom(one.layout).travels):
            self._home.reflect(session)

    def reached_from_desktop(self) -> None:
        """Remember that Claude Desktop reaches this home: files of sessions tell it."""
        if not self._home.store.remotes.in_desktop():
            self._home.store.remotes.is_in_desktop()
            self.tell_files()

    def arrive(self, session: str = "") -> Pulled:
        """Take what other devices put on remotes before a session is taken up; offline is fine."""
        from holdfast.arrival import pull

        return pull(self._home, session)

    def last_on(self, device: str) -> str:
        """The open session that was worked on last on a device, by its name."""
        from holdfast.arrival import last_on

        return last_on(self._home, device)

    def in_circle(self) -> bool:
        """Whether this device has keys by which sessions travel."""
        from holdfast.keychain import folder
        from holdfast.remote.circle import is_kept

        return is_kept(folder(self._home))

    # -- keys ----------------------------------------------------------------------------------

    def key_init(self, *, passphrase: str = "", keyring: bool = False) -> Changed:
        """Make the key of this device and its circle, or wrap the key that there is.

        What comes back has the recovery code, which is kept nowhere: show it once.
        """
        from holdfast import keychain

        return keychain.init(self._home, passphrase=passphrase, keyring=keyring)

    def key_show(self) -> dict[str, Any]:
        """What is known of this device's key; nothing of it is secret."""
        from holdfast import keychain

        return keychain.show(self._home)

    def key_export(self, path: str, passphrase: str) -> str:
        """Write the key into a new file, wrapped in a passphrase; returns its id."""
        from holdfast import keychain

        return keychain.export(self._home, path, passphrase)

    def key_import(self, path: str) -> Changed:
        """Take over the key of such a file; `ask_passphrase` is asked for its passphrase."""
        from holdfast import keychain

        return keychain.import_(self._home, path)

    def key_recover(self, code: str, *, agree: Callable[[Circle], object] | None = None) -> Changed:
        """Join one's circle again with nothing but the recovery code and a remote.

        `agree` is shown the circle before anything is made, and raises if it is another one.
        """
        from holdfast import keychain

        return keychain.recover(self._home, code, agree)

    def key_rotate(self, *, recovery: bool = False) -> Changed:
        """Begin a new epoch of keys; with `recovery` the recovery code is replaced too."""
        from holdfast import keychain

        done = keychain.rotate(self._home, recovery=recovery)
        self._turn_keys()
        return done

    def _turn_keys(self) -> None:
        """Sessions get new keys with a push: whoever was put out is not to be faster than that."""
        self.sync_if_due(*MOMENTS)

    # -- devices -------------------------------------------------------------------------------

    def devices_list(self) -> tuple[Circle, str]:
        """The circle as this device knows it, and the id of this device in it."""
        from holdfast import keychain

        return keychain.devices(self._home)

    def devices_add(self, *, confirm: str = "", new_key: bool = False) -> Asking | Changed:
        """Ask to be let in, by a code; once that is approved, `confirm` its fingerprint."""
        from holdfast import keychain

        if confirm:
            return keychain.confirm(self._home, confirm)
        return keychain.ask(self._home, new_key=new_key)

    def devices_approve(self, code: str) -> Changed:
        """Let the device in that shows this code; compare its fingerprint first."""
        from holdfast import keychain
        from holdfast.remote.code import read_device_code

        return keychain.approve(self._home, read_device_code(code))

    def devices_revoke(self, which: str) -> Changed:
        """Put a device out, by its name or id: it reads nothing written from now on."""
        from holdfast import keychain

        done = keychain.revoke(self._home, which)
        self._turn_keys()
        return done

    def devices_rename(self, which: str, name: str) -> Changed:
        """Call a device by another name."""
        from holdfast import keychain

        return keychain.rename(self._home, which, name)

    # -- remotes -------------------------------------------------------------------------------

    def remote_add(self, name: str, address: str) -> Checked:
        """Remember a remote by a name, once it was tried: `folder:PATH` or `s3://BUCKET/…`."""
        from holdfast.travel import remotes

        added = remotes.add(self._home, name, address)
        self.tell_files()
        return added

    def remote_list(self) -> Remotes:
        """The remotes of this home, with how the last sync went."""
        return self._home.store.remotes.all()

    def remote_remove(self, name: str) -> Known:
        """Forget a remote, and what it has shown; nothing there is changed."""
        from holdfast.travel import remotes

        removed = remotes.remove(self._home, name)
        self.tell_files()
        return removed

    def remote_check(self, name: str) -> Checked:
        """Try a remote again: what it can do, and what lies there that is none of ours."""
        from holdfast.travel import remotes

        return remotes.check(self._home, name)

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
        from holdfast.travel.visit import Manner, visit_all

        manner = Manner(pull=False, again=again, sessions=sessions)
        return visit_all(self._home, remote, manner, tell=on_bytes)

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
        from holdfast.travel.visit import Manner, visit_all

        meant = [self._home.session(one).id for one in join]
        manner = Manner(push=False, sessions=sessions, join=meant, doubt=doubt, believe=believe)
        return visit_all(self._home, remote, manner, tell=on_bytes)

    def sync(
        self, remote: str = "", *, sessions: Sequence[str] = (), on_bytes: OnBytes | None = None
    ) -> Reports:
        """Pull, then push."""
        from holdfast.travel.visit import Manner, visit_all

        manner = Manner(sessions=sessions)
        return visit_all(self._home, remote, manner, tell=on_bytes)

    def sync_if_due(self, *kinds: str) -> None:
        """Something was recorded: have it synced in the background, if there is a remote."""
        home, now = self._home, self._home.clock.monotonic()
        kind = next((one for one in kinds if one in MOMENTS), "")
        if home.settings.auto_sync != "on" or (now < self._look_again_at and not kind):
            return
        self._look_again_at = now + 1
        if home.store.remotes.any():
            home.afterwards(lambda: self._wish(now, kind))

    def _wish(self, now: float, kind: str) -> None:
        from holdfast.travel import background

        self._look_again_at = now + background.wish(self._home, kind)

    def unpushed(self, session: str = "") -> int | None:
        """How many events are on no remote yet, of one session or all; None without a remote."""
        return self._home.store.remotes.waiting(session)

    # -- persons -------------------------------------------------------------------------------

    def share(self, session: str, person: str, *, mode: str = "", email: str = "") -> Shared:
        """Let the person of a key read a session, or `continue` it, on every remote.

        Compare the fingerprint of their key with them first.
        """
        from holdfast import sharing
        from holdfast.remote.code import read_person_key

        return sharing.share(self._home, session, read_person_key(person), mode=mode, email=email)

    def unshare(self, session: str, who: str) -> Shared:
        """Let someone read no more of a session; what they have read they still have."""
        from holdfast import sharing

        return sharing.unshare(self._home, session, who)

    def owner(self, circle: str) -> str:
        """Who the person of a circle is, if that is not the user: what is known here of them."""
        from holdfast.keychain import own_circle
        from holdfast.who import person_of

        return "" if circle in ("", own_circle(self._home)) else person_of(self._home, circle)

    def shares(self, session: str) -> Shared:
        """With whom a session is shared, as its remotes tell."""
        from holdfast import sharing

        return sharing.shares(self._home, session)
