"""Encrypted export files.

    file = "FORESTAY EXPORT 1" LF, then a pack under age to a passphrase
         | "FORESTAY EXPORT 2 " whom LF, then a pack under age to recipients
    whom = "circle:" digits | "device:" digits | "age:" digits, with a space between

Age does not show the recipients, so the first line does: otherwise a person who cannot decrypt a
file would not know which device can. Some files of version 1 are encrypted to recipients, too.

    !! Such files are stored for years. A change needs a new number in the first line.

The author is not signed: the hashes in a pack protect its content, and the user decides to import
it. The pack is decrypted in memory, so that no decrypted content is written to the disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forestay.base import files
from forestay.base.text import coerce_input
from forestay.errors import ForestayError, InvalidInput, Locked, Outdated, Tampered
from forestay.journal.context import Context
from forestay.sync import keychain
from forestay.sync.crypto import device_group, key_text, keys
from forestay.sync.crypto.keys import Key, Secret

MAGIC = b"FORESTAY EXPORT 1\n"
_NAMED = b"FORESTAY EXPORT 2 "
_ANY = b"FORESTAY EXPORT "
_BY_PASSPHRASE = b"\n-> scrypt "
_LIMIT = 2 << 30
_MOST_SHOWN = 10
"""How many recipients of a file are shown: its first line can have any number."""


def sealed(pack: Iterable[bytes], *, to: Sequence[str] = (), passphrase: str = "") -> bytes:
    """Encrypt a pack to persons (`fsp1…`), devices (`fsd1…`), age recipients or a passphrase."""
    if to and passphrase:
        why = "age allows one or the other"
        what = "a file can be encrypted to keys or to a passphrase, not to both"
        raise InvalidInput(what, why=why)
    data = b"".join(pack)
    if passphrase:
        return MAGIC + keys.seal_with_passphrase(data, passphrase)
    first = _NAMED + " ".join(map(_whom, to)).encode() + b"\n"
    return first + keys.seal(data, [recipient(each) for each in to])


def _whom(text: str) -> str:
    """Return the recipient for the first line, as `forestay device key show` shows it."""
    kind = text.strip()[:4].lower()
    if kind == key_text.PERSON:
        return f"circle:{key_text.read_person_key(text).circle[:20]}"
    if kind == key_text.DEVICE:
        return f"device:{keys.key_id(key_text.read_device_code(text).verify)}"
    return f"age:{keys.key_id(key_text.recipient_bytes(recipient(text)))}"


def recipient(text: str) -> str:
    """Return the age recipient of a person key, a device code or an age recipient."""
    kind = text.strip()[:4].lower()
    if kind == key_text.PERSON:
        return key_text.read_person_key(text).recipient
    if kind == key_text.DEVICE:
        return key_text.read_device_code(text).recipient
    if kind == "age1":
        return key_text.recipient_of(key_text.recipient_bytes(text.strip()))
    hint = "use a person key (fsp1…), a device code (fsd1…) or an age recipient (age1…)"
    raise InvalidInput("this is not a key that a file can be encrypted to", hint=hint)


def opened(context: Context, path: str) -> str | bytes:
    """Return the pack in an encrypted file; if the file is not encrypted, return its path."""
    start = next(iter(files.read_chunks(path)), b"")
    if not start.startswith(_ANY):
        return path
    if not start.startswith((MAGIC, _NAMED)):
        raise Outdated(f"a newer Forestay wrote {path}", hint="update Forestay", file=path)
    end = start.find(b"\n") + 1
    data = files.read_bounded(path, _LIMIT)[end:]
    whom = start[len(_NAMED) : end].decode("ascii", "replace").split()
    try:
        if _BY_PASSPHRASE in data[:200]:
            given = context.ask_passphrase() if context.ask_passphrase else ""
            if not given:
                hint = "set FORESTAY_PASSPHRASE, or run it in a terminal, which asks for it"
                raise Locked(f"{path} needs its passphrase", hint=hint, file=path)
            return keys.open_with_passphrase(data, given, path)
        return _by_keys(context, data, path, [_as_shown(one) for one in whom[:_MOST_SHOWN]])
    except Tampered as error:
        raise Tampered(
            f"{path} is damaged",
            why=f"it was changed or cut short: {error.why}",
            hint="ask its sender to export it again: forestay backup export",
            file=path,
        ) from None


def _as_shown(whom: str) -> str:
    kind, _, digits = coerce_input(whom, limit=60, lines=False).partition(":")
    named = {
        "circle": f"the device group {key_text.grouped(digits)}",
        "device": f"the device {digits}",
    }
    return named.get(kind, f"the age key {digits}")


def _by_keys(context: Context, data: bytes, path: str, whom: Sequence[str]) -> bytes:
    place = keychain.folder(context)
    if not keys.exists(place):
        own = "forestay device key init, forestay device key show"
        hint = f"import it on that device; to create a key for this one: {own}"
        raise _not_for_us(path, whom, "this device has no key", hint)
    key = keychain.own_key(context)
    group = device_group.load_group(place, key)
    held: list[Key | Secret] = [key, *(group.epochs if group else [])]
    for one in held:
        try:
            return one.open(data)
        except Locked:
            continue
    here = f"this is the device {key.id}"
    here += f" of the group {group.fingerprint}" if group else ", which is in no device group"
    yours = f"give the sender: {group.person}" if group else "forestay device key init"
    hint = f"import it on a device that can decrypt it, or {yours}" if whom else yours
    raise _not_for_us(path, whom, here, hint)


def _not_for_us(path: str, whom: Sequence[str], here: str, hint: str) -> ForestayError:
    what = f"{path} is encrypted to keys that this device does not have"
    why = f"it is encrypted to {', '.join(whom)}; {here}" if whom else here
    return Locked(what, why=why, hint=hint, file=path)
