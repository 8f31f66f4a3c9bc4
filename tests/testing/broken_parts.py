"""Normalizers, windows and contexts with one defect each, and some sound ones."""

import torch
from torch import nn

from seq2seq_attn.attention import (
    Attention,
    AttentionSource,
    General,
    HistoryNormalizer,
    MeanContext,
    Normalizer,
    Softmax,
    Window,
)
from seq2seq_attn.attention.window import View


class Shares(Softmax):
    """A softmax as a user might write it; sound."""

    def normalize(self, scores):
        exponentials = (scores - scores.amax(dim=-1, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


class GivesPaddingWeight(Shares):
    def normalize(self, scores):
        return (super().normalize(scores) + 0.01) / 1.01


class SumsToLess(Shares):
    def normalize(self, scores):
        return 0.9 * super().normalize(scores)


class DeclaresItsSum(SumsToLess):
    sums_to_one = False


class OverflowsInExp(Normalizer):
    def normalize(self, scores):
        return scores.exp() / scores.exp().sum(dim=-1, keepdim=True)


class PrefersTheFirst(Shares):
    def normalize(self, scores):
        return super().normalize(scores - 0.1 * torch.arange(scores.shape[-1]))


class DeclaresPositions(PrefersTheFirst):
    permutation_equivariant = False


class MixesRows(Shares):
    def normalize(self, scores):
        return super().normalize(torch.where(scores.isfinite(), scores - scores.clamp(-9, 9).mean(dim=0), scores))


class LosesHalfItsGradient(Shares):
    def normalize(self, scores):
        weights = super().normalize(scores)
        return (weights + weights.detach()) / 2


class RoundsInHalfPrecision(Normalizer):
    def forward(self, scores, is_token=None):
        scores = scores if is_token is None else scores.masked_fill(~is_token, -torch.inf)
        return scores.softmax(dim=-1) if scores.dtype == torch.float32 else (2 * scores).softmax(dim=-1)

    def normalize(self, scores):
        return scores.softmax(dim=-1)


class ForgetsToMaskInTraining(Shares):
    def normalize(self, scores):
        return super().normalize(scores.clamp(min=-3) if self.training else scores)


class RemembersOnItself(Shares):
    last = None

    def normalize(self, scores):
        weights = super().normalize(scores)
        if self.last is not None and self.last.shape == weights.shape:
            weights = (weights + self.last) / 2
        self.last = weights.detach()
        return weights


class ReadsOnce(HistoryNormalizer):
    """Sound: positions that had weight get less in the next steps."""

    def start(self, scores):
        return scores.new_zeros(scores.shape)

    def normalize_after(self, scores, history):
        return (scores - history).softmax(dim=-1)

    def advance(self, history, weights):
        return history + weights


class ChangesItsHistory(ReadsOnce):
    def advance(self, history, weights):
        return history.add_(weights)


class MixesItsHypotheses(ReadsOnce):
    def advance(self, history, weights):
        return history + weights.mean(dim=1, keepdim=True)


class LastTokens(Window):
    """The last three tokens, with weights that decay from the last; sound."""

    def __init__(self, query_size: int) -> None:
        super().__init__(query_size)
        self.slope = nn.Linear(query_size, 1)

    def forward(self, query, is_token, steps):
        behind = is_token.flip(-1).cumsum(-1).flip(-1)  # 1 at the last token
        factor = torch.exp(-behind * self.slope(query).sigmoid())
        return View((is_token & (behind <= 3)).expand(factor.shape), factor)


class OpensPadding(LastTokens):
    def forward(self, query, is_token, steps):
        view = super().forward(query, is_token, steps)
        return view._replace(is_open=torch.ones_like(view.is_open))


class ClosesEverything(LastTokens):
    def forward(self, query, is_token, steps):
        view = super().forward(query, is_token, steps)
        return view._replace(is_open=view.is_open & (steps[..., None] < 100))


class CountsStepsUndeclared(LastTokens):
    def forward(self, query, is_token, steps):
        view = super().forward(query, is_token, steps)
        return view._replace(factor=view.factor / (1 + steps[..., None]))


class SubtractsWeights(LastTokens):
    def forward(self, query, is_token, steps):
        view = super().forward(query, is_token, steps)
        return view._replace(factor=-view.factor)


class FreezesItsSlope(LastTokens):
    def forward(self, query, is_token, steps):
        view = super().forward(query, is_token, steps)
        return view._replace(factor=view.factor.detach())


class Reads(Attention):
    """Attention as a user's context; sound."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(General(query_size, key_size))


class ReadsPadding(Reads):
    def prepare(self, keys, values=None, is_token=None):
        return super().prepare(keys, values)


class StepsDiffer(Reads):
    def forward(self, query, source, history=None):
        contexts, weights, *later = super().forward(query, source, history)
        return contexts if history is None else contexts / 2, weights, *later


class SelectsNothing(AttentionSource):
    def select(self, rows):
        return self


class ForgetsToSelect(Reads):
    def prepare(self, keys, values=None, is_token=None):
        return SelectsNothing(*super().prepare(keys, values, is_token))


class ChangesItsSource(Reads):
    def forward(self, query, source, history=None):
        source.values.mul_(0.5)
        return super().forward(query, source, history)


class DeniesItsQuery(Reads):
    reads_query = False


class WrongWidth(Reads):
    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__(query_size, key_size)
        self.value_size = 2 * key_size


class HalvesItsGradient(MeanContext):
    def read(self, values, is_token):
        return super().read((values + values.detach()) / 2, is_token)


class KeepsTheLastSentence(Reads):
    def prepare(self, keys, values=None, is_token=None):
        self.source = super().prepare(keys, values, is_token)
        return self.source

    def forward(self, query, source, history=None):
        return super().forward(query, self.source, history)


class IgnoresItsMask(Reads):
    def forward(self, query, source, history=None, *, may_read=None, **options):
        return super().forward(query, source, history, **options)


class IgnoresTheFuture(Reads):
    def forward(self, query, source, history=None, *, causal=False, **options):
        return super().forward(query, source, history, **options)


class IgnoresItsBias(Reads):
    def forward(self, query, source, history=None, *, bias=None, **options):
        closed = None if bias is None else torch.where(bias > -torch.inf, 0.0, -torch.inf)
        return super().forward(query, source, history, bias=closed, **options)


class CountsFromTheFirst(Reads):
    """Causal queries begin at the first position, not so that the last query is at the last one."""

    def forward(self, query, source, history=None, *, causal=False, **options):
        if causal:
            options["may_read"] = torch.ones(query.shape[1], source.values.shape[1], dtype=torch.bool).tril(1)
        return super().forward(query, source, history, **options)


class DoublesWithoutWeights(Reads):
    def forward(self, query, source, history=None, *, need_weights=True, **options):
        contexts, *others = super().forward(query, source, history, **options)
        return (contexts, *others) if need_weights else (2 * contexts, None, *others[1:])


class StartsAgain(Reads):
    def extend(self, source, keys, values=None, is_token=None):
        return self.prepare(keys, values, is_token)


class ReadsItsKeys(Reads):
    def prepare(self, keys, values=None, is_token=None):
        return super().prepare(keys, None, is_token)


class ReadsItsOwnPositionAlone(Reads):
    """Takes no masks but a causal one, of which a query reads the last position alone."""

    def forward(self, query, source, history=None, *, causal=False, need_weights=True):
        own = torch.eye(source.values.shape[1], dtype=torch.bool)[-query.shape[1] :] if causal else None
        return super().forward(query, source, history, may_read=own, need_weights=need_weights)


class CentersItsBias(Reads):
    """NaN where a bias is -inf."""

    def forward(self, query, source, history=None, *, bias=None, **options):
        contexts, weights, *later = super().forward(query, source, history, **options)
        if bias is None:
            return contexts, weights, *later
        weights = (weights.log() + bias - bias.mean(dim=-1, keepdim=True)).softmax(dim=-1)
        return torch.bmm(weights, source.values), weights, *later


class GivesUpOnInfinity(Reads):
    """All weights are 0 if a bias is -inf."""

    def forward(self, query, source, history=None, *, bias=None, **options):
        contexts, weights, *later = super().forward(query, source, history, bias=bias, **options)
        keeps = 1.0 if bias is None or bias.isfinite().all() else 0.0
        return keeps * contexts, keeps * weights, *later


class ReturnsThree(Reads):
    def forward(self, query, source, history=None, *, need_weights=True, **options):
        contexts, *others = super().forward(query, source, history, **options)
        return (contexts, *others) if need_weights else (contexts, None, None)


class AppendsNoPadding(Reads):
    def extend(self, source, keys, values=None, is_token=None):
        return source.append(self.prepare(keys, values, is_token))


class TakesCausalAlone(Reads):
    """Sound."""

    def prepare(self, keys, is_token=None):
        return super().prepare(keys, None, is_token)

    def forward(self, query, source, history=None, *, causal=False, need_weights=True):
        return super().forward(query, source, history, causal=causal, need_weights=need_weights)


class RefusesAll(Reads):
    """Sound: what it does not support is refused."""

    def prepare(self, keys, values=None, is_token=None):
        if values is not None:
            raise ValueError("RefusesAll takes no values")
        return super().prepare(keys, None, is_token)

    def extend(self, source, keys, values=None, is_token=None):
        raise ValueError("RefusesAll cannot append to a source")

    def forward(self, query, source, history=None, *, may_read=None, causal=False, bias=None, need_weights=True):
        if may_read is not None or causal or bias is not None:
            raise ValueError("RefusesAll takes no masks")
        return super().forward(query, source, history, need_weights=need_weights)
