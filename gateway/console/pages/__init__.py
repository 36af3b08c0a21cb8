"""The pages, a file each. They draw what ``model`` computed, and nothing else."""

from __future__ import annotations

from muster.gateway.console.pages import (
    analytics,
    attribution,
    cluster,
    faults,
    group,
    groups,
    login,
    overview,
    topic,
    topics,
)

PAGES = (
    overview.add_page,
    groups.add_page,
    group.add_page,
    topics.add_page,
    topic.add_page,
    cluster.add_page,
    faults.add_page,
    attribution.add_page,
    analytics.add_page,
    login.add_page,
)
"""Functions that add each page to the app."""
