"""The key of this device, the key derived from a recovery code, and encryption by age.

A *key* is two pairs: an age X25519 identity, which opens what was sealed to its recipient, and an
Ed25519 one, which signs. Its *id* is the first 16 digits of the SHA-256 of the verify key. A
*secret* is an age identity alone: the key of an epoch. All encryption is done by age (pyrage) and
the cryptography package; this module implements no cipher.

    file   = "FORESTAY KEY 1" LF, about LF, sealed
    about  = JSON {"id", "recipient", "verify": hex, "kept", "made": UTC ms}, all public
    sealed = secrets where kept is "file"; age (scrypt) of them where it is "passphrase"; nothing
             where it is "keyring": the system's keyring has them, as (forestay, id)
    secrets = JSON {"age": "AGE-SECRET-KEY-1…", "sign": hex of the Ed25519 seed}

    !! Key files are used for years, and the keys of a recovery code come from its seed alone.
    !! A change of either needs a new version number.

Only this module handles secret bytes; no message or `repr` shows one.
"""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib import import_module

import msgspec
from msgspec import Struct

from forestay.base import files
from forestay.errors import ForestayError, InvalidInput, Locked, Outdated, Refused, Tampered
from forestay.sync.crypto import key_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Ask = Callable[[], str]

FILE = "device.key"
IN_FILE, IN_PASSPHRASE, IN_KEYRING = "file", "passphrase", "keyring"
_MAGIC = b"FORESTAY KEY 1\n"
_ANY_MAGIC = b"FORESTAY KEY "
_LIMIT = 1 << 20
_ID = 16
_SERVICE = "forestay"
_RECOVERY = b"forestay recovery 1"
_NO_MATCH = "No matching keys found"
_NO_PASSPHRASE = "Decryption failed"
"""The message of age for a wrong passphrase; damaged data gives another one."""
_MISSING = "pip install 'forestay[teleport]'"


def key_id(public: bytes) -> str:
    """Return the id of a public key."""
    return sha256(public).hexdigest()[:_ID]


# --- the libraries ----------------------------------------------------------------------------


def _library(purpose: str, name: str, hint: str = _MISSING) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise InvalidInput(f"{purpose} needs the package {package}", hint=hint) from None


_age = partial(_library, "sealing", "pyrage")
_ed25519 = partial(_library, "signing", "cryptography.hazmat.primitives.asymmetric.ed25519")
_keyring = partial(
    _library,
    "the system keyring",
    "keyring",
    "pip install keyring, or run the command without --keyring: the key file has mode 0600",
)


# --- values -----------------------------------------------------------------------------------


class Secret:
    """An age identity: it decrypts what was encrypted to its recipient."""

    __slots__ = ("_identity", "id", "recipient", "text")

    def __init__(self, text: str) -> None:
        age = _age()
        try:
            self._identity = age.x25519.Identity.from_str(text)
        except age.IdentityError:
            raise InvalidInput("this is not an age secret key") from None
        self.text = text
        self.recipient = str(self._identity.to_public())
        self.id = recipient_id(self.recipient)

    @classmethod
    def new(cls) -> Secret:
        return cls(str(_age().x25519.Identity.generate()))

    def __repr__(self) -> str:
        return f"<Secret {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.recipient)

    def open(self, sealed: bytes) -> bytes:
        """Decrypt; raise `Locked` if sealed to another key, `Tampered` if changed since."""
        return open_with([self], sealed)


class Key:
    """The key of a device, or the one derived from a recovery code."""

    __slots__ = ("_secret", "_seed", "_sign", "id", "recipient", "verify")

    def __init__(self, secret: Secret, seed: bytes) -> None:
        self._secret, self._seed = secret, seed
        self._sign = _ed25519().Ed25519PrivateKey.from_private_bytes(seed)
        self.recipient = secret.recipient
        self.verify: bytes = self._sign.public_key().public_bytes_raw()
        self.id = key_id(self.verify)

    def __repr__(self) -> str:
        return f"<Key {self.id}>"

    def sign(self, data: bytes) -> bytes:
        """Return the signature, 64 bytes."""
        made: bytes = self._sign.sign(data)
        return made

    def open(self, sealed: bytes) -> bytes:
        """Decrypt; raise `Locked` if sealed to another key, `Tampered` if changed since."""
        return self._secret.open(sealed)


def recipient_id(recipient: str) -> str:
    """Return the id of an age recipient."""
    return key_id(key_text.recipient_bytes(recipient))


def new_key() -> Key:
    """Generate a key; it is not stored."""
    return Key(Secret.new(), os.urandom(32))


def seal(data: bytes, recipients: Sequence[str]) -> bytes:
    """Encrypt to age recipients; each of them can decrypt it."""
    age = _age()
    try:
        known = [age.x25519.Recipient.from_str(one) for one in dict.fromkeys(recipients)]
    except age.RecipientError:
        why = "a recipient begins with age1"
        raise InvalidInput("this is not an age recipient", why=why) from None
    sealed: bytes = age.encrypt(data, known)
    return sealed


def open_with(secrets: Sequence[Secret], sealed: bytes) -> bytes:
    """Decrypt with any of the secrets; raise `Locked` if none fits, `Tampered` if changed."""
    age = _age()
    try:
        data: bytes = age.decrypt(sealed, [secret._identity for secret in secrets])
    except age.DecryptError as error:
        if str(error) == _NO_MATCH:
            ids = ", ".join(secret.id for secret in secrets)
            what = "the data is encrypted to other keys"
            raise Locked(what, why=f"tried: {ids or 'none'}") from None
        raise Tampered("the encrypted data was changed", why=str(error)) from None
    return data


def verify(public: bytes, signature: bytes, data: bytes) -> bool:
    """Return whether the signature of this key over `data` is valid."""
    from cryptography.exceptions import InvalidSignature

    try:
        _ed25519().Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


# --- passphrases and recovery codes -----------------------------------------------------------


def seal_with_passphrase(data: bytes, passphrase: str) -> bytes:
    """Encrypt to a passphrase. Slow on purpose: about two seconds."""
    if not passphrase:
        raise InvalidInput("the passphrase is empty")
    sealed: bytes = _age().passphrase.encrypt(data, passphrase)
    return sealed


def open_with_passphrase(sealed: bytes, passphrase: str, what: str, *, without: str = "") -> bytes:
    """Decrypt with a passphrase; raise `Locked` if it is wrong, with a hint from `without`.

    Raise `Tampered` if the data is damaged: then no other passphrase opens it either.
    """
    age = _age()
    try:
        data: bytes = age.passphrase.decrypt(sealed, passphrase)
    except age.DecryptError as error:
        if str(error) != _NO_PASSPHRASE:
            raise Tampered(f"{what} was changed after it was encrypted", why=str(error)) from None
        hint = f"try again; without the passphrase: {without}" if without else "try again"
        raise Locked(f"the passphrase does not decrypt {what}", hint=hint) from None
    return data


def new_recovery_code() -> str:
    """Generate a recovery code to write on paper: 128 random bits, in groups of four."""
    return key_text.spaced(key_text.encode(os.urandom(key_text.SEED)))


def recovery_key(typed: str) -> Key:
    """Return the key derived from a recovery code."""
    return key_of_seed(key_text.seed_of(typed))


def key_of_seed(seed: bytes) -> Key:
    _ed25519()
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    both = HKDF(SHA256(), 64, salt=_RECOVERY, info=b"age, then Ed25519").derive(seed)
    return Key(Secret(key_text.secret_of(both[:32])), both[32:])


# --- the file ---------------------------------------------------------------------------------


class About(Struct, frozen=True):
    """The public part of a key file."""

    id: str
    recipient: str
    verify: str
    kept: str
    made: int = 0


class _Secrets(Struct, frozen=True):
    age: str
    sign: str
    circle: str = ""


_opened: dict[bytes, tuple[Key, bytes]] = {}
"""Keys that this process has read, by the SHA-256 of their file, so that it asks for a passphrase
once."""


def path_of(folder: str) -> str:
    return os.path.join(folder, FILE)


def exists(folder: str) -> bool:
    """Return whether this device has a key file."""
    return os.path.lexists(path_of(folder))


def about(folder: str) -> About:
    """Read the public part of this device's key; no passphrase is needed."""
    return _parted(_read(path_of(folder)), path_of(folder))[0]


def create(
    folder: str,
    *,
    passphrase: str = "",
    keyring: bool = False,
    made: int = 0,
    key: Key | None = None,
) -> Key:
    """Create and store the key of this device; raise `Refused` if there is one already."""
    files.make_private_dir(folder)
    with files.locked(folder):
        if exists(folder):
            init = "forestay device key init --passphrase"
            hint = f"forestay device key show; to protect it with a passphrase: {init}"
            raise Refused("this device already has a key", hint=hint)
        return _keep(folder, key or new_key(), passphrase, keyring, made)


def rewrap(folder: str, key: Key, *, passphrase: str = "", keyring: bool = False) -> None:
    """Store the same key in another way: under a passphrase, in the keyring, or neither."""
    with files.locked(folder):
        before = about(folder)
        _keep(folder, key, passphrase, keyring, before.made)
        if before.kept == IN_KEYRING and not keyring:
            # The key is stored in another way now; the old keyring entry is still protected.
            with suppress(Exception):
                _keyring().delete_password(_SERVICE, before.id)


def no_key() -> ForestayError:
    """Return the error for a device without a key."""
    hint = "first device: forestay device key init; further device: forestay device add; all lost: "
    return Locked("this device has no key yet", hint=f"{hint}forestay device key recover")


def load(folder: str, *, ask: Ask | None = None) -> Key:
    """Load the key of this device; call `ask` for its passphrase once per process."""
    path = path_of(folder)
    if not exists(folder):
        raise no_key()
    return imported(_read(path), path, ask)[0]


def exported(key: Key, passphrase: str, *, circle: bytes = b"", made: int = 0) -> bytes:
    """Return the bytes of an export file with the key, encrypted by a passphrase."""
    return _head(key, IN_PASSPHRASE, made) + seal_with_passphrase(_secrets(key, circle), passphrase)


def adopt(folder: str, data: bytes) -> None:
    """Store an export file as the key of this device, under the same passphrase."""
    files.make_private_dir(folder)
    with files.locked(folder):
        files.create(path_of(folder), data)


def _keep(folder: str, key: Key, passphrase: str, keyring: bool, made: int) -> Key:
    kept = IN_KEYRING if keyring else IN_PASSPHRASE if passphrase else IN_FILE
    secrets = _secrets(key)
    if kept == IN_PASSPHRASE:
        secrets = seal_with_passphrase(secrets, passphrase)
    elif kept == IN_KEYRING:
        _put_in_keyring(key.id, secrets.decode())
        secrets = b""
    data = _head(key, kept, made) + secrets
    files.replace(path_of(folder), data)
    _opened[sha256(data).digest()] = key, b""
    return key


def _head(key: Key, kept: str, made: int) -> bytes:
    facts = About(key.id, key.recipient, key.verify.hex(), kept, made)
    return _MAGIC + msgspec.json.encode(facts) + b"\n"


def _secrets(key: Key, circle: bytes = b"") -> bytes:
    packed = b64encode(circle).decode()
    return msgspec.json.encode(_Secrets(key._secret.text, key._seed.hex(), packed))


def _read(path: str) -> bytes:
    data = files.read_bounded(path, _LIMIT, follow=False, private=True)
    if os.stat(path).st_mode & 0o077:
        raise Refused(
            f"other users of this computer can read {path}",
            hint=f"chmod 600 {files.shell_quote(path)}",
            file=path,
        )
    return data


def _parted(data: bytes, name: str) -> tuple[About, bytes]:
    if not data.startswith(_MAGIC):
        if data.startswith(_ANY_MAGIC):
            raise Outdated(f"a newer Forestay wrote {name}", hint="update Forestay", file=name)
        raise InvalidInput(f"{name} is not a key file of Forestay", file=name)
    line, _, rest = data[len(_MAGIC) :].partition(b"\n")
    try:
        return msgspec.json.decode(line, type=About), rest
    except msgspec.DecodeError as error:
        raise _spoiled(name, str(error)) from None


def imported(data: bytes, name: str, ask: Ask | None) -> tuple[Key, bytes]:
    """Return the key in a key file, and the group object if it is an export file."""
    digest = sha256(data).digest()
    if digest not in _opened:
        facts, rest = _parted(data, name)
        try:
            key, group = _parsed(_unwrapped(facts, rest, ask), name)
        except Tampered as error:
            raise _spoiled(name, error.why) from None
        if key.id != facts.id:
            raise _spoiled(name, "its public and secret parts do not belong together")
        _opened[digest] = key, group
    return _opened[digest]


def _unwrapped(facts: About, rest: bytes, ask: Ask | None) -> bytes:
    if facts.kept == IN_KEYRING:
        return _from_keyring(facts.id)
    if facts.kept != IN_PASSPHRASE:
        return rest
    passphrase = ask() if ask else ""
    if not passphrase:
        hint = "set FORESTAY_PASSPHRASE, or run it in a terminal, which asks for it"
        raise Locked(f"the key {facts.id} needs its passphrase", hint=hint)
    what, without = f"the key {facts.id}", "forestay device key recover"
    return open_with_passphrase(rest, passphrase, what, without=without)


def _parsed(secrets: bytes, name: str) -> tuple[Key, bytes]:
    try:
        found = msgspec.json.decode(secrets, type=_Secrets)
        key = Key(Secret(found.age), bytes.fromhex(found.sign))
        return key, b64decode(found.circle, validate=True)
    except (msgspec.DecodeError, ValueError, InvalidInput):
        # The cause might quote a secret.
        raise _spoiled(name, "the secrets in it cannot be read") from None


def _spoiled(name: str, why: str) -> ForestayError:
    hint = "use the copy of `forestay device key export`, or: forestay device key recover CODE"
    return InvalidInput(f"the key file {name} is damaged", why=why, hint=hint, file=name)


# --- the system's keyring ---------------------------------------------------------------------

_LEAVE_IT = "run the command without --keyring; --passphrase protects the key file, too"
_UNLOCK = "unlock the keyring, or: forestay device key recover CODE"


def _put_in_keyring(id: str, secrets: str) -> None:
    ring = _keyring()
    try:
        ring.set_password(_SERVICE, id, secrets)
        kept = ring.get_password(_SERVICE, id)
    except Exception as error:  # keyring backends raise any class
        raise _no_keyring(error, _LEAVE_IT) from None
    if kept != secrets:  # a disabled keyring accepts an entry and drops it
        raise Locked("the system keyring does not store entries", hint=_LEAVE_IT)


def _from_keyring(id: str) -> bytes:
    ring = _keyring()
    try:
        found: str | None = ring.get_password(_SERVICE, id)
    except Exception as error:
        raise _no_keyring(error, _UNLOCK) from None
    if found is None:
        raise Locked(f"the system keyring does not have the key {id}", hint=_UNLOCK)
    return found.encode()


def _no_keyring(error: Exception, hint: str) -> ForestayError:
    return Locked("the system keyring does not answer", why=type(error).__name__, hint=hint)
