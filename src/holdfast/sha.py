"""SHA-256 without OpenSSL, for the paths on which start-up is felt.

`hashlib` loads OpenSSL, which costs a quarter of a bare Python start; the interpreter's own
implementation costs nothing. Who has much to hash says so (`expect_much`), and gets the other.
"""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12 and newer
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

__all__ = ["digest_of", "expect_much", "hmac_sha256", "sha256", "uuid_of"]

_BLOCK = 64
_chosen = sha256
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def digest_of(data: bytes) -> str:
    """The SHA-256 of some bytes as 64 hexadecimal digits."""
    digest: str = _chosen(data).hexdigest()
    return digest


def expect_much() -> None:
    """Many events are to come: from now on OpenSSL is worth what it costs to load.

    Where the processor has instructions for it, it is twice as fast for a header already.
    """
    global _chosen
    import hashlib

    _chosen = hashlib.sha256


def uuid_of(text: str) -> str:
    """A UUID made of a text: the same for the same. Version 8 of RFC 9562, a rule of our own."""
    digits = digest_of(text.encode("utf-8", "replace"))
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def hmac_sha256(key: bytes, message: bytes) -> str:
    """HMAC (RFC 2104) in hexadecimal; the standard module would load OpenSSL too."""
    if len(key) > _BLOCK:
        key = sha256(key).digest()
    key = key.ljust(_BLOCK, b"\0")
    inner = sha256(key.translate(_INNER) + message).digest()
    digest: str = sha256(key.translate(_OUTER) + inner).hexdigest()
    return digest
