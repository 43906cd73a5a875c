"""Find, check and create workflow definitions.

A name is searched in the project (`.forestay/workflows/NAME.yaml`, then `NAME/` in
`.praxis-os/workflows`), then among the built-in ones. A text with a slash, or ending in .yaml, is a
path: a YAML file in our form, or a praxis folder. Links that lead out of the project are not
followed.
"""

from __future__ import annotations

import os
import shlex
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from forestay.base import files
from forestay.base.findings import Finding
from forestay.base.text import clean_id, shorten
from forestay.errors import Damaged, ForestayError, InvalidInput
from forestay.formats.port import ERROR
from forestay.formats.text.document import Document
from forestay.model.plan import Workflow
from forestay.plans import praxis_definition, yaml_definition

OURS = os.path.join(".forestay", "workflows")
PRAXIS = os.path.join(".praxis-os", "workflows")
ENDINGS = (".yaml", ".yml")
BUILT_IN = "built in"
_SHIPPED = os.path.join(os.path.dirname(__file__), "shipped")
_SCHEMA = "workflow-v1.json"
_MOST_LISTED = 500


class Checked(Struct, frozen=True):
    """A definition that was read: its findings, and the workflow unless there are errors."""

    path: str
    workflow: Workflow | None
    findings: list[Finding]

    @property
    def ok(self) -> bool:
        return self.workflow is not None


class Listed(Struct, frozen=True):
    """An available workflow. `error` is why it cannot be used; `phases` is None if dynamic."""

    name: str
    source: str
    built_in: bool = False
    title: str = ""
    version: str = ""
    base: int = 1
    phases: int | None = None
    unit: str = "phase"
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


# -- finding -----------------------------------------------------------------------------------


def find(name_or_path: str, project_root: str) -> Workflow:
    """Return a workflow; raise `InvalidInput` if there is none, `Damaged` if it has errors."""
    checked = look(name_or_path, project_root)
    if checked.workflow is None:
        raise _faulty(name_or_path, checked)
    return checked.workflow


def look(name_or_path: str, project_root: str) -> Checked:
    """Return a workflow with all findings about it."""
    if is_path(name_or_path):
        return check(name_or_path, project_root)
    name = clean_id(name_or_path, "the name of a workflow")
    for path in _places(name, project_root):
        if os.path.lexists(path):
            return _checked(path, project_root, name)
    raise _unknown(name, project_root)


def is_path(text: str) -> bool:
    """Return whether a text is a path rather than the name of a workflow."""
    return "/" in text or os.sep in text or text.endswith(ENDINGS) or text in (".", "..")


def check(path: str, project_root: str = "") -> Checked:
    """Check the definition in a YAML file or a praxis folder."""
    return _checked(os.path.expanduser(path), project_root, "")


def available(project_root: str) -> list[Listed]:
    """List the workflows of a project; of two with the same name, only the one that is used."""
    found: dict[str, Listed] = {}
    for name, path in _all(project_root):
        if name not in found:
            found[name] = _listed(name, path, project_root)
    return sorted(found.values(), key=lambda each: (each.built_in, each.name))


def schema() -> bytes:
    """Return the JSON Schema of our definitions."""
    return files.read_bounded(os.path.join(_SHIPPED, _SCHEMA), yaml_definition.MOST_BYTES)


def _places(name: str, root: str) -> list[str]:
    ours = [os.path.join(root, OURS, name + ending) for ending in ENDINGS]
    return [*ours, os.path.join(root, PRAXIS, name), os.path.join(_SHIPPED, f"{name}.yaml")]


def _all(root: str) -> list[tuple[str, str]]:
    """Return names and paths in the order in which they are searched."""
    found = []
    for folder in (os.path.join(root, OURS), _SHIPPED):
        for path in files.list_paths(folder)[:_MOST_LISTED]:
            stem, ending = os.path.splitext(os.path.basename(path))
            if ending in ENDINGS and _is_name(stem):
                found.append((stem, path))
        if folder != _SHIPPED:
            theirs = files.list_paths(os.path.join(root, PRAXIS))[:_MOST_LISTED]
            named = [(os.path.basename(path), path) for path in theirs]
            found += [
                (name, path)
                for name, path in named
                if _is_name(name) and praxis_definition.is_folder(path)
            ]
    return found


def _is_name(text: str) -> bool:
    try:
        clean_id(text, "name")
    except InvalidInput:
        return False
    return True


def _listed(name: str, path: str, root: str) -> Listed:
    listed = Listed(name, _source(path, root), _is_shipped(path))
    try:
        checked = _checked(path, root, name)
    except ForestayError as error:
        return replace(listed, error=str(error))
    made = checked.workflow
    if made is None:
        return replace(listed, error=_first_error(checked))
    facts = {"title": made.title, "version": made.version, "unit": made.unit}
    return replace(listed, **facts, base=made.base, phases=made.total)


# -- reading -----------------------------------------------------------------------------------


def _checked(path: str, root: str, name: str) -> Checked:
    source = _source(path, root)
    if name and root:
        _require_inside(path, root)
    if os.path.isdir(path):
        if not praxis_definition.is_folder(path):
            why = f"it has no {praxis_definition.METADATA}"
            raise InvalidInput(f"{path} is not a workflow", why=why, hint=_SEE, file=path)
        return Checked(path, *praxis_definition.read(path, source))
    data = files.read_bounded(path, yaml_definition.MOST_BYTES)
    if os.path.basename(path) == praxis_definition.METADATA:
        return _checked(os.path.dirname(path) or ".", root, "")
    return Checked(path, *yaml_definition.read(data, source, name=name))


def _source(path: str, root: str) -> str:
    """Return how a definition is shown: its path, relative to the project if inside."""
    if _is_shipped(path):
        return f"{os.path.splitext(os.path.basename(path))[0]} ({BUILT_IN})"
    whole = os.path.abspath(path)
    inside = root and whole.startswith(os.path.abspath(root) + os.sep)
    return os.path.relpath(whole, root) if inside else whole


def _is_shipped(path: str) -> bool:
    return os.path.dirname(path) == _SHIPPED


def _require_inside(path: str, root: str) -> None:
    if _is_shipped(path):
        return
    if not os.path.realpath(path).startswith(os.path.realpath(root) + os.sep):
        why = "a link leads out of the project"
        hint = "name the file itself, or copy it into the project"
        raise InvalidInput(f"{path} was not read", why=why, hint=hint, file=path)


# -- errors ------------------------------------------------------------------------------------

_SEE = "forestay workflow list"


def _first_error(checked: Checked) -> str:
    first = next(each for each in checked.findings if each.severity == ERROR)
    return f"line {first.line}: {first.what}" if first.line else first.what


def _faulty(given: str, checked: Checked) -> ForestayError:
    return Damaged(
        f"the workflow {shorten(given, 80)} has errors",
        why=_first_error(checked),
        hint=f"see them all: forestay workflow check {shlex.quote(checked.path)}",
        file=checked.path,
    )


def _unknown(name: str, root: str) -> ForestayError:
    import difflib

    known = [name for name, _ in _all(root)]
    near = difflib.get_close_matches(name, known, 1)
    if os.path.exists(name):
        hint = f"to use the file of this name: ./{name}"
    else:
        hint = f"did you mean {near[0]}?" if near else _SEE
    return InvalidInput(f"there is no workflow {name}", hint=hint)


# -- creating ----------------------------------------------------------------------------------


def new(name: str, project_root: str, *, origin: str = "") -> str:
    """Write a new definition and return its path; refuse to overwrite one.

    It is a copy of the workflow `origin`, or a small example.
    """
    clean_id(name, "the name of a workflow")
    folder = os.path.join(project_root, OURS)
    path = os.path.join(folder, f"{name}.yaml")
    taken = [each for each in _places(name, project_root)[:-2] if os.path.lexists(each)]
    if taken:
        hint = f"edit {taken[0]}, or choose another name"
        raise InvalidInput(f"there is a workflow {name} already", hint=hint, file=taken[0])
    data = _copied(name, origin, project_root) if origin else _example(name)
    _require_inside(folder, project_root)
    files.make_folder(folder)
    files.create(path, data, 0o644)
    return path


def _copied(name: str, origin: str, root: str) -> bytes:
    checked = look(origin, root)
    if checked.workflow is None:
        raise _faulty(origin, checked)
    if os.path.isdir(checked.path):
        return yaml_definition.write(replace(checked.workflow, name=name))
    # The text is copied with its comments; only the name changes.
    data = files.read_bounded(checked.path, yaml_definition.MOST_BYTES)
    document = Document.parse(data, "yaml", limit=yaml_definition.MOST_BYTES)
    return document.rewrite({**document.value, "workflow": name})


def _example(name: str) -> bytes:
    path = os.path.join(_SHIPPED, "example.yaml.txt")
    text = files.read_bounded(path, yaml_definition.MOST_BYTES).decode()
    return text.replace("NAME", name).encode()
