"""A sealed pack: signed by the device that uploads it, encrypted to the session's key.

A *claim* describes the pack: its chain and range of events, the signer, and the last events of all
chains (*heads*) that the signer knew to be on this remote. Claim and pack are signed together, so
neither can be replaced, and encrypted together, so that only participants can read them.

    object = envelope of kind SEALED, word: id of the session's key; claim: see `Claim`;
             body: a pack (see `pack`)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from forestay.errors import Downgraded, Locked, NotEntitled, Swapped, Tampered
from forestay.sync.crypto import key_text
from forestay.sync.crypto.envelope import UNREADABLE, VERSION, disclose, enclose, word_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.sync.crypto.key_ring import KeyRing
    from forestay.sync.crypto.keys import Key, Secret

KIND = "SEALED"
UNSET = msgspec.UNSET
"""A field that is missing in claims of older versions."""
Number = Annotated[int, Meta(ge=1, le=2**53)]
"""The range of event numbers; a claim with any other number is invalid."""
Devices = Callable[[str, str], bytes | None]
"""Look up the verify key of a signer by group id and key id; None if unknown."""


class Claim(Struct, frozen=True):
    """The description of a pack by its signer.

    The events of an `imported` pack came in a file to the owner of the session; their author is
    unknown.

    !! The bytes are signed. Fields can be added, never changed.
    """

    session: str
    device: str
    first: Number
    last: Number
    before: str
    after: str
    epoch: int
    circle: str
    signer: str
    made: int
    heads: dict[str, tuple[Number, str]] = {}
    tombstone: str = ""
    name: str = ""
    version: int = VERSION
    imported: bool | msgspec.UnsetType = UNSET


def seal_pack(claim: Claim, pack: bytes, key: Key, secret: Secret) -> bytes:
    """Sign a claim with its pack, and seal both to the key of the session's epoch."""
    if claim.signer != key.id:
        raise ValueError("a claim is signed by the key that it names")
    claimed = msgspec.json.encode(claim)
    return enclose(KIND, claimed, pack, key, [secret.recipient], secret.id)


def key_of(data: bytes) -> str:
    """Return the id of the key that opens a pack."""
    return word_of(data, KIND)


def open_pack(data: bytes, ring: KeyRing, devices: Devices) -> tuple[Claim, bytes]:
    """Decrypt a sealed pack, verify its signature, and return its claim and content.

    Raise `Locked` if its key is missing, `Downgraded` if it is not encrypted or has an older
    version, `Swapped` if it belongs to another session, `NotEntitled` if its signer is unknown, and
    `Tampered` for any other defect. Whether the signer is allowed to push packs is checked by
    `KeyRing.require_entitled`.
    """
    secret, epoch = ring.secret(key_of(data))
    try:
        inside = disclose(data, KIND, [secret])
    except Locked:
        what = "a pack is not encrypted to the key that it names"
        raise Tampered(what, why=secret.id) from None
    claim = _read(inside.claim)
    if claim.session != ring.session:
        what = f"a pack of session {claim.session} is in the place of session {ring.session}"
        raise Swapped(what, session=ring.session)
    verify = devices(claim.circle, claim.signer)
    if verify is None:
        raise NotEntitled(
            f"a pack of session {ring.session} is signed by an unknown device",
            why=f"device {claim.signer} of {key_text.grouped(claim.circle)}",
            hint="forestay sync; if this persists, ask the person who shares the session",
            session=ring.session,
        )
    if not inside.is_signed_by(verify):
        raise Tampered("the signature of a pack is wrong", session=ring.session)
    if claim.version != VERSION:
        what = "a pack was signed as a pack of another version"
        raise Downgraded(what, why=f"its claim names version {claim.version}, not {VERSION}")
    if claim.epoch != epoch:
        why = f"its claim names epoch {claim.epoch}, its key is of epoch {epoch}"
        raise Swapped("a pack is encrypted to the key of another epoch", why=why)
    return claim, inside.body


def _read(data: bytes) -> Claim:
    try:
        return msgspec.json.decode(data, type=Claim)
    except UNREADABLE as error:
        raise Tampered("the claim of a pack cannot be read", why=str(error)) from None
