"""The program where typer is missing: `check`, which needs torch alone, and one line for everything else.

Those who write scorers install this package without its dependencies. `check` has the arguments that it has in
`cli/check.py`, except for options of a part.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from seq2seq_attn.errors import UserError, needing

PROGRAM = "seq2seq-attn"


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see {self.prog} --help)")


def parser() -> argparse.ArgumentParser:
    """The command line of `check`."""
    made = _Parser(f"{PROGRAM} check", description="Check attention parts against the laws of attention.")
    made.add_argument("parts", nargs="+", metavar="PART", help="my_scorer.py:MyScorer, package.module:MyScorer or dot")
    made.add_argument("--query-size", type=int, help="size of a query; default: 16")
    made.add_argument("--key-size", type=int, help="size of a key; default: 24, or the query size")
    made.add_argument("--timeout", type=float, default=600.0, help="seconds per part")
    made.add_argument("--json", action="store_true", help="print JSON instead of text")
    return made


def main(arguments: Sequence[str], missing: ModuleNotFoundError) -> NoReturn:
    """Run the program on these arguments, without the module that is missing, and exit."""
    torchs = "Failed to initialize NumPy"  # a warning on import, also in the processes of the parts
    warnings.filterwarnings("ignore", torchs)
    os.environ.setdefault("PYTHONWARNINGS", f"ignore:{torchs}")
    try:
        code = _run(arguments, missing)
        sys.stdout.flush()
    except UserError as error:
        print(f"{PROGRAM}: {' '.join(str(error).split())}", file=sys.stderr)
        code = error.exit_code
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that nothing is written again at exit
        code = 141
    sys.exit(code)


def _run(arguments: Sequence[str], missing: ModuleNotFoundError) -> int:
    if list(arguments[:1]) != ["check"]:
        with needing("the program, except for its command check,"):
            raise missing
    given = parser().parse_args(arguments[1:])
    with needing("check"):
        from seq2seq_attn.testing.command import run
    return run(
        given.parts,
        given.query_size,
        given.key_size,
        timeout=given.timeout,
        as_json=given.json,
        answer=print,
    )
