"""List what is below a folder, without following links or opening files."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def walk(folder: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder with the names of its subfolders and of everything else in it.

    Works like `os.walk`: names removed from the first list are not visited. Any depth is possible.
    Folders that cannot be listed are skipped.
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


def list_files_below(folder: str, limit: int) -> Iterator[str]:
    """Yield at most `limit` files below a folder, relative to it, at most three folders deep.

    A link to a file counts as a file; a pipe or a broken link does not.
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
    """Yield the name of each file and folder, and whether it is a folder."""
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
