"""A few test sentences under every arm: the beam as a tree, and where each step looked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq_attn.analysis.watch import Edge, Watched
from seq2seq_attn.models.sentences import pad
from seq2seq_attn.results.examples import ArmReading, Found, Step
from seq2seq_attn.runs.data import TestSet
from seq2seq_attn.runs.model import TrainedModel
from seq2seq_attn.search.corpus import search
from seq2seq_attn.search.hypothesis import Hypothesis
from seq2seq_attn.text.vocabulary import EOS

BEAM_SIZE = 4  # a wider one fits no page; where a run translates greedily, this shows what it passed over
LENGTHS = (8, 15, 24)  # words of the sources that are shown


def shown_pairs(test_set: TestSet) -> list[int]:
    """The first pair that comes nearest to each of LENGTHS."""
    lengths = [len(line.split()) for line in test_set.pairs.source]
    return sorted({min(range(len(lengths)), key=lambda index: abs(lengths[index] - wanted)) for wanted in LENGTHS})


def read_pair(model: TrainedModel, arm: str, source: str, reference: str) -> ArmReading:
    """One pair under one model; the search is that of its configuration with a beam of BEAM_SIZE."""
    ids, target = model.source.encode(source), model.target.encode(reference)
    options = model.config.search.model_copy(update={"beam_size": BEAM_SIZE, "n_best": BEAM_SIZE})
    searched, forced = Watched(options.quantised(model.translator)), Watched(model.translator)
    hypotheses = search(searched, [ids], options, with_weights=True)[0]
    _force(forced, ids, target)

    paths = [searched.path(_predicted(hypothesis)) for hypothesis in hypotheses]
    on_a_path = {edge for path in paths for edge in path}
    edges = list(dict.fromkeys([*searched.tree(), *(path[-1] for path in paths)]))
    place = {edge: index for index, edge in enumerate(edges)}
    return ArmReading(
        arm=arm,
        seed=model.config.seed,
        beam_size=BEAM_SIZE,
        source=(*model.source.pieces(source), "</s>"),
        source_words=tuple(model.source.word_indices(source)),
        target_words=tuple(model.target.word_indices(reference)),
        norms=None if searched.norms is None else _rounded(searched.norms, 3),
        beam=tuple(_step(model, searched, edge, place.get(searched.before(edge)), edge in on_a_path) for edge in edges),
        hypotheses=tuple(
            Found(place[path[-1]], hypothesis.log_probability, hypothesis.score)
            for path, hypothesis in zip(paths, hypotheses, strict=True)
        ),
        reference=tuple(_step(model, forced, edge) for edge in forced.path(target)),
    )


def _force(watched: Watched, source: Sequence[int], target: Sequence[int]) -> None:
    """Takes the steps of a given translation one by one: only so are they seen."""
    device = next(watched.parameters()).device
    with torch.inference_mode():
        memory = watched.encode(pad([source], device))
        state = watched.start(memory)
        for token in (watched.start_token, *target[:-1]):
            state = watched.step(torch.tensor([token], device=device), state, memory).state


def _predicted(hypothesis: Hypothesis) -> list[int]:
    """Its tokens, with `</s>` unless it was cut at the maximum length."""
    is_closed = hypothesis.weights is not None and len(hypothesis.weights) > len(hypothesis.tokens)
    return [*hypothesis.tokens, *([EOS] if is_closed else [])]


def _step(model: TrainedModel, watched: Watched, edge: Edge, parent: int | None = None, is_kept: bool = True) -> Step:
    """What was read is kept for steps of what was found; of all others it would fill the page."""
    visit = watched.visits[edge.visit]
    has_read = is_kept and bool(visit.weights.any())
    (token,) = model.target.vocabulary.lookup_tokens([edge.token])
    return Step(
        token=token,
        log_probability=round(float(visit.log_probabilities[edge.token]), 4),
        parent=parent,
        weights=_rounded(visit.weights, 4) if has_read else None,
        scores=_rounded(visit.scores, 3) if has_read and visit.scores is not None else None,
    )


def _rounded(values: Tensor, digits: int) -> tuple[float, ...]:
    return tuple(round(value, digits) for value in values.tolist())
