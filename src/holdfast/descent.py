"""Descent: the names of what lies below a folder. No link is followed, no file opened."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Each folder with the names of the folders and of all else in it; links are not followed.

    As `os.walk`: whoever takes names out of the first list is not led there. Any depth will do,
    and what cannot be listed is passed over.
    """
    todo = [folder]
    while todo:
        here = todo.pop()
        below: list[str] = []
        others: list[str] = []
        try:
            with os.scandir(here) as found:
                for entry in found:
                    is_folder = entry.is_dir(follow_symlinks=False)
                    (below if is_folder else others).append(entry.name)
        except OSError:
            continue
        yield here, below, others
        todo += (os.path.join(here, name) for name in reversed(below))


def names_below(folder: str, limit: int) -> Iterator[str]:
    """The files below a folder, relative to it, at most three folders deep.

    A link that leads to a file counts as one; a pipe, or a link that leads nowhere, does not.
    """
    todo, count = [""], 0
    while todo:
        within = todo.pop()
        for name, is_folder in _files_and_folders(os.path.join(folder, within)):
            if is_folder:
                todo += [f"{within}{name}/"] if within.count("/") <= 2 else []
                continue
            count += 1
            if count > limit:
                return
            yield within + name


def _files_and_folders(folder: str) -> Iterator[tuple[str, bool]]:
    """The names of what is in a folder and whether it is a folder; nothing of what is neither."""
    try:
        with os.scandir(folder) as found:
            for entry in found:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder or _is_file(entry):
                    yield entry.name, is_folder
    except OSError:
        return


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False
