"""What tests of keys share."""

from __future__ import annotations

import pytest

from tests.remote.quick import seal_quickly


@pytest.fixture
def quick_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passphrases that take no time: the same format of age, the least work it allows."""
    import pyrage

    monkeypatch.setattr(pyrage.passphrase, "encrypt", seal_quickly)
