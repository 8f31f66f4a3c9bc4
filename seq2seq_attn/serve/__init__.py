"""A REST server for trained models: translation, scores, alignments, attention, and decoding step by step; its page.

`settings` (here) and `requests.py` say what is accepted, `tasks.py` what is computed, `batches.py` which lines are
computed together, `guard.py` what holds for every request, `app.py` the endpoints, `pages.py` how they are
described, `server.py` the process. `frontend/` has the sources of the page, `page/` the page as built. The decoding
itself is that of the package: `Model` and `analysis/stepwise.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seq2seq_attn.errors import UserError
from seq2seq_attn.reading import iterate_lines

LOCAL = ("127.0.0.1", "localhost", "::1")
SMALL_WORK = 8192  # hypotheses x tokens of a request that does not wait for larger ones; a second at most on two cores


@dataclass(frozen=True)
class Settings:
    """How the server listens, and what it accepts."""

    host: str = LOCAL[0]
    port: int = 5000
    workers: int = 2  # threads that decode
    api_keys: frozenset[str] = frozenset()  # one of them is required in every request; empty: none is
    cors: tuple[str, ...] = ()  # origins whose pages may use the server
    insecure: bool = False  # whether hosts other than this machine may connect without a key
    max_body: int = 1 << 20  # bytes of a request
    max_lines: int = 128  # of a request
    max_tokens: int = 512  # of a line
    max_beam: int = 32  # hypotheses or samples of a line
    max_work: int = 1 << 18  # hypotheses x tokens of a request
    max_total_work: int = 1 << 20  # of all requests above SMALL_WORK together
    max_waiting: int = 512  # lines that wait for a worker
    max_requests: int = 512  # that are answered at once
    timeout: float = 60.0  # seconds for a request, from its first byte to the last of its answer
    grace: float = 2.0  # seconds in which running requests may end when the server stops

    def __post_init__(self) -> None:
        if self.host not in LOCAL and not self.api_keys and not self.insecure:
            raise UserError(
                f"host {self.host}: other machines could use the server without a key; give --api-key-file, or "
                f"--insecure to allow that"
            )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOCAL


def read_keys(path: Path) -> frozenset[str]:
    """The API keys in a file, one per line; blank lines and lines that start with # are skipped. UserError if none."""
    keys = frozenset(line.strip() for line in iterate_lines(path) if line.strip() and not line.startswith("#"))
    if not keys:
        raise UserError(f"{path}: no API key; write one per line")
    return keys
