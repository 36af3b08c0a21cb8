"""Properties of the console."""

from __future__ import annotations

from pydantic import BaseModel, Field

from muster.actors.config.types import Bool, Int, Text

DEFAULT_CONSOLE_PORT = 9600


class ConsoleProperties(BaseModel):
    """A part of :class:`muster.actors.config.properties.MusterConfig`."""

    console_enable: Bool = Field(
        True,
        description="Whether the cluster has a console: a web page to which / of each gateway's HTTP port leads. It "
        "needs the extra muster-kafka[console], and an HTTP port that does not require a certificate of its clients.",
    )
    console_port: Int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port of the console, on the node that its actor is on. 0: a free one. none: 9600 if that is free, "
        "else a free one, which it keeps if its actor restarts.",
    )
    console_allowed_hosts: Text = Field(
        "",
        description="Names by which browsers reach the console and the HTTP ports, beside localhost, addresses and the "
        "names of their nodes: a list with commas. To other names, the console is not served, nor are records and "
        "changes to a browser without credentials: another site may have led it there (DNS rebinding).",
    )
