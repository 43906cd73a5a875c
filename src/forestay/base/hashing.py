"""SHA-256 without OpenSSL, for code paths where start-up time matters.

`hashlib` loads OpenSSL, which takes a quarter of the time of a bare Python start; the interpreter's
own implementation costs nothing. Code that hashes a lot calls `use_openssl` first.
"""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12 and newer
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

__all__ = ["derive_uuid", "digest_of", "hmac_sha256", "sha256", "use_openssl"]

_BLOCK = 64
_chosen = sha256
_INNER = bytes(byte ^ 0x36 for byte in range(256))
_OUTER = bytes(byte ^ 0x5C for byte in range(256))


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 hexadecimal digits."""
    digest: str = _chosen(data).hexdigest()
    return digest


def use_openssl() -> None:
    """Use OpenSSL from now on: for many events it is worth its loading time.

    On processors with SHA instructions it is twice as fast even for short inputs.
    """
    global _chosen
    import hashlib

    _chosen = hashlib.sha256


def derive_uuid(text: str) -> str:
    """Return a UUID derived from a text, always the same (version 8 of RFC 9562)."""
    digits = digest_of(text.encode("utf-8", "replace"))
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-a{digits[17:20]}-{digits[20:32]}"


def hmac_sha256(key: bytes, message: bytes) -> str:
    """Return the HMAC (RFC 2104) in hexadecimal; the standard module would load OpenSSL."""
    if len(key) > _BLOCK:
        key = sha256(key).digest()
    key = key.ljust(_BLOCK, b"\0")
    inner = sha256(key.translate(_INNER) + message).digest()
    digest: str = sha256(key.translate(_OUTER) + inner).hexdigest()
    return digest
