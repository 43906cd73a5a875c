"""An exported file that only those can read whom it is for.

    file = "HOLDFAST EXPORT 1" LF, then a pack under age: to recipients, or to a passphrase

    !! Such files are kept for years. A change is a new number in the first line.

Who made it is not signed: a pack proves what is in it, and whoever takes it in decides to. It is
held in memory as a whole, so that nothing of it ever lies open on the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast import files
from holdfast.errors import HoldfastError, InvalidInput, Locked, Outdated
from holdfast.home import Holdfast
from holdfast.remote import circle as circles
from holdfast.remote import code, keys
from holdfast.remote.keys import Key, Secret

MAGIC = b"HOLDFAST EXPORT 1\n"
_ANY = b"HOLDFAST EXPORT "
_BY_PASSPHRASE = b"\n-> scrypt "
_LIMIT = 2 << 30


def sealed(pack: Iterable[bytes], *, to: Sequence[str] = (), passphrase: str = "") -> bytes:
    """A pack for persons (`hfp1…`), devices (`hfd1…`) or age recipients, or for a passphrase."""
    if to and passphrase:
        why = "age allows one or the other"
        raise InvalidInput("a file is sealed to keys or to a passphrase, not to both", why=why)
    data = b"".join(pack)
    if passphrase:
        return MAGIC + keys.seal_with_passphrase(data, passphrase)
    return MAGIC + keys.seal(data, [recipient(each) for each in to])


def recipient(text: str) -> str:
    """The age recipient of a person key, a device code, or of itself."""
    kind = text.strip()[:4].lower()
    if kind == code.PERSON:
        return code.read_person_key(text).recipient
    if kind == code.DEVICE:
        return code.read_device_code(text).recipient
    if kind == "age1":
        return code.recipient_of(code.recipient_bytes(text.strip()))
    hint = "a person key (hfp1…), a device code (hfd1…) or an age recipient (age1…)"
    raise InvalidInput("this is no key to seal to", hint=hint)


def opened(home: Holdfast, path: str) -> str | bytes:
    """The pack in a sealed file; the path itself if it is not sealed."""
    start = next(iter(files.read_chunks(path)), b"")[: len(MAGIC)]
    if not start.startswith(_ANY):
        return path
    if start != MAGIC:
        raise Outdated(f"a newer Holdfast wrote {path}", hint="use that version", file=path)
    data = files.read_bounded(path, _LIMIT)[len(MAGIC) :]
    if _BY_PASSPHRASE in data[:200]:
        return keys.open_with_passphrase(data, _passphrase(home, path), path)
    return _by_keys(home, data, path)


def _passphrase(home: Holdfast, path: str) -> str:
    given = home.ask_passphrase() if home.ask_passphrase else ""
    if not given:
        hint = "set HOLDFAST_PASSPHRASE, or run it in a terminal, where it is asked for"
        raise Locked(f"{path} is wrapped in a passphrase", hint=hint, file=path)
    return given


def _by_keys(home: Holdfast, data: bytes, path: str) -> bytes:
    from holdfast import keychain

    place = keychain.folder(home)
    if not keys.exists(place):
        raise _not_for_us(path, "this device has no key", "holdfast key init")
    key = keychain.own_key(home)
    circle = circles.load_circle(place, key)
    held: list[Key | Secret] = [key, *(circle.epochs if circle else [])]
    for one in held:
        try:
            return one.open(data)
        except Locked:
            continue
    yours = f"give who sends it: {circle.person}" if circle else "holdfast key init"
    raise _not_for_us(path, f"this device is {key.id}", yours)


def _not_for_us(path: str, why: str, hint: str) -> HoldfastError:
    return Locked(f"{path} is sealed to other keys than those here", why=why, hint=hint, file=path)
