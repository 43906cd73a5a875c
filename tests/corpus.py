"""Find the real files of other users that tests read; they are optional, outside of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

_CANDIDATES = [up / "shared" / "corpus" for up in Path(__file__).parents[1:4]]
CORPUS = next((folder for folder in _CANDIDATES if folder.is_dir()), _CANDIDATES[0])

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the real files are not available")
