"""Folders as a disk keeps them: laid out afresh for each point, and after a power cut.

A power cut leaves the least that the promises of a disk allow: content lasts when its file was
synced, a name when its folder was synced; everything else is gone. The shim keeps both by inode in
a **stable** folder; what was there at the start is the **baseline** and counts as synced. A lasting
name whose content was never synced is an empty file. (On a file system that gives the number of an
inode away again, this may keep too much.)
"""

import os
import shutil
from dataclasses import dataclass
from hashlib import sha256

Names = dict[str, tuple[int, bool]]  # name → inode, is it a folder


@dataclass(frozen=True)
class Baseline:
    """A folder at rest: for each inode its names (of a folder) or where its content can be read."""

    root: int
    names: dict[int, Names]
    content: dict[int, str]


def baseline(folder: str, original: str) -> Baseline:
    """Describes `folder`, a fresh copy of `original`, whose files still have the content later."""
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
    """One hash of all that the folders hold: names, modes, inodes and bytes, but no times."""
    found = sha256()
    for folder in folders:
        for path, names, files in os.walk(folder):
            names.sort()
            for name in (".", *sorted(files)):
                facts = os.lstat(file := os.path.join(path, name))
                told = (os.path.relpath(file, folder), facts.st_mode, facts.st_ino, facts.st_size)
                found.update(repr(told).encode())
                if name != ".":
                    with open(file, "rb") as data:
                        found.update(data.read())
    return found.hexdigest()


def lay_out(source: str, target: str) -> None:
    """Makes `target` equal to `source`; a file that is already there stays the same inode.

    A program may know its files by their inode, and would take a copy for another home.
    """
    os.makedirs(target, exist_ok=True)
    there, wanted = _names(target), _names(source)
    for name in there.keys() - wanted.keys():
        path = os.path.join(target, name)
        shutil.rmtree(path) if there[name][1] else os.unlink(path)
    for name, (_, is_folder) in wanted.items():
        copy = lay_out if is_folder else shutil.copy
        copy(os.path.join(source, name), os.path.join(target, name))
    shutil.copymode(source, target)


def after_power_cut(before: Baseline, stable: str, target: str) -> None:
    """Builds in `target`, which must not exist, what the disk still holds, private to its owner."""
    _build_folder(before, stable, before.root, target)


def _build_folder(before: Baseline, stable: str, inode: int, target: str) -> None:
    os.mkdir(target, 0o700)
    for name, (child, is_folder) in _lasting_names(before, stable, inode).items():
        build = _build_folder if is_folder else _build_file
        build(before, stable, child, os.path.join(target, name))


def _lasting_names(before: Baseline, stable: str, inode: int) -> Names:
    kept = os.path.join(stable, str(inode))
    if not os.path.exists(kept):
        return before.names.get(inode, {})
    with open(kept, encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split(" ", 2) for line in lines]
    names = {name: (int(child), kind == "d") for kind, child, name in rows}
    return {name: names[name] for name in names.keys() - {".", ".."}}


def _build_file(before: Baseline, stable: str, inode: int, target: str) -> None:
    kept = os.path.join(stable, str(inode))
    source = kept if os.path.exists(kept) else before.content.get(inode)
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    if source is not None:
        shutil.copyfile(source, target)
