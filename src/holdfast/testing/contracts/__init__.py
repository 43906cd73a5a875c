"""What every store must do, as tests. An adapter is done when all of them pass.

An adapter's test module names the *place* where its data lies and inherits the rest:

    class TestMyStore(StoreContract):
        @pytest.fixture
        def place(self, tmp_path: Path) -> MyPlace:
            return MyPlace(partial(open_store, "my:…", str(tmp_path), clock=Clock()))

Each test gets a fresh place, in any order. What an adapter does not declare in `Capabilities` is
skipped; everything else is not optional.
"""

from __future__ import annotations

from holdfast.testing.contracts.appending import Appending
from holdfast.testing.contracts.base import Place, batch, found, head, put, text_of, texts
from holdfast.testing.contracts.erasing import Erasing
from holdfast.testing.contracts.reading import Reading
from holdfast.testing.contracts.remembering import Remembering
from holdfast.testing.contracts.searching import Searching
from holdfast.testing.contracts.sharing import Sharing

__all__ = ["Place", "StoreContract", "batch", "found", "head", "put", "text_of", "texts"]


class StoreContract(Appending, Reading, Erasing, Searching, Remembering, Sharing):
    """All of it. Subclass it with a fixture `place` of your own."""
