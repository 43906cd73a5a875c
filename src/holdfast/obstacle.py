"""Obstacles: what keeps us from files that are there, in words. Nothing is tried for it."""

from __future__ import annotations

import os
import stat

from holdfast.files import folder_of, may


def why_not_writable(folder: str) -> str:
    """What keeps everybody from writing into a folder that is there; nothing is tried."""
    try:
        facts = os.statvfs(folder)
    except OSError:
        return ""
    if facts.f_flag & os.ST_RDONLY:
        return "the file system can only be read"
    if facts.f_blocks and not facts.f_bavail:
        return "the disk is full"
    if is_shut(folder):
        return f"{folder} may not be looked into"
    return "" if may(folder, os.W_OK) else f"{folder} may not be written to"


def why_not_replaced(path: str) -> str:
    """What keeps us from giving the name of a file to another one in a folder that is writable."""
    try:
        above, owner = os.stat(folder_of(path)), os.lstat(path).st_uid
    except OSError:
        return ""
    is_ours = not above.st_mode & stat.S_ISVTX or os.geteuid() in (0, owner, above.st_uid)
    return "" if is_ours else f"{path} belongs to another user"


def why_not_added_to(path: str) -> str:
    """What keeps us from adding lines to a file that is there."""
    is_there = os.path.lexists(path)
    return f"{path} may not be written to" if is_there and not may(path, os.W_OK) else ""


def is_closed(path: str) -> bool:
    """Whether something is there that this process may not read, or list; nothing is tried."""
    return os.path.lexists(path) and not may(path, os.R_OK)


def is_shut(folder: str) -> bool:
    """Whether a folder is there in which this process may not even open what it knows by name."""
    return os.path.isdir(folder) and not may(folder, os.X_OK)
