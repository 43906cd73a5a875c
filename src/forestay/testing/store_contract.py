"""Tests of what every store must do. An adapter is complete when all of them pass.

The test module of an adapter defines where its data is, and inherits the tests:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def place(self, tmp_path: Path) -> MyPlace:
            return MyPlace(partial(open_store, "my:…", str(tmp_path), clock=Clock()))

Each test gets a new, empty place. Tests of functions that an adapter does not declare in
`Capabilities` are skipped; all others must pass.
"""

from __future__ import annotations

from forestay.testing.contracts.base import Place, batch, found, head, put, text_of, texts
from forestay.testing.contracts.reading import Reading, Searching
from forestay.testing.contracts.sharing import Remembering, Sharing
from forestay.testing.contracts.writing import Appending, Erasing

__all__ = ["Place", "StoreContract", "batch", "found", "head", "put", "text_of", "texts"]


class StoreContract(Appending, Reading, Erasing, Searching, Remembering, Sharing):
    """All parts of the contract. Subclass it with your own fixture `place`."""
