"""URIs and passwords that are not on the command line, where all users of a host see them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cdc.base.errors import InvalidError
from cdc.base.secrets import with_password

STDIN = "-"
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file",
        help="File with the password of the URI's user, - for standard input;"
        " or TIDEGATE_PASSWORD with the password itself.",
    ),
]
_VARIABLE = "TIDEGATE_PASSWORD"


class PasswordUnusable(InvalidError):
    """A URI or password from a file, the environment or standard input cannot be used."""

    code = "TG:ErrPasswordUnusable"


def complete(uri: str, password_file: str | None) -> str:
    """The URI, read from standard input if it is ``-``, with the password given beside it."""
    if uri == STDIN and password_file == STDIN:
        raise PasswordUnusable(
            "URI and password cannot both come from standard input",
            hint="give one of them by a file or TIDEGATE_PASSWORD",
        )
    if uri == STDIN:
        uri = _line(sys.stdin.readline(), "standard input")
    password = given_password(password_file)
    if password is None:
        return uri
    try:
        return with_password(uri, password)
    except ValueError as e:
        raise PasswordUnusable(
            str(e), hint="write scheme://user@host:port, and the password in one place"
        ) from None


def given_password(file: str | None) -> str | None:
    """The password of a file, of standard input or of the environment; None if none is given."""
    if file == STDIN:
        return _line(sys.stdin.readline(), "standard input")
    if file is None:
        return os.environ.get(_VARIABLE) or None
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        what = e.strerror if isinstance(e, OSError) else None
        raise PasswordUnusable(
            f"cannot be read: {what or type(e).__name__}", object=file, hint="check --password-file"
        ) from None
    return _line(text.partition("\n")[0], file)


def _line(text: str, where: str) -> str:
    found = text.rstrip("\r\n")
    if not found:
        raise PasswordUnusable("is empty", object=where, hint="its first line is what is read")
    return found
