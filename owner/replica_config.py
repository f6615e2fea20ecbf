"""A changefeed's configuration as users write it: TiCDC's TOML (kebab-case) or JSON (snake_case).

:func:`check` makes a ``FeedConfig`` of it: checked, and without what has no effect. A key of
TiCDC that we cannot honour yet is refused by name, unless its value says that the feature is off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from cdc.base.errors import InvalidError
from cdc.base.near import did_you_mean
from cdc.base.refusals import Refusals
from cdc.coord.feed_config import EventFilterConfig, FeedConfig, FilterConfig
from filter.copied import CopiedTables
from filter.online import OnlineDdl
from filter.settings import check_filter
from sink.dispatch.read import read_column_selectors, read_dispatchers

_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?\Z")


class ConfigNotSupported(InvalidError):
    """A key of TiCDC's that is not supported yet."""

    code = "TG:ErrConfigNotSupported"


class ConfigUnknownKey(InvalidError):
    """A key that neither TiCDC nor we know."""

    code = "TG:ErrConfigUnknownKey"


class ConfigInvalid(InvalidError):
    """A value of the wrong type or range."""

    code = "TG:ErrConfigInvalid"


def _kebab(name: str) -> str:
    return name.replace("_", "-")


_ANY = object()

# TiCDC's keys that are not supported, with the values that ask for nothing (_ANY: a hint to
# TiCDC's own implementation). A key that holds a section covers everything below it.
_LATER: dict[str, tuple[Any, ...]] = {
    "memory-quota": (_ANY,),
    "check-gc-safe-point": (_ANY,),
    "enable-old-value": (True,),
    "sql-mode": ("",),
    "bdr-mode": (False,),
    "mounter.worker-num": (_ANY,),
    "scheduler.region-threshold": (_ANY,),
    "scheduler.write-key-threshold": (_ANY,),
    "scheduler": (),
    "consistent.level": ("none", ""),
    "consistent": (),
    "integrity.integrity-check-level": ("none", ""),
    "integrity": (),
    "performance-mode": ("throughput",),
    "enable-active-active": (False,),
    "active-active-progress-interval": (),
    "active-active-sync-stats-interval": (),
    "enable-table-monitor": (False,),
    "event-collector-batch-count": (),
    "event-collector-batch-bytes": (),
}
# What there is in place of them, by key or section; nothing is said where there is nothing to say.
_INSTEAD = {
    "sql-mode": "each statement is read under the sql_mode of its session",
    "bdr-mode": "rows would go round in circles: give each direction tables of its own",
    "enable-active-active": "rows would go round in circles: give each direction tables of its own",
    "scheduler": "scheduler.enable-table-across-nodes has all captures deliver large windows",
    "consistent": "a database target needs no redo log: its rows and ledger are one transaction",
    "integrity": "the server's checksum of each event is checked; `cdc cli changefeed verify`"
    " compares rows",
    "enable-table-monitor": "`cdc cli changefeed query` and the metrics show tables that lag",
    "performance-mode": "rows are delivered as soon as they come",
}
# What is below a feature that is switched off asks for nothing: switch, off, and what it is about.
_SWITCHES: tuple[tuple[str, tuple[Any, ...], frozenset[str]], ...] = (
    ("consistent.level", ("none", ""), frozenset({"consistent"})),
    ("integrity.integrity-check-level", ("none", ""), frozenset({"integrity"})),
    ("scheduler.enable-table-across-nodes", (False,), frozenset({"scheduler"})),
    ("enable-sync-point", (False,), frozenset({"sync-point-interval", "sync-point-retention"})),
    (
        "enable-active-active",
        (False,),
        frozenset({"active-active-progress-interval", "active-active-sync-stats-interval"}),
    ),
)
_DURATIONS = frozenset(
    {"changefeed-error-stuck-duration", "sync-point-interval", "sync-point-retention"}
)
_SECTIONS = frozenset({"filter", "sink", "mounter", "scheduler", "consistent", "integrity"})
# Sections that are supported whole, and single keys of others.
_KEPT = frozenset({"filter", "sink", "synced-status", "scheduler.enable-table-across-nodes"})


def check(given: Mapping[str, Any]) -> FeedConfig:
    """The configuration.

    Raises the three errors above and those of rules, with the place in the configuration; all of
    them in one, but those of rules only where the form is right.
    """
    refusals = Refusals()
    kept = _sift(_without_features(_spelt(given, "-")), refusals)
    for duration in sorted(_DURATIONS & kept.keys()):
        with refusals.gathered():
            kept[duration] = _seconds(duration, kept.pop(duration))
    with refusals.gathered():
        sink_section(kept)
    config = _modelled(kept, refusals)
    if config is not None:
        with refusals.gathered():
            check_filter(config.filter, case_sensitive=config.case_sensitive)
        with refusals.gathered():
            OnlineDdl(config)
        with refusals.gathered():
            CopiedTables(config)
        with refusals.gathered():
            read_dispatchers(config.sink.get("dispatchers", ()))
        with refusals.gathered():
            read_column_selectors(config.sink.get("column_selectors", ()))
    refusals.check()
    assert config is not None
    return config


def _modelled(kept: Mapping[str, Any], refusals: Refusals) -> FeedConfig | None:
    try:
        return FeedConfig.model_validate(_spelt(kept, "_"))
    except ValidationError as e:
        for error in e.errors(include_input=False, include_url=False, include_context=False):
            name = _place(error["loc"])
            if name == "sink":
                # Told already, in better words.
                continue
            with refusals.gathered():
                if error["type"] == "extra_forbidden":
                    raise _unknown(name) from None
                raise _invalid(name, error["msg"].removeprefix("Value error, ")) from None
    return None


def sink_section(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The ``sink`` section as it was written. Raises ConfigInvalid if it is no table."""
    section = given.get("sink")
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        raise ConfigInvalid("sink is not a table", object="sink", hint="write [sink]")
    return section


def _place(path: Sequence[str | int]) -> str:
    """``filter.event-filters[0].matcher``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else "." + part.replace("_", "-")
    return text.removeprefix(".")


def _spelt(value: Any, mark: str) -> Any:
    """All keys in one of the two spellings; a key without a value is as if not given."""
    if isinstance(value, Mapping):
        other = "_" if mark == "-" else "-"
        return {
            str(k).replace(other, mark): _spelt(v, mark) for k, v in value.items() if v is not None
        }
    if isinstance(value, list):
        return [_spelt(v, mark) for v in value]
    return value


def _seconds(name: str, value: Any) -> float:
    """Seconds as a number, or Go's text: ``30m``, ``1h30m``."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = _DURATION.match(value) if isinstance(value, str) and value else None
    if found is None:
        raise _invalid(name, "is not a duration such as 30m")
    hours, minutes, seconds = (float(g or 0) for g in found.groups())
    return hours * 3600 + minutes * 60 + seconds


def _invalid(name: str, what: str) -> ConfigInvalid:
    return ConfigInvalid(f"{name}: {what}", object=name, hint=f"correct {name}")


def _without_features(config: Mapping[str, Any]) -> dict[str, Any]:
    """All but what is below features that are explicitly switched off."""
    off: set[str] = set()
    for switch, values, about in _SWITCHES:
        section, _, key = switch.rpartition(".")
        found = config.get(section) if section else config
        if isinstance(found, Mapping) and key in found and found[key] in values:
            off |= about
    return {key: value for key, value in config.items() if key not in off}


def _sift(config: Mapping[str, Any], refusals: Refusals, path: str = "") -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{path}.{key}" if path else key
        if name in _SECTIONS and name != "sink" and isinstance(value, Mapping):
            below = _sift(value, refusals, name)
            if below:
                kept[key] = below
        elif name in _KEPT:
            kept[key] = value
        elif name in _LATER or path in _LATER:
            harmless = _LATER.get(name, ())
            with refusals.gathered():
                if _ANY not in harmless and value not in harmless:
                    raise _not_supported(name)
        elif path in _SECTIONS and path not in _KEPT:
            with refusals.gathered():
                raise _unknown(name)
        else:
            kept[key] = value
    return kept


def _not_supported(name: str) -> ConfigNotSupported:
    instead = _INSTEAD.get(name) or _INSTEAD.get(name.partition(".")[0])
    hint = f"remove {name}" + (f"; {instead}" if instead else "")
    return ConfigNotSupported(f"{name} is not supported yet", object=name, hint=hint)


def _unknown(name: str) -> ConfigUnknownKey:
    parent = name.rpartition(".")[0]
    rule = parent.startswith("filter.event-filters[")
    known = [_kebab(f) for f in FeedConfig.model_fields] + [*_LATER]
    known += [f"filter.{_kebab(f)}" for f in FilterConfig.model_fields]
    known += [f"{parent}.{_kebab(f)}" for f in EventFilterConfig.model_fields if rule]
    hint = did_you_mean(name, known) or f"remove {name}"
    return ConfigUnknownKey(f"{name} is not a configuration key", object=name, hint=hint)
