"""The user's devices with their keys, and the persons with whom sessions are shared."""

from __future__ import annotations

from forestay.api.topic import HomeTopic
from forestay.api.values import KeyInfo
from forestay.sync import arrival, keychain, sharing
from forestay.sync.crypto.device_group import is_kept
from forestay.sync.crypto.key_text import read_device_code, read_person_key
from forestay.sync.device_names import name_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from forestay.api.words import ShareMode
    from forestay.journal.context import Context
    from forestay.sync.crypto.device_group import Circle
    from forestay.sync.keychain import Asking, Changed
    from forestay.sync.sharing import Shared


class Devices(HomeTopic):
    """The devices between which the user's sessions travel."""

    @property
    def keys(self) -> Keys:
        """The key of this device."""
        return Keys(self._context)

    def has_keys(self) -> bool:
        """Whether this device has keys by which sessions travel."""
        return is_kept(keychain.folder(self._context))

    def name_of(self, id: str) -> str:
        """What people call the device that wrote a chain; the id itself where nobody told."""
        return name_of(self._context, id)

    def last_session(self, device: str) -> str:
        """The open session that was worked on last on a device, by its name."""
        return arrival.last_on(self._context, device)

    def list(self) -> tuple[Circle, str]:
        """The circle as this device knows it, and the id of this device in it."""
        return keychain.devices(self._context)

    def add(self, *, confirm: str = "", new_key: bool = False) -> Asking | Changed:
        """Ask to be let in, by a code; once that is approved, `confirm` its fingerprint."""
        if confirm:
            return keychain.confirm(self._context, confirm)
        return keychain.ask(self._context, new_key=new_key)

    def approve(self, code: str) -> Changed:
        """Let the device in that shows this code; compare its fingerprint first."""
        return keychain.approve(self._context, read_device_code(code))

    def revoke(self, which: str) -> Changed:
        """Put a device out, by its name or id: it reads nothing written from now on."""
        done = keychain.revoke(self._context, which)
        _push_new_keys(self._context)
        return done

    def rename(self, which: str, name: str) -> Changed:
        """Call a device by another name."""
        return keychain.rename(self._context, which, name)


class Keys(HomeTopic):
    """The key of this device: without it no other device can read what it pushes."""

    def init(self, *, passphrase: str = "", keyring: bool = False) -> Changed:
        """Make the key of this device and its circle, or wrap the key that there is.

        What comes back has the recovery code, which is kept nowhere: show it once.
        """
        return keychain.init(self._context, passphrase=passphrase, keyring=keyring)

    def show(self) -> KeyInfo:
        """What is known of this device's key; nothing of it is secret."""
        return KeyInfo(keychain.show(self._context))

    def export(self, path: str, passphrase: str) -> str:
        """Write the key into a new file, wrapped in a passphrase; returns its id."""
        return keychain.export(self._context, path, passphrase)

    def import_(self, path: str) -> Changed:
        """Take over the key of such a file; `ask_passphrase` is asked for its passphrase."""
        return keychain.import_(self._context, path)

    def recover(self, code: str, *, agree: Callable[[Circle], object] | None = None) -> Changed:
        """Join one's circle again with nothing but the recovery code and a remote.

        `agree` is shown the circle before anything is made, and raises if it is another one.
        """
        return keychain.recover(self._context, code, agree)

    def rotate(self, *, recovery: bool = False) -> Changed:
        """Begin a new epoch of keys; with `recovery` the recovery code is replaced too."""
        done = keychain.rotate(self._context, recovery=recovery)
        _push_new_keys(self._context)
        return done


def _push_new_keys(context: Context) -> None:
    """Start a push, which gives sessions new keys before a revoked device can read more."""
    context.run_due_jobs("session.forgotten")


class Shares(HomeTopic):
    """Persons who may read or continue a session of the user."""

    def add(
        self, session: str, person: str, *, mode: ShareMode | None = None, email: str = ""
    ) -> Shared:
        """Let the person of a key read a session, or `continue` it, on every remote.

        Compare the fingerprint of their key with them first.
        """
        return sharing.share(
            self._context, session, read_person_key(person), mode=mode or "", email=email
        )

    def remove(self, session: str, who: str) -> Shared:
        """Let someone read no more of a session; what they have read they still have."""
        return sharing.unshare(self._context, session, who)

    def owner(self, circle: str) -> str:
        """Who the person of a circle is, if that is not the user: what is known here of them."""
        return keychain.owner_name(self._context, circle)

    def list(self, session: str) -> Shared:
        """With whom a session is shared, as its remotes tell."""
        return sharing.shares(self._context, session)
