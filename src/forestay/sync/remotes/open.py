"""Open a remote: the only place where an address meets an adapter."""

from __future__ import annotations

from forestay.base.config import s3_access, user_home
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.sync.remotes.port import Remote


def open_remote(address: str, *, timeout: float = 30.0, known: bool = False) -> Remote:
    """Return the remote that an address names: `folder:PATH` or `s3://BUCKET/PREFIX?endpoint=URL`.

    `known`: it was in use before, so a place without its mark is another one, or not mounted.
    """
    kind, colon, rest = address.partition(":")
    if colon and kind == "folder":
        from forestay.sync.remotes.folder import FolderRemote  # start-up

        # Shells leave the ~ of folder:~/x alone; it always stands for the home folder.
        is_below_home = rest == "~" or rest.startswith("~/")
        return FolderRemote(user_home() + rest[1:] if is_below_home else rest, known=known)
    if colon and kind == "s3":
        from forestay.sync.remotes.s3 import S3Remote  # start-up

        return S3Remote(address, s3_access(), timeout=timeout)
    raise InvalidInput(
        "the address of a remote begins with its kind",
        hint="folder:PATH or s3://BUCKET/PREFIX?endpoint=URL",
    )
