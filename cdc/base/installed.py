"""Whether what is imported is what was installed: our top-level packages have everyday names."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

import cdc
from cdc.base.errors import InvalidError

PACKAGES = ("filter", "owner", "processor", "sink")
"""Those beside ``cdc``."""


class InstallationMixed(InvalidError):
    """A package of another project stands where one of ours should be."""

    code = "TG:ErrInstallationMixed"


def check(packages: Iterable[str] = PACKAGES) -> None:
    """Raise InstallationMixed unless all packages come from where ``cdc`` does."""
    home = Path(cdc.__file__).parent.parent
    for name in packages:
        spec = find_spec(name)
        found = Path(spec.origin).parent.parent if spec is not None and spec.origin else None
        if found != home:
            where = f"is that of {found}" if found else "is no package of ours"
            raise InstallationMixed(
                f"the package {name} {where}, and cdc is in {home}",
                object=name,
                hint="install tidegate into a virtual environment of its own, and run its cdc",
            )
