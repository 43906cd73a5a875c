"""An exported file that only those can read whom it is for.

    file = "HOLDFAST EXPORT 1" LF, then a pack under age to a passphrase
         | "HOLDFAST EXPORT 2 " whom LF, then a pack under age to recipients
    whom = "circle:" digits | "device:" digits | "age:" digits, with a space between

Age does not tell to whom something is sealed, so the first line does: else whoever cannot open a
file could not know where it would open. Files of form 1 may be sealed to recipients, too.

    !! Such files are kept for years. A change is a new number in the first line.

Who made it is not signed: a pack proves what is in it, and whoever takes it in decides to. It is
held in memory as a whole, so that nothing of it ever lies open on the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast import files
from holdfast.errors import HoldfastError, InvalidInput, Locked, Outdated, Tampered
from holdfast.home import Holdfast
from holdfast.remote import circle as circles
from holdfast.remote import code, keys
from holdfast.remote.keys import Key, Secret
from holdfast.text import tame

MAGIC = b"HOLDFAST EXPORT 1\n"
_NAMED = b"HOLDFAST EXPORT 2 "
_ANY = b"HOLDFAST EXPORT "
_BY_PASSPHRASE = b"\n-> scrypt "
_LIMIT = 2 << 30
_MOST_SHOWN = 10
"""Of those that a file says it is for, whoever wrote it."""


def sealed(pack: Iterable[bytes], *, to: Sequence[str] = (), passphrase: str = "") -> bytes:
    """A pack for persons (`hfp1…`), devices (`hfd1…`) or age recipients, or for a passphrase."""
    if to and passphrase:
        why = "age allows one or the other"
        raise InvalidInput("a file is sealed to keys or to a passphrase, not to both", why=why)
    data = b"".join(pack)
    if passphrase:
        return MAGIC + keys.seal_with_passphrase(data, passphrase)
    first = _NAMED + " ".join(map(_whom, to)).encode() + b"\n"
    return first + keys.seal(data, [recipient(each) for each in to])


def _whom(text: str) -> str:
    """Whom a key is of, by the digits that `holdfast key show` shows there."""
    kind = text.strip()[:4].lower()
    if kind == code.PERSON:
        return f"circle:{code.read_person_key(text).circle[:20]}"
    if kind == code.DEVICE:
        return f"device:{keys.key_id(code.read_device_code(text).verify)}"
    return f"age:{keys.key_id(code.recipient_bytes(recipient(text)))}"


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
    start = next(iter(files.read_chunks(path)), b"")
    if not start.startswith(_ANY):
        return path
    if not start.startswith((MAGIC, _NAMED)):
        raise Outdated(f"a newer Holdfast wrote {path}", hint="use that version", file=path)
    end = start.find(b"\n") + 1
    data = files.read_bounded(path, _LIMIT)[end:]
    whom = start[len(_NAMED) : end].decode("ascii", "replace").split()
    try:
        if _BY_PASSPHRASE in data[:200]:
            return keys.open_with_passphrase(data, _passphrase(home, path), path)
        return _by_keys(home, data, path, [_as_shown(one) for one in whom[:_MOST_SHOWN]])
    except Tampered as error:
        raise Tampered(
            f"{path} is not as it was sealed",
            why=f"it is damaged or cut short: {error.why}",
            hint="get it again from whoever made it: holdfast export",
            file=path,
        ) from None


def _as_shown(whom: str) -> str:
    kind, _, digits = tame(whom, limit=60, lines=False).partition(":")
    named = {"circle": f"the circle {code.grouped(digits)}", "device": f"the device {digits}"}
    return named.get(kind, f"the age key {digits}")


def _passphrase(home: Holdfast, path: str) -> str:
    given = home.ask_passphrase() if home.ask_passphrase else ""
    if not given:
        hint = "set HOLDFAST_PASSPHRASE, or run it in a terminal, where it is asked for"
        raise Locked(f"{path} is wrapped in a passphrase", hint=hint, file=path)
    return given


def _by_keys(home: Holdfast, data: bytes, path: str, whom: Sequence[str]) -> bytes:
    from holdfast import keychain

    place = keychain.folder(home)
    if not keys.exists(place):
        hint = "open it there; for a key of your own: holdfast key init, holdfast key show"
        raise _not_for_us(path, whom, "this device has no key", hint)
    key = keychain.own_key(home)
    circle = circles.load_circle(place, key)
    held: list[Key | Secret] = [key, *(circle.epochs if circle else [])]
    for one in held:
        try:
            return one.open(data)
        except Locked:
            continue
    here = f"this is the device {key.id}"
    here += f" of the circle {circle.fingerprint}" if circle else ", of no circle"
    yours = f"give who sends it: {circle.person}" if circle else "holdfast key init"
    raise _not_for_us(path, whom, here, f"open it there, or {yours}" if whom else yours)


def _not_for_us(path: str, whom: Sequence[str], here: str, hint: str) -> HoldfastError:
    what = f"{path} is sealed to other keys than those here"
    why = f"it opens for {', '.join(whom)}; {here}" if whom else here
    return Locked(what, why=why, hint=hint, file=path)
