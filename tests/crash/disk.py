"""Restore folders for each point, and build what a disk holds after a power cut.

A power cut leaves the least that the promises of a disk allow: content lasts when its file was
synced, a name when its folder was synced; everything else is gone. The shim stores both by inode in
a **stable** folder; the initial content is the **baseline** and counts as synced. A lasting name
whose content was never synced is an empty file. (On a file system that reuses inode numbers, this
may preserve too much.)
"""

import os
import shutil
from dataclasses import dataclass
from hashlib import sha256

Names = dict[str, tuple[int, bool]]  # name → inode, is it a folder


@dataclass(frozen=True)
class Baseline:
    """Describe an initial folder: each inode with its names or a copy of its content."""

    root: int
    names: dict[int, Names]
    content: dict[int, str]


def baseline(folder: str, original: str) -> Baseline:
    """Describe `folder`, a new copy of `original`; the files of `original` preserve the content."""
    names: dict[int, Names] = {}
    content: dict[int, str] = {}
    for path, _, files in os.walk(folder):
        source = os.path.join(original, os.path.relpath(path, folder))
        names[os.stat(path).st_ino] = _names(path)
        for file in files:
            content[os.stat(os.path.join(path, file)).st_ino] = os.path.join(source, file)
    return Baseline(os.stat(folder).st_ino, names, content)


def _names(folder: str) -> Names:
    with os.scandir(folder) as entries:
        return {entry.name: (entry.inode(), entry.is_dir()) for entry in entries}


def fingerprint(*folders: str) -> str:
    """Return one hash of all names, modes, inodes and bytes in the folders, without times."""
    hasher = sha256()
    for folder in folders:
        for path, names, files in os.walk(folder):
            names.sort()
            for name in (".", *sorted(files)):
                facts = os.lstat(file := os.path.join(path, name))
                row = (os.path.relpath(file, folder), facts.st_mode, facts.st_ino, facts.st_size)
                hasher.update(repr(row).encode())
                if name != ".":
                    with open(file, "rb") as data:
                        hasher.update(data.read())
    return hasher.hexdigest()


def lay_out(source: str, target: str) -> None:
    """Make `target` equal to `source`; a file that already exists keeps its inode.

    A program may identify its files by inode, and would treat a copy as another home.
    """
    os.makedirs(target, exist_ok=True)
    present, wanted = _names(target), _names(source)
    for name in present.keys() - wanted.keys():
        path = os.path.join(target, name)
        shutil.rmtree(path) if present[name][1] else os.unlink(path)
    for name, (_, is_folder) in wanted.items():
        copy = lay_out if is_folder else shutil.copy
        copy(os.path.join(source, name), os.path.join(target, name))
    shutil.copymode(source, target)


def after_power_cut(before: Baseline, stable: str, target: str) -> None:
    """Build in `target`, which must not exist, what the disk still holds, private to its owner."""
    _build_folder(before, stable, before.root, target)


def _build_folder(before: Baseline, stable: str, inode: int, target: str) -> None:
    os.mkdir(target, 0o700)
    for name, (child, is_folder) in _lasting_names(before, stable, inode).items():
        build = _build_folder if is_folder else _build_file
        build(before, stable, child, os.path.join(target, name))


def _lasting_names(before: Baseline, stable: str, inode: int) -> Names:
    synced = os.path.join(stable, str(inode))
    if not os.path.exists(synced):
        return before.names.get(inode, {})
    with open(synced, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split(" ", 2) for line in lines]
    names = {name: (int(child), kind == "d") for kind, child, name in rows}
    return {name: names[name] for name in names.keys() - {".", ".."}}


def _build_file(before: Baseline, stable: str, inode: int, target: str) -> None:
    synced = os.path.join(stable, str(inode))
    source = synced if os.path.exists(synced) else before.content.get(inode)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if source is not None:
        shutil.copyfile(source, target)
