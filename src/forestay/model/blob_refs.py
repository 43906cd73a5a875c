"""Find the blobs that an event refers to, by their SHA-256."""

from __future__ import annotations

import re

from forestay.model import event as ev
from forestay.model.event import Sealed

_DIGEST = re.compile(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_MAY_NAME = re.compile(rb"[0-9a-f]{64}")
_FIELD = {
    "artifact.saved": "digest",
    "artifact.versioned": "digest",
    "note.added": "blob",
    "message.sent": "blob",
    "plan.set": "snapshot",
    "evidence.observed": "blob",
    "checkpoint.passed": "blob",
    "checkpoint.failed": "blob",
    "checkpoint.overridden": "blob",
    "checkpoint.rolled_back": "blob",
}
_QUOTED = {kind: f'"{field}"'.encode() for kind, field in _FIELD.items()}
_PROMISES = frozenset(_FIELD) - {"artifact.versioned"}


def blob_names(sealed: Sealed) -> list[str]:
    """Return the digests of the blobs that an event refers to.

    A kind that this version does not know may refer to any digest in its data.
    """
    if sealed.data is None:
        return []
    header = ev.parse_header(sealed.header)
    if header.kind not in ev.KINDS:
        return sorted(found.decode() for found in digests_in(sealed.data))
    body = ev.decode_body(header.kind, sealed.data)
    name = getattr(body, _FIELD.get(header.kind, ""), "")
    is_kept = (
        isinstance(name, str) and _DIGEST.fullmatch(name.encode()) and getattr(body, "kept", True)
    )
    return [name] if is_kept else []


def may_name(data: bytes) -> bool:
    """Return whether the data of an event could name a blob: a quick test, seldom true."""
    return _MAY_NAME.search(data) is not None


def may_be_named(kind: str, data: bytes) -> bool:
    """Return whether the data of an event of this kind could name a blob, at little cost."""
    field = _QUOTED.get(kind)
    if field is not None:
        return field in data
    return kind not in ev.KINDS and may_name(data)


def is_promise(sealed: Sealed) -> bool:
    """Return whether a store must have the blob of an event; some only mention a digest."""
    return ev.parse_header(sealed.header).kind in _PROMISES


def digests_in(data: bytes) -> set[bytes]:
    """Return every part of `data` that has the form of a SHA-256 in hexadecimal."""
    return set(_DIGEST.findall(data))
