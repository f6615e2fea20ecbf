"""A changefeed's TOML file: its values, rules from other files, and where each of them stands."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cdc.base.errors import InvalidError
from cdc.cli.toml_lines import line_of, value_lines


class ConfigFileInvalid(InvalidError):
    """The configuration file, or a file of rules that it names, cannot be read."""

    code = "TG:ErrConfigFileInvalid"


@dataclass(frozen=True)
class ConfigFile:
    """``values`` as the server takes them: ``@file`` in a list of rules is replaced by its lines.

    The file's name is that which was given; other files are looked for in the working directory,
    as TiCDC does.
    """

    values: dict[str, Any]
    name: str
    _lines: dict[str, int]
    _origins: dict[str, tuple[str, int]]

    def where(self, place: str) -> str:
        """``file:line`` of a place such as ``filter.rules[2]``; '' if the file does not have it."""
        near = place
        while near and near not in self._origins and near not in self._lines:
            near = near[: max(near.rfind("."), near.rfind("["), 0)]
        if near in self._origins:
            name, line = self._origins[near]
            return f"{name}:{line}"
        found = line_of(self._lines, near)
        return f"{self.name}:{found}" if found else ""


def read_config(path: Path | None) -> ConfigFile:
    """The file; without one an empty configuration. Raises :class:`ConfigFileInvalid`."""
    if path is None:
        return ConfigFile({}, "", {}, {})
    text = _text(path)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise ConfigFileInvalid(
            f"is not TOML: {e}", object=str(path), hint="correct that place of the file"
        ) from None
    lines = value_lines(text)
    origins: dict[str, tuple[str, int]] = {}
    for place, holder, key in _lists(values):
        holder[key] = _opened(holder[key], place, str(path), lines, origins)
    return ConfigFile(values, str(path), lines, origins)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        reason = getattr(e, "strerror", None) or str(e)
        raise ConfigFileInvalid(reason, object=str(path), hint="check the file's name") from None


def _lists(values: dict[str, Any]) -> list[tuple[str, dict[str, Any], str]]:
    """Every list of table rules: its place, and where to put it again."""
    found: list[tuple[str, dict[str, Any], str]] = []
    section = values.get("filter")
    if isinstance(section, dict):
        found += [("filter.rules", section, "rules")] if "rules" in section else []
        found += _matchers(section, "filter", ("event-filters", "event_filters"))
    section = values.get("sink")
    if isinstance(section, dict):
        found += _matchers(section, "sink", ("dispatchers",))
        found += _matchers(section, "sink", ("column-selectors", "column_selectors"))
    return found


def _matchers(
    section: dict[str, Any], name: str, keys: tuple[str, ...]
) -> list[tuple[str, dict[str, Any], str]]:
    found = []
    for key in keys:
        rules = section.get(key)
        for i, rule in enumerate(rules if isinstance(rules, list) else []):
            if isinstance(rule, dict) and "matcher" in rule:
                place = f"{name}.{key.replace('_', '-')}[{i}].matcher"
                found.append((place, rule, "matcher"))
    return found


def _opened(
    given: Any, place: str, name: str, lines: dict[str, int], origins: dict[str, tuple[str, int]]
) -> Any:
    """A list of rules with the lines of the files that it names."""
    if not isinstance(given, list) or not any(_is_file(rule) for rule in given):
        return given
    out: list[Any] = []
    for i, rule in enumerate(given):
        here = (name, lines.get(f"{place}[{i}]", lines.get(place, 1)))
        if not _is_file(rule):
            origins[f"{place}[{len(out)}]"] = here
            out.append(rule)
            continue
        path = Path(rule.strip()[1:].strip())
        for number, line in enumerate(_text(path).splitlines(), 1):
            if _is_file(line):
                raise ConfigFileInvalid(
                    "a file of rules cannot name another one",
                    object=f"{path}:{number}",
                    hint="put its rules here",
                )
            if line.strip() and not line.lstrip().startswith("#"):
                origins[f"{place}[{len(out)}]"] = (str(path), number)
                out.append(line.strip())
    return out


def _is_file(rule: Any) -> bool:
    return isinstance(rule, str) and rule.lstrip().startswith("@")
