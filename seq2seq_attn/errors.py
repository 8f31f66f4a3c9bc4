"""The exceptions that the command line reports in one line, and how a message shows a value."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, requires

SHOWN = 60  # characters of a value in a message
MAX_MESSAGE = 2000  # characters; longer ones quote what a file contains
COMPARED = 200  # characters of a name: difflib takes quadratic time, and no known name is as long

_LINE_ENDS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")  # those of `str.splitlines`
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")  # a terminal may obey them


class UserError(Exception):
    """An error in the user's input: a file, a configuration or a command line.

    The message is one line with the place (file, line), the value, the rule and a remedy, whatever it quotes. The
    command line prints it and exits with `exit_code`.
    """

    exit_code = 2

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class FailedError(UserError):
    """Correct input, but the work failed: the command line exits with code 1."""

    exit_code = 1


def one_line(message: str) -> str:
    """The message on one line, without control characters, and cut in its middle to `MAX_MESSAGE` characters."""
    line = _LINE_ENDS.sub(" ", message.strip())
    line = _CONTROLS.sub(lambda found: repr(found[0])[1:-1], line)
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 500]} ... {line[-495:]}"


def shown(value: object) -> str:
    """The value as Python writes it, cut to `SHOWN` characters, for a message."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 4]}...{text[-1]}"


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean 'x'?`, where x is the known name that is most like this one; `otherwise` if none is like it."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else otherwise


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one; "" if none is like it."""
    found = difflib.get_close_matches(name[:COMPARED], known, n=1, cutoff=0.5)
    return found[0] if found else ""


def file_of(error: OSError, otherwise: object) -> str:
    """The name of the file that an OSError is about, which may be bytes or missing; else `otherwise`."""
    name = error.filename
    return os.fsdecode(name) if name and isinstance(name, (str, bytes)) else str(name or otherwise)


@contextmanager
def needing(what: str) -> Iterator[None]:
    """UserError with the command that installs it, if the block imports a dependency that is not installed.

    Those who write scorers install this package without its dependencies, next to torch, so any of them may be missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        hint = how_to_install(error)
        if hint is None:
            raise
        raise UserError(f"{what} needs {hint}") from None


def how_to_install(error: ModuleNotFoundError) -> str | None:
    """The missing module, and the command that installs it; None if it is not a dependency of this package."""
    module = str(error.name).partition(".")[0]
    if module == __package__:
        return None
    try:
        declared = requires("seq2seq_attn") or []
    except PackageNotFoundError:  # a clone that is not installed; what it lacks can only be a dependency
        declared = [module]
    for line in declared:
        name = re.split(r"[^\w.-]", line)[0].lower().replace("-", "_")
        if module == {"pyyaml": "yaml"}.get(name, name):
            extra = re.search(r"extra == ['\"](\w+)['\"]", line)
            part = f"[{extra[1]}]" if extra else ""
            return f"{module}, which is not installed: pip install 'seq2seq_attn{part}' (in a clone: '.{part}')"
    return None
