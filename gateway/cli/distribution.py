"""Muster as pip knows it: ``muster-kafka``, because PyPI's ``muster`` is another project."""

from __future__ import annotations

from importlib import metadata

NAME = "muster-kafka"
_OTHER_PROJECT = "muster"


def installed_version() -> str | None:
    """Return None for a checkout that is not installed."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return None


def version_of_other_project() -> str | None:
    """Return the version of PyPI's ``muster``, whose files are among those of Muster. None if it is not installed."""
    try:
        found = metadata.distribution(_OTHER_PROJECT)
    except metadata.PackageNotFoundError:
        return None
    # Checkouts were installed by that name until 0.1.0, and have a command.
    return None if found.entry_points.select(name="muster") else found.version
