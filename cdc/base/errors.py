"""The five kinds of error, and the base that every error of ours shares.

Code acts on the *kind*, never on the text:

========== =============================================== =========================
kind       meaning                                         what the caller does
========== =============================================== =========================
definite   about the data                                  stop this table or feed
transient  about the world                                 back off and retry
invalid    the user must change something                  refuse, show the hint
fenced     we are no longer the owner                      stop at once
internal   a bug of ours                                   stop, report
========== =============================================== =========================

A package defines its own errors by deriving from one of the five bases and naming a stable
``code``::

    class MessageTooLarge(DefiniteError):
        code = "TG:ErrMessageTooLarge"
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar

from cdc.base.redaction import plain, texts_are_marked, user_data


class ErrorKind(StrEnum):
    """What an error means for the code that receives it."""

    DEFINITE = "definite"
    TRANSIENT = "transient"
    INVALID = "invalid"
    FENCED = "fenced"
    INTERNAL = "internal"


_BY_CODE: dict[str, type[TidegateError]] = {}


class TidegateError(Exception):
    """An error with a kind, a stable code, its object, the position and one hint.

    ``object`` names what the error is about (``shop.orders``, ``upstream main``); ``position``
    says where (``000007.binlog:1234``, a GTID, a ts); ``hint`` is one thing to try. None of the
    four texts may carry a secret: callers mask URIs before they come here. User data in them is
    marked (:mod:`cdc.base.redaction`); as text and by :meth:`to_dict` an error has no marks.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.INTERNAL
    code: ClassVar[str] = "TG:ErrInternal"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "code" in cls.__dict__:
            other = _BY_CODE.get(cls.code)
            if other is not None and other.__qualname__ != cls.__qualname__:
                raise TypeError(f"{cls.code} is the code of {other.__name__} already")
            _BY_CODE[cls.code] = cls

    def __init__(
        self, message: str, *, object: str = "", position: str = "", hint: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.object = object
        self.position = position
        self.hint = hint

    def __str__(self) -> str:
        text = f"[{self.code}] "
        if self.object:
            text += f"{self.object}: "
        text += self.message
        if self.position:
            text += f" (at {self.position})"
        if self.hint:
            text += f"; hint: {self.hint}"
        return text if texts_are_marked.get() else plain(text)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exception's own pickling would lose the keyword arguments on the way out of a worker.
        return (_rebuild, (type(self), self.marked()))

    def to_dict(self) -> dict[str, str]:
        """The error as text fields, for the store, the API and acknowledgements."""
        return {name: plain(text) for name, text in self.marked().items()}

    def marked(self) -> dict[str, str]:
        """As :meth:`to_dict`, with the marks, for what becomes an error again."""
        return {
            "code": self.code,
            "kind": str(self.kind),
            "message": self.message,
            "object": self.object,
            "position": self.position,
            "hint": self.hint,
        }


def _rebuild(cls: type[TidegateError], fields: dict[str, str]) -> TidegateError:
    error = cls(
        fields["message"],
        object=fields["object"],
        position=fields["position"],
        hint=fields["hint"],
    )
    if fields["code"] != cls.code:
        # The class that owns the code is not loaded in this process.
        vars(error)["code"] = fields["code"]
    return error


class DefiniteError(TidegateError):
    """About the data: it will be the same on every retry."""

    kind = ErrorKind.DEFINITE
    code = "TG:ErrDefinite"


class TransientError(TidegateError):
    """About the world: the same call may succeed later."""

    kind = ErrorKind.TRANSIENT
    code = "TG:ErrTransient"


class InvalidError(TidegateError):
    """The user must change something before it can work."""

    kind = ErrorKind.INVALID
    code = "TG:ErrInvalid"


class FencedError(TidegateError):
    """Somebody newer has taken over: stop at once, touch nothing."""

    kind = ErrorKind.FENCED
    code = "TG:ErrFenced"


class InternalError(TidegateError):
    """A bug of ours; an impossible state that was noticed."""

    kind = ErrorKind.INTERNAL
    code = "TG:ErrInternalState"


_BASES: dict[str, type[TidegateError]] = {
    "definite": DefiniteError,
    "transient": TransientError,
    "invalid": InvalidError,
    "fenced": FencedError,
    "internal": InternalError,
}


def from_dict(fields: dict[str, str]) -> TidegateError:
    """Inverse of :meth:`TidegateError.to_dict`; a code whose class is not loaded is kept."""
    cls = _BY_CODE.get(fields["code"])
    if cls is None:
        cls = _BASES[fields["kind"]]
    return _rebuild(cls, fields)


def text_of_foreign(error: BaseException) -> str:
    """``KeyError: 'a'``: an error that is none of ours in one line, which may show user data."""
    line = (str(error).splitlines() or [""])[0][:300]
    name = type(error).__name__
    return f"{name}: {user_data(line)}" if line else name
