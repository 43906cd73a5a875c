from __future__ import annotations

import hashlib
import hmac

from hypothesis import given
from hypothesis import strategies as st

from holdfast.sha import digest_of, expect_much, hmac_sha256, sha256


@given(st.binary(max_size=300))
def test_it_is_the_sha_256_everyone_knows(data: bytes) -> None:
    assert sha256(data).hexdigest() == hashlib.sha256(data).hexdigest()


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_it_is_the_hmac_everyone_knows(key: bytes, message: bytes) -> None:
    assert hmac_sha256(key, message) == hmac.new(key, message, "sha256").hexdigest()


@given(st.binary(max_size=5000))
def test_it_is_the_same_when_much_is_expected(data: bytes) -> None:
    alone = digest_of(data)
    expect_much()
    assert digest_of(data) == alone == hashlib.sha256(data).hexdigest()
