"""Keys as text that people read, type and paste: fingerprints, codes, and the format of age.

A *fingerprint* is twenty hexadecimal digits in groups of four. A *code* is Crockford base32 of
some bytes and the first four bytes of their SHA-256, so that a typing error is detected; case,
spaces and dashes do not matter, O is read as 0, I and L as 1. Age writes its keys in Bech32
(BIP 173): `age1…` is the raw public key, `AGE-SECRET-KEY-1…` the raw secret one.

    recovery code = code of 16 random bytes, in groups of four
    device code   = "fsd1" + code of: recipient (32), verify key (32), name (UTF-8)
    person key    = "fsp1" + code of: circle id (16), recipient (32)

    !! Users have recovery codes on paper. These forms must not change.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from forestay.base.text import clean_input
from forestay.errors import InvalidInput

_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_LOOKS_LIKE = str.maketrans("oil", "011", " -_\t\r\n")
_SUM = 4
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_BECH32_SUM = 6
_PUBLIC, _SECRET = "age", "age-secret-key-"
_RAW = 32
DEVICE, PERSON = "fsd1", "fsp1"
NAME_LIMIT = 64
SEED = 16
"""Random bytes in a recovery code."""


class DeviceCode(NamedTuple):
    """The public keys and the name of a device that asks to be added to a group."""

    name: str
    recipient: str
    verify: bytes

    @property
    def fingerprint(self) -> str:
        return fingerprint(b"device", self.verify, recipient_bytes(self.recipient))


class PersonKey(NamedTuple):
    """The key that a person gives to others, so that they can share sessions with that person."""

    circle: str
    recipient: str

    @property
    def fingerprint(self) -> str:
        return fingerprint(b"person", bytes.fromhex(self.circle), recipient_bytes(self.recipient))

    def __str__(self) -> str:
        raw = bytes.fromhex(self.circle) + recipient_bytes(self.recipient)
        return PERSON + encode(raw)


# --- what people compare --------------------------------------------------------------------


def fingerprint(kind: bytes, *parts: bytes) -> str:
    """Return twenty digits for public bytes, which people can compare by telephone."""
    return grouped(sha256(b"forestay " + kind + b"\n" + b"".join(parts)).hexdigest())


def grouped(digits: str) -> str:
    """Return the first twenty digits of an id, in groups of four."""
    return "-".join(digits[at : at + 4] for at in range(0, 20, 4))


def same_fingerprint(typed: str, shown: str) -> bool:
    """Return whether the typed fingerprint is this one; dashes and case do not matter."""
    return _digits(typed) == _digits(shown)


def read_fingerprint(typed: str) -> str:
    """Return the twenty digits of a typed fingerprint."""
    digits = _digits(typed)
    if len(digits) != 20 or set(digits) - set("0123456789abcdef"):
        why = "a fingerprint has twenty digits from 0 to f, like ab12-cd34-ef56-7890-ab12"
        raise InvalidInput(f"{typed[:60]!r} is not a fingerprint", why=why)
    return digits


def _digits(text: str) -> str:
    return text.lower().translate({ord(sign): None for sign in " -:\t"})


# --- codes ------------------------------------------------------------------------------------


_LONGEST = 2000
"""Longer codes are refused before they are decoded, which takes quadratic time."""


def encode(raw: bytes) -> str:
    """Encode bytes with a checksum."""
    data = raw + sha256(b"forestay code\n" + raw).digest()[:_SUM]
    number, length = int.from_bytes(data), -(-len(data) * 8 // 5)
    number <<= length * 5 - len(data) * 8
    return "".join(_CROCKFORD[number >> 5 * at & 31] for at in reversed(range(length)))


def decode(text: str, what: str) -> bytes:
    """Decode a typed code; raise `InvalidInput` with the reason if it is invalid."""
    clean = text[: 2 * _LONGEST].lower().translate(_LOOKS_LIKE)
    if len(text) > 2 * _LONGEST or len(clean) > _LONGEST:
        raise InvalidInput(f"this is not a {what}", why="it is far too long")
    strange = sorted(set(clean) - set(_CROCKFORD))
    if strange:
        raise InvalidInput(f"this is not a {what}", why=f"it contains {strange[0]!r}")
    number, length = 0, len(clean) * 5 // 8
    for sign in clean:
        number = number << 5 | _CROCKFORD.index(sign)
    spare = len(clean) * 5 - length * 8
    data = (number >> spare).to_bytes(length)
    raw = data[:-_SUM]
    if spare >= 5 or not raw or number & (1 << spare) - 1 or encode(raw) != clean:
        hint = "compare it with the original, character by character"
        raise InvalidInput(f"this {what} is mistyped or cut short", hint=hint)
    return raw


def spaced(code: str) -> str:
    """Return a code in groups of four, as it is written on paper."""
    return " ".join(code[at : at + 4] for at in range(0, len(code), 4)).upper()


def seed_of(typed: str) -> bytes:
    """Return the seed in a recovery code."""
    seed = decode(typed, "recovery code")
    if len(seed) != SEED:
        raise InvalidInput("this is not a recovery code", why="it has a different length")
    return seed


def device_code(name: str, recipient: str, verify: bytes) -> str:
    """Return the code that a new device shows, to be approved on another one."""
    raw = recipient_bytes(recipient) + verify + device_name(name).encode()
    return DEVICE + encode(raw)


def read_device_code(text: str) -> DeviceCode:
    """Parse a device code; the name is cleaned."""
    raw = _after(text, DEVICE, "device code", "forestay device add")
    if len(raw) < 2 * _RAW:
        raise InvalidInput("this is not a device code", why="it is too short")
    name = device_name(raw[2 * _RAW :].decode("utf-8", "replace"))
    return DeviceCode(name, recipient_of(raw[:_RAW]), raw[_RAW : 2 * _RAW])


def read_person_key(text: str) -> PersonKey:
    """Parse a person key."""
    raw = _after(text, PERSON, "person key", "forestay device key show")
    if len(raw) != SEED + _RAW:
        raise InvalidInput("this is not a person key", why="it has a different length")
    return PersonKey(raw[:SEED].hex(), recipient_of(raw[SEED:]))


def device_name(name: str) -> str:
    """Return a cleaned device name."""
    return clean_input(name, "the name of a device", limit=NAME_LIMIT, lines=False)


def _after(text: str, prefix: str, what: str, shown_by: str) -> bytes:
    clean = text.strip()
    if clean[: len(prefix)].lower() != prefix:
        hint = f"it begins with {prefix}; to show it, run on the other device: {shown_by}"
        raise InvalidInput(f"this is not a {what}", hint=hint)
    return decode(clean[len(prefix) :], what)


# --- Bech32, as age writes keys ---------------------------------------------------------------


def recipient_of(raw: bytes) -> str:
    """Return the age recipient of a raw public key."""
    return _bech32(_PUBLIC, raw)


def secret_of(raw: bytes) -> str:
    """Return the age identity of a raw secret key."""
    return _bech32(_SECRET, raw).upper()


@lru_cache(maxsize=1024)
def recipient_bytes(recipient: str) -> bytes:
    """Return the raw public key of an age recipient; raise `InvalidInput` if it is none."""
    head, _, tail = recipient.rpartition("1")
    values = [_BECH32.find(sign) for sign in tail]
    right = head == _PUBLIC and min(values, default=-1) >= 0
    if right and _checksum(head, values) == 1:
        number = 0
        for value in values[:-_BECH32_SUM]:
            number = number << 5 | value
        raw = (number >> 4).to_bytes(_RAW) if len(values) == 52 + _BECH32_SUM else b""
        if raw and recipient_of(raw) == recipient:
            return raw
    raise InvalidInput("this is not an age recipient", why="a recipient begins with age1")


def _bech32(head: str, raw: bytes) -> str:
    if len(raw) != _RAW:
        raise ValueError(f"a key has {_RAW} bytes, not {len(raw)}")
    number = int.from_bytes(raw) << 4  # 256 bits in 52 groups of five
    values = [number >> 5 * at & 31 for at in reversed(range(52))]
    total = _checksum(head, [*values, *[0] * _BECH32_SUM]) ^ 1
    values += [total >> 5 * at & 31 for at in reversed(range(_BECH32_SUM))]
    return f"{head}1{''.join(_BECH32[value] for value in values)}"


def _checksum(head: str, values: list[int]) -> int:
    expanded = [ord(sign) >> 5 for sign in head] + [0] + [ord(sign) & 31 for sign in head]
    total = 1
    for value in expanded + values:
        top = total >> 25
        total = (total & 0x1FFFFFF) << 5 ^ value
        for at, factor in enumerate(_GENERATOR):
            total ^= factor if top >> at & 1 else 0
    return total


_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
