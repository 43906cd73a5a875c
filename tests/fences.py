"""Read the text between the two lines that `text.prompt` puts around it for a model."""

from __future__ import annotations

import re

from forestay.base import text as gate


def unfence(block: str, secret: bytes) -> str | None:
    """Return the text of a block that `prompt` made with this secret; None for any other."""
    match = re.fullmatch(r"(?s)<<<data (\w+)(?: ([^\n]*))?\n(.*)\n(\w+)>>>", block)
    if not match or match[1] != match[4]:
        return None
    return match[3] if match[1] == gate._code(secret, match[2] or "", match[3]) else None
