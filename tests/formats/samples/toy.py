"""A session of the toy format, which no generic code knows."""

from __future__ import annotations

from tests.formats.sample import Sample
from tests.formats.toy.format import FORMAT

SAMPLE = Sample(
    FORMAT,
    {
        "t1.toy.json": {
            "name": "t1",
            "aim": "Play",
            "made": "2026-02-01T09:00:00Z",
            "changed": "2026-02-01T10:00:00Z",
            "state": "active",
            "finished": ["Unpack"],
            "open": ["Build"],
        }
    },
    updated=("changed", ""),
    others=[{}, {"name": "x"}],
)
