"""Which server is meant, and how it is reached: by options, a profile of a file, or environment."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from cdc.base.errors import InvalidError
from cdc.client.access import Access

_VARIABLES = {
    "server": "TIDEGATE_SERVER",
    "ca": "TIDEGATE_CA",
    "cert": "TIDEGATE_CERT",
    "key": "TIDEGATE_KEY",
    "token_file": "TIDEGATE_TOKEN_FILE",
    "token": "TIDEGATE_TOKEN",
}
_PROFILE = "TIDEGATE_PROFILE"
_DEFAULT = "default"
_NAMES = tuple(f.name for f in fields(Access))


class ProfileInvalid(InvalidError):
    """A profile is not there, or cannot be used."""

    code = "TG:ErrProfileInvalid"


def chosen(profile: str | None = None, **given: str | Path | None) -> Access:
    """What is given; for the rest the profile of that name, else the environment.

    A profile that is named (``profile``, TIDEGATE_PROFILE) is taken whole, and the environment is
    then not looked at: a token must not go to a server that it is not for. Where neither
    names anything, the profile ``default`` counts if there is one. Raises :class:`ProfileInvalid`.
    """
    given = {name: value for name, value in given.items() if value is not None}
    named = profile or os.environ.get(_PROFILE)
    found = {n: v for n, var in _VARIABLES.items() if (v := os.environ.get(var, "").strip())}
    if named:
        found = _read(named, required=True)
    elif not found and "server" not in given:
        found = _read(_DEFAULT, required=False)
    # A token of one kind that is given does away with one of the other.
    if given.keys() & {"token", "token_file"}:
        found = {n: v for n, v in found.items() if n not in ("token", "token_file")}
    return _access(found | given)


def path() -> Path:
    """Where profiles are: ``~/.config/tidegate/profiles.toml``, or below XDG_CONFIG_HOME."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(given) if os.path.isabs(given) else Path("~/.config").expanduser()
    return folder / "tidegate" / "profiles.toml"


def _access(values: Mapping[str, Any]) -> Access:
    made = replace(Access(), **values)
    return replace(made, token_file=Path(made.token_file)) if made.token_file else made


def _read(name: str, *, required: bool) -> dict[str, Any]:
    file = path()
    try:
        values = tomllib.loads(file.read_text("utf-8"))
    except FileNotFoundError:
        values = {}
    except (OSError, ValueError) as e:
        raise ProfileInvalid(
            getattr(e, "strerror", None) or f"is not TOML: {e}",
            object=str(file),
            hint="[prod], and below it server = 'https://…'",
        ) from None
    found = values.get(name)
    if found is None and not required:
        return {}
    if not isinstance(found, dict):
        raise ProfileInvalid(
            f"there is no profile {name}", object=str(file), hint=f"write [{name}] with its server"
        )
    made = {key.replace("-", "_"): value for key, value in found.items()}
    for key, value in made.items():
        if key not in _NAMES or not isinstance(value, str):
            raise ProfileInvalid(
                f"{key} is not a setting, or no text",
                object=f"{file}, [{name}]",
                hint=f"there are {', '.join(n.replace('_', '-') for n in _NAMES)}",
            )
    for key in made.keys() & {"ca", "cert", "key", "token_file"}:
        made[key] = os.path.expanduser(made[key])
    if "token" in made and stat.S_IMODE(file.stat().st_mode) & 0o077:
        raise ProfileInvalid(
            "holds a token, and others may open it", object=str(file), hint=f"chmod 600 {file}"
        )
    return made
