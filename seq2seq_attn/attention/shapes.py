"""Names for the tensors that pass between the parts of this package, each with its shape.

    B sentences, S source positions, T queries (decoder steps or hypotheses of a beam)

To a type checker every name is a plain `Tensor`. Where jaxtyping was imported first, as the tests do, a name
carries its shape and is checked at every call; nowhere else is jaxtyping needed or its cost paid.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING or "jaxtyping" not in sys.modules:
    from typing import TypeAlias

    Query: TypeAlias = Tensor
    Keys: TypeAlias = Tensor
    Prepared: TypeAlias = Tensor
    Values: TypeAlias = Tensor
    IsToken: TypeAlias = Tensor
    MayRead: TypeAlias = Tensor
    Bias: TypeAlias = Tensor
    Scores: TypeAlias = Tensor
    Weights: TypeAlias = Tensor
    Contexts: TypeAlias = Tensor
    States: TypeAlias = Tensor
    StateSummary: TypeAlias = Tensor
    ScoreRows: TypeAlias = Tensor
    TokenRows: TypeAlias = Tensor
    Steps: TypeAlias = Tensor
else:
    from jaxtyping import Bool, Float, Int

    Query = Float[Tensor, "B T query"]  # what asks: decoder states
    Keys = Float[Tensor, "B S key"]  # what is compared with the query: encoder states
    Prepared = Float[Tensor, "B S ..."]  # what a scorer computed of the keys
    Values = Float[Tensor, "B S value"]  # what is summed
    IsToken = Bool[Tensor, "B S"]  # True where a token is, False on padding
    MayRead = Bool[Tensor, "... #S"]  # True where a query may read a position
    Bias = Float[Tensor, "... #S"]  # added to the scores
    Scores = Float[Tensor, "B T S"]  # any real number, or -inf: never read
    Weights = Float[Tensor, "B T S"]  # scores normalised over S
    Contexts = Float[Tensor, "B T value"]  # sums of the values under the weights
    States = Float[Tensor, "B S state"]  # encoder states
    StateSummary = Float[Tensor, "B state"]  # the sentence as one vector, C
    ScoreRows = Float[Tensor, "*rows S"]
    TokenRows = Bool[Tensor, "*#rows S"]
    Steps = Int[Tensor, "B T"]  # how many steps came before
