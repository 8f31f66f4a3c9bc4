"""Type names for the tensors that pass between the parts of this package, each with its shape.

    B sentences, S source positions, T queries (decoder steps or hypotheses of a beam)

To a type checker every name is a plain `Tensor`. If jaxtyping was imported first, as in the tests, a name carries its
shape, which is checked at every call. Otherwise jaxtyping is not needed and costs nothing.
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

    Query = Float[Tensor, "B T query"]  # decoder states
    Keys = Float[Tensor, "B S key"]  # compared with the query: encoder states
    Prepared = Float[Tensor, "B S ..."]  # computed from the keys by a scorer
    Values = Float[Tensor, "B S value"]  # summed under the weights
    IsToken = Bool[Tensor, "B S"]  # True on tokens, False on padding
    MayRead = Bool[Tensor, "... #S"]  # True where a query may read a position
    Bias = Float[Tensor, "... #S"]  # added to the scores
    Scores = Float[Tensor, "B T S"]  # any real number, or -inf: never read
    Weights = Float[Tensor, "B T S"]  # scores normalized over S
    Contexts = Float[Tensor, "B T value"]  # weighted sums of the values
    States = Float[Tensor, "B S state"]  # encoder states
    StateSummary = Float[Tensor, "B state"]  # the sentence as one vector, C
    ScoreRows = Float[Tensor, "*rows S"]
    TokenRows = Bool[Tensor, "*#rows S"]
    Steps = Int[Tensor, "B T"]  # number of earlier steps
