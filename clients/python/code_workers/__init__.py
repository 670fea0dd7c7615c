"""The typed client of code-workers: tasks, the files of sessions, and a sandbox for deepagents (`.deepagents`)."""

from .client import Client, Ran
from .errors import (
    CodeWorkersError,
    Conflict,
    Forbidden,
    Invalid,
    IsADirectory,
    NoSuchFile,
    NotADirectory,
    NotFound,
    PreconditionFailed,
    QuotaExceeded,
    ReadOnly,
    Refused,
    SessionBusy,
    TaskNotRun,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unreachable,
    WaitRanOut,
)
from .models import Event, Result, Task
from .sessions import Session

__all__ = [
    "Client",
    "CodeWorkersError",
    "Conflict",
    "Event",
    "Forbidden",
    "Invalid",
    "IsADirectory",
    "NoSuchFile",
    "NotADirectory",
    "NotFound",
    "PreconditionFailed",
    "QuotaExceeded",
    "Ran",
    "ReadOnly",
    "Refused",
    "Result",
    "Session",
    "SessionBusy",
    "Task",
    "TaskNotRun",
    "TooLarge",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "WaitRanOut",
]
