"""Settings: one frozen value, and the only reader of the environment and of config files.

Words. An *option* is a name with a default, a meaning and a rule. A *layer* gives values to
options; the order is defaults, then the file `config.toml` in the home, then the environment
(`HOLDFAST_` and the name in capitals; empty counts as not set), then arguments: each overrides
the one before. The *origin* of a value is the layer that gave it, in words.

The home cannot stand in the file that lies in it, and a session in a file would make every
command guess: these two come from environment and arguments only. An option in the file that
this version does not know is kept and told (`unknown`), because another version may know it; a
bad value of a known one is an error that names option, rule, value and origin.
"""

from __future__ import annotations

import os
import sys

from holdfast.errors import HoldfastError, InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Rule = tuple[str, Callable[[object], object]]
    Layer = Mapping[str, tuple[object, str]]

FILE_NAME = "config.toml"
_FILE_LIMIT = 64 * 1024


# --- rules: words for people, and a check that returns the clean value or raises ValueError ---


def _integer(low: int, high: int) -> Rule:
    def check(value: object) -> object:
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise ValueError
        return value

    return f"a whole number from {low} to {high}", check


def _number(low: float, high: float) -> Rule:
    def check(value: object) -> object:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        number = float(value)
        if not low <= number <= high:  # false for nan, too
            raise ValueError
        return number

    return f"a number from {low:g} to {high:g}", check


def _choice(*words: str) -> Rule:
    def check(value: object) -> object:
        if value not in words:
            raise ValueError
        return value

    return " or ".join(words), check


def _line(value: object) -> str:
    if not isinstance(value, str) or len(value) > 2000 or not value.isprintable():
        raise ValueError
    return value


def _url(value: object) -> object:
    import re

    if _line(value) and not re.match(r"[a-z][a-z0-9+.-]*:", str(value)):
        raise ValueError
    return value


def _path(value: object) -> object:
    # A path may hold bytes that no terminal prints; only what breaks lines is refused.
    if not isinstance(value, str) or not value or len(value) > 4000 or {"\0", "\n"} & set(value):
        raise ValueError
    return os.path.abspath(value)


def _patterns(value: object) -> object:
    from holdfast.redact import Redactor

    items = _listed(value) if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(_line(item) for item in items):
        raise ValueError  # an empty one would match everywhere
    try:
        Redactor(items)
    except InvalidInput:
        raise ValueError from None
    return tuple(items)


def _listed(text: str) -> object:
    """Patterns typed as one text: one per line, or a list as it stands in the file."""
    bare = text.strip()
    inner = bare[1:-1].strip()
    if (bare[:1], bare[-1:]) != ("[", "]") or (inner and inner[0] not in "\"'"):
        return text.splitlines()
    import tomllib

    # A pattern may look like this too; as one of a list it can still be given.
    return tomllib.loads(f"it = {bare}").get("it")


_FOLDER: Rule = ("a folder", _path)
_URL: Rule = ("a URL such as sqlite:PATH or postgresql://HOST/DATABASE, or empty", _url)
_LINE: Rule = ("one line of text", _line)
_PATTERNS: Rule = ("a list of at most 50 short regular expressions, each one line", _patterns)


class Option:
    """One setting: what it means, its rule in words, and the check behind the words."""

    __slots__ = ("check", "default", "in_file", "meaning", "name", "rule")

    def __init__(
        self, name: str, default: object, rule: Rule, meaning: str, *, in_file: bool = True
    ) -> None:
        self.name, self.default, self.meaning, self.in_file = name, default, meaning, in_file
        self.rule, self.check = rule

    @property
    def variable(self) -> str:
        return f"HOLDFAST_{self.name.upper()}"


_ALL = (
    Option("home", "", _FOLDER, "where everything is kept", in_file=False),
    Option("store", "", _URL, "where journals live; empty: SQLite in the home"),
    Option("session", "", _LINE, "the session that commands mean", in_file=False),
    Option("busy_timeout", 10.0, _number(0, 3600), "seconds to wait for another process"),
    Option("brief_budget", 1500, _integer(150, 20_000), "tokens a briefing may cost"),
    Option("hook_budget", 1500, _integer(150, 20_000), "tokens of the one an agent starts with"),
    Option("context_window", 128_000, _integer(1_000, 10**8), "tokens an agent's context holds"),
    Option("drift_files", 200, _integer(0, 100_000), "touched files a briefing looks at"),
    Option("drift_ms", 50, _integer(0, 60_000), "milliseconds that looking may take"),
    Option("pause_hours", 0.0, _number(0, 10**6), "hours without work that pause; 0: as usual"),
    Option("abandon_hours", 0.0, _number(0, 10**6), "hours after which to ask; 0: as usual"),
    Option("backup_every_minutes", 60, _integer(0, 525_600), "time between backups; 0: never"),
    Option("backup_keep", 3, _integer(1, 1_000), "how many backups are kept"),
    Option("redact_patterns", (), _PATTERNS, "secrets to remove before anything is stored"),
    Option(
        "device_name",
        "",
        _LINE,
        "the name of this device until it is in a circle; empty: its host name",
    ),
    Option("pager", "", _LINE, "the command that shows long output; empty: none"),
    Option("color", "auto", _choice("auto", "always", "never"), "colour on a terminal"),
    Option("session_root", "", _LINE, "where ai-session files are; empty: .ai-session"),
    Option("auto_sync", "on", _choice("on", "off"), "sync by itself where there is a remote"),
    Option("sync_seconds", 10, _integer(0, 86_400), "least time between two; 0: as things happen"),
    Option("pull_seconds", 5, _integer(0, 3600), "a resume's wait for remotes; 0: it asks none"),
    Option("naive_time", "local", _choice("local", "utc"), "zone of a time given without one"),
)
OPTIONS = {option.name: option for option in _ALL}


class Settings:
    """All options with their values. Frozen: make another one with `load`."""

    __slots__ = (*OPTIONS, "_origins", "unknown")

    home: str
    store: str
    session: str
    busy_timeout: float
    brief_budget: int
    hook_budget: int
    context_window: int
    drift_files: int
    drift_ms: int
    pause_hours: float
    abandon_hours: float
    backup_every_minutes: int
    backup_keep: int
    redact_patterns: tuple[str, ...]
    device_name: str
    pager: str
    color: str
    session_root: str
    auto_sync: str
    sync_seconds: int
    pull_seconds: int
    naive_time: str
    unknown: tuple[str, ...]
    _origins: Mapping[str, str]

    def __init__(self, layer: Layer, unknown: tuple[str, ...] = ()) -> None:
        for name, option in OPTIONS.items():
            object.__setattr__(self, name, layer[name][0] if name in layer else option.default)
        origins = {name: origin for name, (_, origin) in layer.items()}
        object.__setattr__(self, "_origins", origins)
        object.__setattr__(self, "unknown", unknown)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings are frozen; give {name} to load() instead")

    def __repr__(self) -> str:
        shown = (f"{name}={_shown(value)}" for name, value, _ in self.items())
        return f"Settings({', '.join(shown)})"

    def origin(self, name: str) -> str:
        """Where the value came from: "default", the file, the variable or "argument"."""
        return self._origins.get(name, "default")

    def items(self) -> Iterator[tuple[str, object, str]]:
        """Every option in order: name, value, origin."""
        for name in OPTIONS:
            yield name, getattr(self, name), self.origin(name)


def load(
    home: str | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, object] | None = None,
    trust_env: bool = True,
    read_file: bool = True,
) -> Settings:
    """The settings that hold here. An override of None counts as not given.

    `environ` replaces the process's environment; with trust_env=False none is read, and the
    home is the platform's. Only values that win are checked, so that a variable or an argument
    can always outvote a bad line in the file; with read_file=False it is not even read.
    """
    variables = {} if not trust_env else os.environ if environ is None else environ
    given = {name: (v, "argument") for name, v in (overrides or {}).items() if v is not None}
    if home is not None:
        given["home"] = (home, "argument")
    if strange := given.keys() - OPTIONS.keys():
        raise TypeError(f"no such option: {', '.join(sorted(strange))}")
    outer = {**_from_environment(variables), **given}
    place, origin = outer.get("home") or _default_home(variables)
    outer["home"] = _checked("home", _expanded(place, variables), origin)
    inner, unknown = _from_file(str(outer["home"][0])) if read_file else ({}, ())
    layer = {name: _checked(name, *pair) for name, pair in {**inner, **outer}.items()}
    return Settings(layer, unknown)


def _checked(name: str, value: object, origin: str) -> tuple[object, str]:
    option = OPTIONS[name]
    try:
        return option.check(value), origin
    except (ValueError, OverflowError, OSError):
        raise InvalidInput(
            f"{name} cannot be {_shown(value)}",
            why=f"it must be {option.rule}; {_said(origin)}",
            hint=f"holdfast config {name} VALUE" if option.in_file else "",
        ) from None


def _said(origin: str) -> str:
    """Where someone finds the value that is wrong."""
    return "it was given with the command" if origin == "argument" else f"it is from {origin}"


def _shown(value: object) -> str:
    """A value for messages: short, and without the password a URL may carry."""
    text = without_password(repr(value))
    return text if len(text) <= 100 else text[:99] + "…"


def without_password(text: str) -> str:
    """A text in which no URL has a password; the user's name stays, so that it still leads there.

    As far as the last @ of a word: a password with such signs in it must not be shown in part.
    """
    import re

    named = re.sub(r"://([^:@/\s]*)(:[^\s]*)?@", r"://\1@", text)
    return re.sub(r"([?&](?:ssl)?password=)[^&\s'\"]*", r"\1…", named)


def user_home() -> str:
    """The user's own folder."""
    return _user_home(os.environ)


_S3_NAMES = {
    "access_key_id": "ACCESS_KEY_ID",
    "secret_access_key": "SECRET_ACCESS_KEY",
    "session_token": "SESSION_TOKEN",
    "region": "REGION",
    "endpoint": "ENDPOINT_URL_S3",
}
_S3_OTHER = {"region": ["AWS_DEFAULT_REGION"], "endpoint": ["AWS_ENDPOINT_URL", "AWS_ENDPOINT"]}
_S3_ROLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def s3_access(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What opens a bucket: from HOLDFAST_S3_…, else AWS_…, else the profile in ~/.aws.

    Keys of two origins are never mixed. `by_role` says that the machine itself is entitled.
    """
    variables = os.environ if environ is None else environ
    found: dict[str, str] = {}
    for layer in ("HOLDFAST_S3_", "AWS_"):
        given = {name: variables.get(layer + part, "") for name, part in _S3_NAMES.items()}
        if found.get("access_key_id"):
            given = {name: given[name] for name in ("region", "endpoint")}
        found |= {name: value for name, value in given.items() if value and not found.get(name)}
    for name, others in _S3_OTHER.items():
        found.setdefault(name, next((variables[o] for o in others if variables.get(o)), ""))
    if any(variables.get(name) for name in _S3_ROLES):
        found["by_role"] = "yes"
    elif not found.get("access_key_id"):
        found = {**_s3_profile(variables), **{n: v for n, v in found.items() if v}}
    return {name: value for name, value in found.items() if value}


def _s3_profile(environ: Mapping[str, str]) -> dict[str, str]:
    """What the profile says that other programs use, too; nothing where there is none."""
    import configparser

    from holdfast.files import read_text

    folder = os.path.join(_user_home(environ), ".aws")
    path = environ.get("AWS_SHARED_CREDENTIALS_FILE") or os.path.join(folder, "credentials")
    profiles = configparser.RawConfigParser()
    try:
        profiles.read_string(read_text(path, _FILE_LIMIT) or "")
    except configparser.Error:
        return {}
    name = environ.get("AWS_PROFILE") or "default"
    return {
        key.removeprefix("aws_"): value
        for key, value in (profiles[name].items() if profiles.has_section(name) else ())
        if key.removeprefix("aws_") in _S3_NAMES
    }


def _user_home(environ: Mapping[str, str]) -> str:
    if os.path.isabs(environ.get("HOME", "")):
        return environ["HOME"]
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return "/"


def _default_home(environ: Mapping[str, str]) -> tuple[object, str]:
    if os.path.isabs(environ.get("XDG_DATA_HOME", "")):  # the XDG rule: a relative one is ignored
        return os.path.join(environ["XDG_DATA_HOME"], "holdfast"), "default"
    mac = sys.platform == "darwin"
    data = "Library/Application Support/holdfast" if mac else ".local/share/holdfast"
    return os.path.join(_user_home(environ), data), "default"


def _expanded(value: object, environ: Mapping[str, str]) -> object:
    # Shells leave the ~ of --home=~/x alone; a folder called ~ is never meant.
    if isinstance(value, str) and (value == "~" or value.startswith("~/")):
        return _user_home(environ) + value[1:]
    return value


def _from_environment(environ: Mapping[str, str]) -> Layer:
    layer: dict[str, tuple[object, str]] = {}
    # Names that all programs share come first, so that ours override them.
    for variable in ("PAGER", "SESSION_ROOT"):
        if environ.get(variable):
            layer[variable.lower()] = (environ[variable], f"environment {variable}")
    if environ.get("NO_COLOR"):
        layer["color"] = ("never", "environment NO_COLOR")
    elif environ.get("TERM") == "dumb":
        layer["color"] = ("never", "environment TERM")
    for option in OPTIONS.values():
        if environ.get(option.variable):
            layer[option.name] = (environ[option.variable], f"environment {option.variable}")
    return layer


_PASSPHRASE = "HOLDFAST_PASSPHRASE"


def passphrase() -> str:
    """The passphrase of the device's key, if the environment has it; no setting shows it."""
    return os.environ.get(_PASSPHRASE, "")


def environment_of(settings: Settings, passphrase: str = "") -> dict[str, str]:
    """For a process of ours that is to mean the same home and store.

    Not on its command line: a store may be named with a password, and others see that line.
    """
    given = {"HOLDFAST_HOME": settings.home, "HOLDFAST_STORE": settings.store}
    given |= {_PASSPHRASE: passphrase} if passphrase else {}
    return {**os.environ, **given}


def user_environment() -> dict[str, str]:
    """For a command that a user asked us to run: this process's environment, but no passphrase."""
    return {name: value for name, value in os.environ.items() if name != _PASSPHRASE}


def child_environment() -> dict[str, str]:
    """For programs we start: this process's environment, with answers in plain English."""
    return {**user_environment(), "LC_ALL": "C"}


# --- the file --------------------------------------------------------------------------------


def _from_file(home: str) -> tuple[Layer, tuple[str, ...]]:
    path = os.path.join(home, FILE_NAME)
    if not os.path.lexists(path):  # nearly always: reading and parsing are not even imported
        return {}, ()
    found = _parsed(_read(path), path)
    known = {name: (v, path) for name, v in found.items() if name in OPTIONS}
    for name in known:
        _require_in_file(name)
    return known, tuple(name for name in found if name not in OPTIONS)


def _read(path: str) -> str:
    from holdfast import files

    try:
        return (files.read_optional(path, _FILE_LIMIT, private=True) or b"").decode()
    except UnicodeDecodeError as error:
        why, hint = f"byte {error.start}", _away(path)
        raise InvalidInput(f"{path} is not UTF-8", why=why, hint=hint, file=path) from None
    except HoldfastError as error:
        if not error.hint or files.is_odd(path):
            error.hint = f"move it away: {files.out_of_the_way(path)}"
        raise


def _away(path: str) -> str:
    from holdfast import files

    return f"mend it in an editor, or move it away: {files.out_of_the_way(path)}"


def _parsed(text: str, path: str) -> dict[str, object]:
    import tomllib

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} is not TOML",
            why=str(error) or "too deep",
            hint=_away(path),
            file=path,
        ) from None


def require_known(name: str) -> None:
    """Refuse the name of a setting that there is none of."""
    if name not in OPTIONS:
        import difflib

        near = difflib.get_close_matches(name, OPTIONS, 3, 0.6)
        hint = f"did you mean {' or '.join(near)}?" if near else "holdfast config"
        raise InvalidInput(f"there is no setting {name[:100]!r}", hint=hint)


def _require_in_file(name: str) -> None:
    require_known(name)
    if not OPTIONS[name].in_file:
        raise InvalidInput(
            f"{name} cannot be set in the file",
            hint=f"set {OPTIONS[name].variable} or pass --{name}",
        )


def set_value(home: str, key: str, value: object) -> object:
    """Set an option in the home's file, durably, every other line kept; return it as it is read."""
    from holdfast import files

    _require_in_file(key)
    clean, _ = _checked(key, value, "argument")
    files.make_private_dir(home)
    _edit(home, key, f"{key} = {_toml(clean)}")
    return clean


def unset(home: str, key: str) -> bool:
    """Take an option out of the file, even one nobody knows; False if it was not there."""
    path = os.path.join(home, FILE_NAME)
    if not os.path.lexists(path) or key not in _parsed(_read(path), path):
        return False
    _edit(home, key, None)
    return True


def _edit(home: str, key: str, statement: str | None) -> None:
    from holdfast import files

    path = os.path.join(home, FILE_NAME)
    with files.locked(home):
        old = _read(path)
        expected = _parsed(old, path)
        expected.pop(key, None)
        new = _edited(old, key, statement)
        if statement is not None:
            expected.update(_parsed(statement, path))
        if _parsed(new, path) != expected:
            raise InvalidInput(f"{path} is too intricate to edit", hint="use an editor", file=path)
        if len(new.encode()) > _FILE_LIMIT:
            raise InvalidInput(f"{path} would be too large", why=f"over {_FILE_LIMIT} bytes")
        files.replace(path, new.encode())


def _edited(text: str, key: str, statement: str | None) -> str:
    """`text` with the statement of `key` replaced, added before any table, or taken out."""
    lines = text.removesuffix("\n").split("\n") if text else []
    first, end = _find(lines, key)
    new = [] if statement is None else [statement + _comment("\n".join(lines[first:end]))]
    return "".join(f"{line}\n" for line in [*lines[:first], *new, *lines[end:]])


def _find(lines: list[str], key: str) -> tuple[int, int]:
    """The lines of `key`'s statement; if it has none, the empty range where it belongs."""
    at = 0
    while at < len(lines) and not lines[at].lstrip().startswith("["):
        end = at + 1
        # A statement may span lines; it is whole as soon as it parses.
        while end < len(lines) and _statement(lines[at:end]) is None:
            end += 1
        if key in (_statement(lines[at:end]) or {}):
            return at, end
        at = end
    return at, at


def _statement(lines: list[str]) -> dict[str, object] | None:
    import tomllib

    try:
        return tomllib.loads("".join(f"{line}\n" for line in lines))
    except (ValueError, RecursionError):
        return None


def _comment(old: str) -> str:
    """The comment behind a statement, which is its owner's: it stays."""
    for at, sign in enumerate(old):
        if sign == "#" and _statement([old[:at]]):
            return "  " + old[at:].rstrip("\r")
    return ""


def _toml(value: object) -> str:
    import json

    if isinstance(value, tuple):
        return f"[{', '.join(_toml(item) for item in value)}]"
    # JSON's strings and numbers are TOML's too, as long as nothing outside ASCII is escaped.
    return json.dumps(value, ensure_ascii=False)


def example_toml() -> str:
    """A file with every option commented out: its meaning, its rule, its default."""
    parts = ["# Settings of Holdfast. Take away the # before a line to change it.\n"]
    for option in OPTIONS.values():
        if option.in_file:
            head = f"# {option.meaning} ({option.rule}; or {option.variable})"
            parts.append(f"{head}\n# {option.name} = {_toml(option.default)}\n")
    return "\n".join(parts)
