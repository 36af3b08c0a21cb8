"""The errors of the Python API. The message of each is for its user: the problem, and its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class MusterError(Exception):
    """Base class of all errors that Muster's Python API raises on purpose. They pickle."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it whatever the arguments of its class are: Ray sends errors from tasks to their caller."""
        return rebuilt, (type(self), self.args, self.__dict__)


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


class OffsetOutOfRange(MusterError):
    """Records of the range were deleted before they could be read, by retention or by DeleteRecords."""


class CorruptRecords(MusterError):
    """A response has records that cannot be read."""


class GroupHasMembers(MusterError):
    """The group has members, whose commits and those of a batch would undo each other."""


class Fenced(MusterError):
    """A newer driver of the group has begun a batch; this one cannot commit any more."""


class RayClientUnsupported(MusterError):
    """The program is connected by Ray Client, over which Ray Data does not run."""


class OutputTooLarge(MusterError):
    """The output of a batch is larger than the driver may hold."""


class RecordTooLarge(MusterError):
    """A record is larger than ``max.message.bytes`` of its topic."""


class InvalidRunState(MusterError):
    """The file by which a storage directory's cluster is found is damaged."""


def rebuilt(kind: type[MusterError], arguments: tuple[Any, ...], state: Mapping[str, Any]) -> MusterError:
    """Return an error of another process, whatever arguments the constructor of its kind takes."""
    error = kind.__new__(kind, *arguments)
    error.__dict__.update(state)
    return error


class InvalidScaling(MusterError):
    """Bounds, times or addresses with which a group cannot be scaled."""


class InvalidConsumer(MusterError):
    """Arguments with which a pool or a deployment cannot consume."""


class HandlerFailed(MusterError):
    """A record could not be handled, and there is no topic for dead letters."""


class ConsumerEnded(MusterError):
    """A deployment no longer consumes; its replica is to be replaced."""


class PoolExists(MusterError):
    """A pool of that name is running."""


class PoolNotFound(MusterError):
    """There is no pool of that name on this Ray."""


class PoolFailed(MusterError):
    """The pool has stopped, as a record could not be handled."""
