"""An encoder of several sources, whose states the decoder reads as those of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import nn

from seq2seq_attn.corpora.multi_source import Sources
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.embedding import DropoutConfig
from seq2seq_attn.models.encoder import Encoded, Encoder, EncoderConfig, Network, TokenEncoder, lowest


class MultiSourceEncoder(Encoder):
    """[h_1^1, ..., h_1^S1, h_2^1, ..., h_2^S2]: the states of source 1, then those of source 2, and so on.

    So one context reads all sources, and its weights are a distribution over all their tokens; in Zoph & Knight (2016)
    each source has an attention of its own. The forward half of the last state is that of the end of the last source,
    the backward half that of the beginning of the first; the summaries `mean` and `learned` are over all states.

    Args:
        encoders: One for each source; or one, which reads every source.

    Raises:
        UserError: Their states differ in size.
    """

    reads_as_states = False  # each source is read by itself

    def __init__(self, encoders: Sequence[TokenEncoder]) -> None:
        super().__init__()
        self.encoders = nn.ModuleList(encoders)
        shapes = [(each.state_size, each.directions) for each in encoders]
        if len(set(shapes)) > 1:
            raise UserError(
                f"model.encoder.encoders: states of {' and '.join(str(size) for size, _ in shapes)} numbers, in "
                f"{' and '.join(str(directions) for _, directions in shapes)} directions; all need the same of both"
            )
        ((self.state_size, self.directions),) = set(shapes)

    def forward(self, source: Sources) -> Encoded:
        found = [encoder(part).states for encoder, part in zip(cycle(self.encoders), source.parts(), strict=False)]
        places = source.places()[:, :, None].expand(-1, -1, self.state_size)
        return Encoded(torch.cat(found, dim=1).gather(1, places), source.is_token)


Encoders = Annotated[tuple[Network, ...], Field(min_length=1, max_length=16)]


class MultiSourceEncoderConfig(EncoderConfig):
    """`{kind: multi_source, encoders: [{kind: recurrent}, {kind: recurrent}]}`: one for each source, or one for all."""

    kind: Literal["multi_source"] = "multi_source"

    reads: ClassVar[type] = Sources

    encoders: Encoders  # one for each source; or one for all, which then have one vocabulary (source.shared)

    @property
    def max_positions(self) -> int | None:
        return lowest(*(config.max_positions for config in self.encoders))

    def build_embedding(self, source_size: Any, size: int, dropout: DropoutConfig) -> list[Any]:
        if len(self.encoders) not in (1, len(source_size)):
            raise UserError(
                f"model.encoder.encoders: {len(self.encoders)} encoders for {len(source_size)} sources; give one for "
                f"each, or one for all"
            )
        if len(self.encoders) == 1 and len(set(source_size)) > 1:
            raise UserError(
                "model.encoder.encoders: one encoder reads the words of one vocabulary; set source.shared=true, or "
                "give one for each source"
            )
        own = zip(self.encoders, source_size, strict=False)
        return [config.build_embedding(count, size, dropout) for config, count in own]

    def build(
        self, source_size: Any, embedding: Any, dropout: DropoutConfig, layer_norm: bool = False
    ) -> MultiSourceEncoder:
        own: Any = zip(self.encoders, source_size, embedding, strict=False)
        return MultiSourceEncoder([config.build(count, each, dropout, layer_norm) for config, count, each in own])
