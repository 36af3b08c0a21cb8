"""The errors of the Python API. The message of each is for its user: the problem, and its remedy."""

from __future__ import annotations


class MusterError(Exception):
    """Base class of all errors that Muster's Python API raises on purpose."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class InvalidClientConfig(MusterError):
    """A property file, or a value for a client, that cannot be used."""


class NoResponse(MusterError):
    """No timely response, or none but that it may come later."""

    def __init__(self, who: str, why: str, does: str = "does not respond", hint: str = "") -> None:
        super().__init__(f"the {who} {does} ({why}){hint}")
        self.why = why


class LoginFailed(MusterError):
    """A broker refuses the login, or does not take its mechanism."""


class NotStarted(MusterError):
    """Muster did not become ready; the message has the end of its output."""


class AlreadyRunning(MusterError):
    """Another Muster runs on that Ray, with another storage directory."""


class NotRunning(MusterError):
    """No Muster was found, or none that can be stopped from here."""


class TopicDiffers(MusterError):
    """A topic of that name exists, with another number of partitions or another config."""


class UnknownTopic(MusterError):
    """There is no such topic, or the login may not see it."""


class UnknownGroup(MusterError):
    """There is no such group."""
