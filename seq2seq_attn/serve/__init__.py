"""A REST server for trained models: translation, scores, alignments, attention, and decoding step by step; its page.

`settings` (here) and `requests.py` say what is accepted, `tasks.py` what is computed, `batches.py` which lines are
computed together, `guard.py` what holds for every request, `calls.py` what endpoints share, `endpoints.py` and
`libretranslate.py` what they answer, `documents.py` what of a text is translated, `pages.py` how they are described,
`app.py` the application, `server.py` the process. `frontend/` has the sources of the page, `page/` the page as
built. The decoding itself is that of the package: `Model` and `analysis/stepwise.py`.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, PositiveInt, model_validator

from seq2seq_attn.errors import UserError
from seq2seq_attn.files.reading import iterate_lines
from seq2seq_attn.strict import Strict

LOCAL = ("127.0.0.1", "localhost", "::1")
SMALL_WORK = 8192  # hypotheses x tokens of a request that does not wait for larger ones; a second at most on two cores


class ServeOptions(Strict):
    """Where a server listens, and what it accepts."""

    host: str = Field(default=LOCAL[0], description="The address to listen on; 0.0.0.0 for all.")
    port: int = Field(default=5000, ge=0, le=65535, description="The port; 0 for any that is free.")
    workers: PositiveInt = Field(default=2, description="Threads that decode, each one batch at a time.")
    cors: tuple[str, ...] = Field(
        default=(), description="Pages of this origin may use the server, as https://x.org. Repeatable."
    )
    insecure: bool = Field(default=False, description="Let other machines connect without a key.")
    max_lines: PositiveInt = Field(default=128, description="Lines of a request at most.")
    max_tokens: PositiveInt = Field(default=512, description="Tokens of a line at most.")
    max_beam: PositiveInt = Field(default=32, description="Hypotheses or samples of a line at most.")
    max_body: PositiveInt = Field(default=1 << 20, description="Bytes of a request at most.")
    max_waiting: PositiveInt = Field(default=512, description="Lines that wait at most; with more: 429.")
    max_work: PositiveInt = Field(default=1 << 18, description="Hypotheses x tokens of a request at most.")
    max_total_work: PositiveInt = Field(
        default=1 << 20,
        description="Hypotheses x tokens of all large requests together at most; with more: 429.",
    )
    timeout: float = Field(default=60.0, ge=0.1, description="Seconds for a request at most.")
    grace: float = Field(default=2.0, ge=0.0, description="Seconds for running requests when the server stops.")


class Settings(ServeOptions):
    """The same with its keys, and with what no option says."""

    api_keys: frozenset[str] = frozenset()  # one of them is required in every request; empty: none is
    max_requests: PositiveInt = 512  # that are answered at once

    @model_validator(mode="after")
    def _others_need_a_key(self) -> Settings:
        if not (self.is_local or self.api_keys or self.insecure):
            raise UserError(
                f"host {self.host}: other machines could use the server without a key; give --api-key-file, or "
                f"--insecure to allow that"
            )
        return self

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
