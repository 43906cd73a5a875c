"""Open a remote: choose the adapter by the address. No other module does this."""

from __future__ import annotations

from forestay.base.config import s3_access, user_home
from forestay.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from forestay.sync.remotes.port import Remote


def open_remote(address: str, *, timeout: float = 30.0, known: bool = False) -> Remote:
    """Return the remote that an address names: `folder:PATH` or `s3://BUCKET/PREFIX?endpoint=URL`.

    `known`: the remote was in use before. A folder without its format mark is then an error: the
    disk is not mounted, or it is another one.
    """
    kind, colon, rest = address.partition(":")
    if colon and kind == "folder":
        from forestay.sync.remotes.folder import FolderRemote  # start-up

        # Shells do not expand the ~ in folder:~/x; here it always is the home folder.
        is_below_home = rest == "~" or rest.startswith("~/")
        return FolderRemote(user_home() + rest[1:] if is_below_home else rest, known=known)
    if colon and kind == "s3":
        from forestay.sync.remotes.s3 import S3Remote  # start-up

        return S3Remote(address, s3_access(), timeout=timeout)
    raise InvalidInput(
        "the address of a remote has to begin with folder: or s3://",
        hint="use folder:PATH or s3://BUCKET/PREFIX?endpoint=URL",
    )
