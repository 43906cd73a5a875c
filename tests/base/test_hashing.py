from __future__ import annotations

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from forestay.base.hashing import digest_of, hmac_sha256, sha256, use_openssl


@given(st.binary(max_size=300))
def test_digest_equals_hashlib(data: bytes) -> None:
    assert sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_hmac_equals_the_standard_module(key: bytes, message: bytes) -> None:
    assert hmac_sha256(key, message) == hmac.new(key, message, "sha256").hexdigest()


@given(st.binary(max_size=5000))
def test_digest_is_the_same_with_openssl(data: bytes) -> None:
    alone = digest_of(data)
    use_openssl()
    assert digest_of(data) == alone == hashlib.sha256(data).hexdigest()
