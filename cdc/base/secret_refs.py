"""References to secrets: what is stored and shown in the place of a password, read at its use.

``env:NAME`` is a variable of the server's environment, ``file:/path`` the first line of a file.
Both only as the egress policy allows: a password is sent to a host that a user has named.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from cdc.base import egress
from cdc.base.errors import InvalidError

_REFERENCE = re.compile(r"(?P<kind>env):(?P<name>[A-Za-z_]\w{0,254})|file:(?P<path>/[^\0\r\n]+)")
_BEGINS = ("env:", "file:")
_LONGEST = 64 << 10


class SecretUnusable(InvalidError):
    """A reference to a secret leads to none, or may not be used."""

    code = "TG:ErrSecretUnusable"


def is_reference(text: str) -> bool:
    """Whether a text in the place of a password only names one."""
    return _REFERENCE.fullmatch(text) is not None


def resolved(text: str) -> str:
    """The secret that a reference leads to now; any other text is the secret itself.

    Raises SecretUnusable and FileNotAllowed, which name the reference.
    """
    if not text.startswith(_BEGINS):
        return text
    found = _REFERENCE.fullmatch(text)
    if found is None:
        # Not shown: it may be a password that only begins so.
        raise SecretUnusable(
            "what begins with env: or file: in the place of a password names none",
            object="password",
            hint="write env:NAME or file:/absolute/path; a password that begins so goes there",
        )
    return _of_file(text, found["path"]) if found["path"] else _of_variable(text, found["name"])


def _of_variable(text: str, name: str) -> str:
    if not egress.installed().has_variable(name):
        raise SecretUnusable(
            "the server may not use this variable",
            object=text,
            hint="take one that begins with TIDEGATE_SECRET_, or have it added to"
            " secret-variables in [security.egress]",
        )
    value = os.environ.get(name, "")
    if not value:
        raise SecretUnusable(
            "the server has no such variable",
            object=text,
            hint="set it in the environment of cdc server, and start that anew",
        )
    return value


def _of_file(text: str, path: str) -> str:
    egress.installed().check_secret_file(path)
    try:
        with Path(path).open("rb") as file:
            line = file.read(_LONGEST).partition(b"\n")[0].rstrip(b"\r").decode()
    except (OSError, UnicodeDecodeError) as e:
        why = (e.strerror if isinstance(e, OSError) else "") or type(e).__name__
        raise SecretUnusable(
            f"cannot be read: {why}",
            object=text,
            hint="give a file that the server's user can read",
        ) from None
    if not line:
        raise SecretUnusable("is empty", object=text, hint="its first line is the secret")
    return line
