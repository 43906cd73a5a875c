"""Packs encoded in memory: any library can inflate them."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

import pytest

from forestay.journal import pack
from forestay.journal.pack import MAGIC
from forestay.sync import pack_codec
from forestay.sync.plan import Stretch
from tests.homes import Home


@pytest.mark.parametrize("quick", [True, False], ids=["isal", "zlib"])
def test_pack_is_a_zlib_stream_by_any_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    home = Home(tmp_path / "home")
    home.start()
    for number in range(200):
        home.note(f"note {number}")
    (row,) = pack.ranges("s-1", home.events())
    home.store.close()
    made = pack_codec.make(row.session, Stretch.of(row), row.events, [])
    with monkeypatch.context() as patch:
        if not quick:
            patch.setitem(sys.modules, "isal.isal_zlib", None)
        data = made.finish(created=1, tool="test", what="sync")
    by_zlib = zlib.compress(zlib.decompress(data[len(MAGIC) : -32]), 1)
    assert (data[len(MAGIC) : -32] == by_zlib) is not quick
    assert zlib.decompress(by_zlib).endswith(made.records) and len(data) < len(made.records) / 2
    assert pack_codec.load(data)[0].range.events == row.events
    (read,) = [item for item in pack.Reader((data,), name="x") if isinstance(item, pack.Range)]
    assert read.events == row.events
