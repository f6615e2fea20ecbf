"""What the settings of all sinks share: reading a sink URI and the ``sink`` section.

Keys are kebab-case (snake-case is taken too); the URI wins over the section. Every error is an
``InvalidError`` with one hint, and none of them carries a secret.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import BaseModel, ValidationError

from cdc.base.refusals import Refusals
from cdc.base.secrets import HIDDEN, mask_uri
from sink.errors import SinkOptionNotSupported, SinkUnknownOption, SinkURIInvalid

Settings = TypeVar("Settings", bound=BaseModel)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)\Z")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class SinkUri:
    """A parsed URI: ``parts``, its parameters by name, and how errors may show it."""

    parts: SplitResult
    parameters: dict[str, Any]
    shown: str
    example: str

    @classmethod
    def parse(
        cls, text: str, schemes: Collection[str], example: str, options: Collection[str]
    ) -> SinkUri:
        """The URI, with one of ``schemes``; ``example`` is shown as a hint.

        Errors show the values of ``options`` only, and nothing of a URI that can be misread.
        """
        try:
            parts = urlsplit(text)
        except ValueError:
            raise _unreadable(example) from None
        shown = mask_uri(text, options)
        if shown == HIDDEN:
            raise _unreadable(example)
        uri = cls(parts, {}, shown, example)
        if parts.scheme not in schemes:
            raise uri.error(f"scheme {parts.scheme!r} is not one of {', '.join(schemes)}")
        try:
            pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
        except ValueError:
            raise uri.error("parameters cannot be read") from None
        for name, value in pairs:
            if name in uri.parameters:
                raise uri.error(f"parameter {name} is given twice")
            uri.parameters[name] = value
        return uri

    def error(self, what: str) -> SinkURIInvalid:
        """An error about the URI."""
        return SinkURIInvalid(what, object=self.shown, hint=f"for example {self.example}")


def _unreadable(example: str) -> SinkURIInvalid:
    # The URI, and the parser's own text too, may hold the password where nobody looks for it.
    return SinkURIInvalid(
        "the URI does not parse; / ? # @ in a user or password are written %2F %3F %23 %40",
        object="sink URI",
        hint=f"for example {example}",
    )


def section(
    config: Mapping[str, Any], own: str, names: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Fields of the ``sink`` section, those of its table ``own`` among them.

    ``names`` maps keys of that table to the parameters that mean the same.
    """
    fields = kebab(config)
    inner = fields.pop(own, None) or {}
    if not isinstance(inner, Mapping):
        raise SinkURIInvalid(
            f"{own} is not a table", object=f"sink.{own}", hint="write key = value"
        )
    return fields | {(names or {}).get(k, k): v for k, v in kebab(inner).items()}


def kebab(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are given, under kebab-case keys."""
    return {str(k).replace("_", "-"): v for k, v in values.items() if v is not None}


def option_names(model: type[BaseModel]) -> list[str]:
    """Names of the options that ``model`` has."""
    return [str(f.alias) for f in model.model_fields.values()]


def known(
    fields: Mapping[str, Any],
    model: type[BaseModel],
    shown: str,
    *,
    later: Collection[str],
    without_effect: Collection[str],
) -> dict[str, Any]:
    """The fields that ``model`` has; ``later`` are options of TiCDC that are not supported."""
    names = option_names(model)
    refusals = Refusals()
    for name in fields:
        if name in names or name in without_effect:
            continue
        with refusals.gathered():
            if name in later:
                raise SinkOptionNotSupported(
                    f"option {name} is not supported", object=shown, hint=f"remove {name}"
                )
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"remove {name}"
            raise SinkUnknownOption(f"unknown option {name}", object=shown, hint=hint)
    refusals.check()
    return {k: v for k, v in fields.items() if k not in without_effect}


def validated(model: type[Settings], fields: Mapping[str, Any], shown: str) -> Settings:
    """The settings; all that is wrong is raised."""
    try:
        return model.model_validate(fields)
    except ValidationError as e:
        errors = e.errors(include_input=False, include_url=False, include_context=False)
    refusals = Refusals()
    for error in errors:
        name = ".".join(str(part) for part in error["loc"]) or "sink"
        with refusals.gathered():
            raise SinkURIInvalid(
                f"{name}: {error['msg'].removeprefix('Value error, ')}",
                object=shown,
                hint=f"correct {name}" if name != "sink" else "correct the sink's options",
            )
    refusals.check()
    raise AssertionError("a model refused nothing")


def seconds(name: str, value: Any, shown: str) -> float:
    """Seconds as a number, or Go's text: ``10s``."""
    if isinstance(value, int | float):
        return float(value)
    found = _DURATION.match(str(value))
    if found is None:
        raise SinkURIInvalid(
            f"{name}: {value!r} is not a duration", object=shown, hint=f"for example {name}=10s"
        )
    return float(found[1]) * _SECONDS[found[2]]
