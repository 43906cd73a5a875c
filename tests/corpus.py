"""The real files of other people that tests read. They lie beside the project, if at all."""

from __future__ import annotations

from pathlib import Path

import pytest

_AROUND = [up / "shared" / "corpus" for up in Path(__file__).parents[1:4]]
CORPUS = next((folder for folder in _AROUND if folder.is_dir()), _AROUND[0])

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the real files are not here")
