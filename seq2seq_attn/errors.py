"""The exceptions that the command line reports in one line, and how a message shows a value."""

from __future__ import annotations

import os

SHOWN = 60  # characters of a value in a message


class UserError(Exception):
    """An error in the user's input: a file, a configuration or a command line.

    The message is one line with the place (file, line), the value, the rule and a remedy. The command line prints it
    and exits with `exit_code`.
    """

    exit_code = 2


class FailedError(UserError):
    """Correct input, but the work failed: the command line exits with code 1."""

    exit_code = 1


def shown(value: object) -> str:
    """The value as Python writes it, cut to `SHOWN` characters, for a message."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]}...{text[-1]}"


def file_of(error: OSError, otherwise: object) -> str:
    """The name of the file that an OSError is about, which may be bytes or missing; else `otherwise`."""
    name = error.filename
    return os.fsdecode(name) if name and isinstance(name, (str, bytes)) else str(name or otherwise)
