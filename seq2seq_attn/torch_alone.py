"""The program where typer is missing: `check`, which needs torch alone, and one line for everything else.

Those who write scorers install this package without its dependencies.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from seq2seq_attn.errors import UserError, needing

PROGRAM = "seq2seq-attn"


def main(arguments: Sequence[str], missing: ModuleNotFoundError) -> NoReturn:
    """Run the program on these arguments, without the module that is missing, and exit."""
    torchs = "Failed to initialize NumPy"  # a warning on import, also in the processes of the parts
    warnings.filterwarnings("ignore", torchs)
    os.environ.setdefault("PYTHONWARNINGS", f"ignore:{torchs}")
    try:
        code = _run(arguments, missing)
        sys.stdout.flush()
    except UserError as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nothing is written again at exit
        code = 141
    sys.exit(code)


def _run(arguments: Sequence[str], missing: ModuleNotFoundError) -> int:
    words = [each for each in arguments[1:] if each != "--json"]
    if list(arguments[:1]) != ["check"] or any(each.startswith("-") for each in words):
        with needing("the program, except for `check PART OPTION=VALUE --json`,"):
            raise missing
    with needing("check"):
        from seq2seq_attn.testing.command import run
    return run(words, as_json="--json" in arguments, answer=print)
