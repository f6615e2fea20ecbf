"""Jars of peers, by Maven and against a list of sums, in the cache of servers."""

from __future__ import annotations

from pathlib import Path

from tests.servers import cache, maven


def fetch(name: str, pom: Path) -> Path:
    """Return the folder of the jars that ``pom`` names, fetched if they are not in the cache."""
    place = cache.root() / "servers" / name / maven.sha256(pom)[:12]
    print(f"{name}: fetching ...") if not place.exists() else None
    return cache.entry(place, lambda base: maven.unpack_jars(name, pom, base)) / "lib"
