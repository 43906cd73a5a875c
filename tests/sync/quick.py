"""An age file for a passphrase with the least work that the format allows.

The library chooses a work of some seconds by itself, which tests cannot afford; it reads this
one as any other. See the age specification, `scrypt` recipient stanza.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from base64 import b64encode

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


def seal_quickly(plaintext: bytes, passphrase: str, armored: bool = False) -> bytes:
    file_key, salt, nonce = os.urandom(16), os.urandom(16), os.urandom(16)
    label = b"age-encryption.org/v1/scrypt" + salt
    wrap = hashlib.scrypt(passphrase.encode(), salt=label, n=2, r=8, p=1, dklen=32)
    body = ChaCha20Poly1305(wrap).encrypt(bytes(12), file_key, None)
    head = b"age-encryption.org/v1\n-> scrypt %s 1\n%s\n---" % (_b64(salt), _b64(body))
    mac = hmac.digest(_derived(file_key, b"", b"header"), head, "sha256")
    last = bytes(11) + b"\x01"  # one chunk is enough for what tests wrap
    payload = ChaCha20Poly1305(_derived(file_key, nonce, b"payload")).encrypt(last, plaintext, None)
    return head + b" " + _b64(mac) + b"\n" + nonce + payload


def _b64(data: bytes) -> bytes:
    return b64encode(data).rstrip(b"=")


def _derived(key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt=salt or None, info=info).derive(key)
