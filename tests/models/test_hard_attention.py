"""Hard attention against the sum over all alignments, one by one, and the laws that every model satisfies."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from plain_recipe import NO_DROPOUT, constant

from seq2seq_attn import ops
from seq2seq_attn.analysis.interventions import intervene
from seq2seq_attn.analysis.step_interventions import Intervention, check_interventions
from seq2seq_attn.attention.contexts.counterfactual import uniform
from seq2seq_attn.corpora.source import Tokens, pad
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.ensemble import Ensemble
from seq2seq_attn.models.head import Head
from seq2seq_attn.models.intervened import IntervenedModel
from seq2seq_attn.models.recurrent.config import RecurrentConfig
from seq2seq_attn.search import SearchOptions, beam_search, force, greedy_search
from seq2seq_attn.training.batches import Batch
from seq2seq_attn.training.config import TrainingConfig
from seq2seq_attn.training.loss import token_loss, training_loss

SOURCE, TARGET = pad([[4, 5, 6, 3], [7, 8, 3]]), pad([[5, 4, 3], [4, 3]])
EOS, HIDDEN, BOTH = 3, 6, ["softmax", "monotonic_softmax"]
CONTEXTS = [
    {},
    {"normalizer": "monotonic_softmax"},
    {"scorer": "general", "normalizer": "sparsemax", "separate_values": True},
    {"scorer": {"name": "location_aware", "kernel_width": 3}, "normalizer": "monotonic_softmax"},
    {"scorer": "linguistic_coverage", "window": "local_p"},
    {"scorer": "general", "window": {"name": "local_m", "half_width": 1}, "normalizer": "monotonic_softmax"},
]


def make(context=None, words=7, seed=7, **decoder):
    torch.manual_seed(seed)
    values = {
        "embedding_size": 3,
        "encoder": {"hidden_size": 4},
        "decoder": {"kind": "hard", "hidden_size": HIDDEN, **decoder},
        "context": context or {},
        "dropout": NO_DROPOUT,
    }
    model = RecurrentConfig.model_validate(values).build(11, words, joint=False).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def alignment_by_alignment(model, source, target, is_monotonic):
    """log p(target | source) of lists of ids, by the equations of a GRU and of additive attention."""
    p = dict(model.named_parameters())

    def linear(name, x):
        return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))

    states = model.encoder(pad([source])).states[0]
    hidden = torch.tanh(linear("initial", torch.cat([states[-1, :4], states[0, 4:]])))
    scores, emissions = [], []
    for previous in [2, *target[:-1]]:
        gates, recurrent = (
            linear(name, x).chunk(3)
            for name, x in (
                ("decoder.from_token", p["target_embedding.table.weight"][previous]),
                ("decoder.cell.recurrent", hidden),
            )
        )
        reset, update = (torch.sigmoid(gates[g] + recurrent[g]) for g in (0, 1))
        hidden = (1 - update) * torch.tanh(gates[2] + reset * recurrent[2]) + update * hidden
        scorer = "decoder.context.scorer"
        query, keys = linear(f"{scorer}.query_layer", hidden), linear(f"{scorer}.key_layer", states)
        scores.append(torch.tanh(query + keys) @ p[f"{scorer}.v"])
        read = torch.tanh(linear("decoder.from_value", states) + linear("decoder.from_hidden", hidden))
        emissions.append(linear("emission.projection", read).softmax(dim=1))
    total = torch.zeros((), dtype=torch.double)
    for alignment in itertools.product(range(len(source)), repeat=len(target)):
        probability, before = torch.ones((), dtype=torch.double), 0
        for i, j in enumerate(alignment):
            if is_monotonic and j < before:
                probability = probability * 0
                break
            first = before if is_monotonic else 0
            probability = probability * scores[i][first:].softmax(dim=0)[j - first] * emissions[i][j, target[i]]
            before = j
        total = total + probability
    return total.log()


@pytest.mark.parametrize("normalizer", BOTH)
def test_the_likelihood_and_its_gradients_are_those_of_the_sum_over_all_alignments(normalizer):
    model = make({"normalizer": normalizer})
    pairs = [([4, 5, 6, 3], [5, 4, 3]), ([7, 8, 3], [4, 3])]
    expected = torch.stack([alignment_by_alignment(model, *pair, normalizer != "softmax") for pair in pairs])
    found = force(model, SOURCE, TARGET)
    assert [each.total for each in found] == pytest.approx(expected.tolist(), rel=0, abs=1e-9)
    gradients = torch.autograd.grad(-expected.sum(), list(model.parameters()))
    ours = torch.autograd.grad(token_loss(model, Batch(SOURCE, TARGET)).total, list(model.parameters()))
    for one, other in zip(ours, gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("context", "readout"), list(zip(CONTEXTS, itertools.cycle(["plain", "deep", "deep", "plain"]), strict=False))
)
def test_steps_equal_teacher_forcing_for_hypotheses_that_swap_rows(context, readout):
    model = make(context, readout=readout)
    memory, tokens = model.encode(SOURCE), torch.randint(4, 7, (4, 2, 2))  # step, sentence, hypothesis
    tokens[0] = model.start_token
    parents = torch.tensor([[[1, 0], [0, 0]], [[0, 1], [1, 0]], [[1, 1], [0, 1]]])
    state, inputs = model.start(memory).select(torch.tensor([0, 0, 1, 1])), tokens[0][..., None]
    for i in range(4):
        step = model.step(tokens[i].flatten(), state, memory)
        for k in range(2):
            decoded = model.decode(inputs[:, k], memory)
            torch.testing.assert_close(step.logits.view(2, 2, -1)[:, k], decoded.features[:, -1])
            torch.testing.assert_close(step.weights.view(2, 2, -1)[:, k], decoded.weights[:, -1])
        if i < 3:
            state = step.state.select((torch.tensor([[0], [2]]) + parents[i]).flatten())
            inputs = torch.cat((inputs.take_along_dim(parents[i][..., None], 1), tokens[i + 1][..., None]), dim=-1)


@pytest.mark.parametrize("context", CONTEXTS)
def test_probabilities_sum_to_1_and_padding_and_order_change_nothing(context):
    model, order = make(context), torch.tensor([1, 0])
    logits = model(SOURCE, TARGET)
    torch.testing.assert_close(model.head.log_probabilities(*_reads(model)).exp().sum(dim=1), torch.ones(5).double())
    wider = Tokens(F.pad(SOURCE.tokens, (0, 3), value=10)[order], SOURCE.lengths[order])
    longer = Tokens(F.pad(TARGET.tokens, (0, 2), value=6)[order], TARGET.lengths[order])
    torch.testing.assert_close(model(wider, longer)[:, :3], logits[order])


def _reads(model):
    memory = model.encode(SOURCE)
    return model.reads(model.decode(model.decoder_inputs(TARGET), memory), memory, TARGET.placed[0])


@pytest.mark.parametrize("normalizer", BOTH)
def test_a_beam_as_wide_as_the_space_equals_exhaustive_search_with_an_ensemble_as_well(normalizer):
    options = SearchOptions(beam_size=200, n_best=5, length_penalty=0.0, max_length=3, max_length_ratio=None)
    one, other = (make({"normalizer": normalizer}, words=6, seed=seed) for seed in (7, 8))
    words = [0, 4, 5]
    every = [[*start, EOS] for length in range(3) for start in itertools.product(words, repeat=length)]
    source = pad([[4, 5, 6, 3]])
    for model in (one, Ensemble([one, other])):
        totals = [each.total for each in force(model, _repeated(source, len(every)), pad(every))]
        best = sorted(zip(totals, every, strict=True), reverse=True)[:5]
        (found,) = beam_search(model, source, options)
        assert [[*each.tokens, EOS] for each in found] == [tokens for _, tokens in best]
        assert [each.log_probability for each in found] == pytest.approx([total for total, _ in best])
    (greedy,) = greedy_search(one, source, options)
    (narrow,) = beam_search(one, source, options.model_copy(update={"beam_size": 1, "n_best": 1}))
    assert narrow[0].tokens == greedy[0].tokens


def _repeated(source, times):
    return Tokens(source.tokens.expand(times, -1), source.lengths.expand(times))


@pytest.mark.parametrize("context", CONTEXTS[:4])
def test_fused_parts_and_bf16_give_the_same(context):
    model = make(context).float()
    with torch.no_grad():
        expected = model(SOURCE, TARGET)
        for form in (ops.fuse(model), ops.fuse(model, constant=True)):
            torch.testing.assert_close(form(SOURCE, TARGET), expected, rtol=1e-4, atol=1e-5)
            assert ops.unfused(form) is None
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(ops.fuse(model)(SOURCE, TARGET), expected, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("normalizer", BOTH)
def test_changed_weights_change_the_probabilities_of_positions_alone(normalizer):
    model = make({"normalizer": normalizer})
    inputs, copies = model.decoder_inputs(TARGET), torch.tensor([0, 1, 0, 1])
    memory = model.with_changed_weights([uniform]).encode(_both(SOURCE, copies))
    changed = model.with_changed_weights([uniform]).decode(inputs[copies], memory)
    own = model.decode(inputs, model.encode(SOURCE))
    torch.testing.assert_close(changed.features[:2], own.features)
    equal = SOURCE.is_token / SOURCE.lengths[:, None]
    torch.testing.assert_close(changed.weights[2:], equal[:, None].expand(-1, 3, -1).double())
    hidden = model.decoder.cell.output(
        model.decoder.cell.run(
            model.decoder.input_gates(model.target_embedding(inputs)).transpose(0, 1),
            model.start(model.encode(SOURCE)).decoder.hidden,
        )
    ).transpose(0, 1)
    read = model.decoder.at_each_position(hidden, model.encode(SOURCE).source.from_values)
    expected = (model.emission.projection(read).softmax(dim=-1) * equal[:, None, :, None]).sum(dim=2)
    torch.testing.assert_close(changed.features[2:].exp(), expected)


def _both(source, rows):
    return Tokens(source.tokens[rows], source.lengths[rows])


def test_interventions_that_leave_no_position_to_read_are_refused():
    opened = IntervenedModel(make())
    check_interventions([Intervention(replace="mean"), Intervention(replace="temperature", temperature=2)], opened, 4)
    nothing = {"replace": "weights", "weights": (0, 0, 0, 0)}
    for each in (nothing, {"replace": "nothing"}, {"replace": "sentence", "other": "a b"}):
        with pytest.raises(UserError, match=f"replace={each['replace']}"):
            check_interventions([Intervention(**each)], opened, 4)


def test_what_would_leave_no_position_to_read_is_not_done():
    """Sparse weights are often of one position: without it, nothing could be predicted."""
    model = make({"normalizer": "sparsemax", "window": {"name": "local_m", "half_width": 0}})
    pairs = [([4, 5, 6, EOS], [5, 4, EOS]), ([7, 8, EOS], [4, EOS])]
    found = intervene(model, pairs, {"erased": lambda weights, _: torch.zeros_like(weights)})
    effect = found.effects["erased"]
    assert (effect.log_probability, effect.total_variation) == (0, 0)
    assert effect.perplexity == pytest.approx(found.perplexity)


class _Copying(Head):
    needs_weights = True

    def forward(self, read, memory):
        raise NotImplementedError


@pytest.mark.parametrize(
    ("context", "place"),
    [
        ({"kind": "fixed"}, "kind=attention"),
        ({"kind": "mean"}, "kind=attention"),
        ({"heads": 2}, "heads=1"),
        ({"normalizer": "monotonic"}, "normalizer=softmax"),
        ({"normalizer": "sigmoid"}, "normalizer=softmax"),
        ({"normalizer": "monotonic_softmax", "window": {"name": "local_p", "half_width": 2}}, "window=local_m"),
    ],
)
def test_contexts_that_give_no_probabilities_of_positions_are_refused_in_one_line(context, place):
    with pytest.raises(UserError, match=rf"model\.decoder\.kind=hard .*{place}") as error:
        make(context)
    assert "\n" not in str(error.value)


def test_heads_that_read_the_source_and_shortlists_are_refused_in_one_line(monkeypatch):
    with pytest.raises(UserError, match=r"search\.shortlist"):
        make().with_outputs(torch.tensor([0, 1, 3, 4]))
    monkeypatch.setattr(RecurrentConfig, "build_head", lambda *_: _Copying())
    with pytest.raises(UserError, match=r"model\.decoder\.kind=hard needs a head .*_Copying"):
        make()


@pytest.mark.parametrize(("normalizer", "r_drop"), [("softmax", 0.1), ("monotonic_softmax", 0.0)])
def test_a_monotonic_task_is_learned_with_label_smoothing_and_r_drop(normalizer, r_drop):
    """Letters are copied, and 5 is doubled; every fifth of the 64 strings of 3 of 4 letters is held out."""
    sources = [[*letters, EOS] for letters in itertools.product(range(4, 8), repeat=3)]
    targets = [[each for letter in source for each in [letter] * (1 + (letter == 5))] for source in sources]
    options = TrainingConfig.model_validate({"label_smoothing": 0.1, "r_drop": r_drop, **constant(0.02)})
    torch.manual_seed(2)
    values = {
        "embedding_size": 8,
        "encoder": {"hidden_size": 8},
        "decoder": {"kind": "hard", "hidden_size": 12},
        "context": {"normalizer": normalizer},
        "dropout": NO_DROPOUT | {"readout": 0.1},
    }
    model = RecurrentConfig.model_validate(values).build(8, 8, joint=False)
    fused, optimizer = ops.fuse(model), torch.optim.Adam(model.parameters(), lr=0.03)
    kept = [i for i in range(64) if i % 5 != 2]
    batch = Batch(pad([sources[i] for i in kept]), pad([targets[i] for i in kept]))
    for _ in range(50):
        optimizer.zero_grad()
        loss = training_loss(fused, batch, options)
        (loss.total / loss.tokens).backward()
        optimizer.step()
    found = beam_search(model.eval(), pad(sources[2::5]), SearchOptions(beam_size=2))
    right = [[*best[0].tokens, EOS] == target for best, target in zip(found, targets[2::5], strict=True)]
    assert sum(right) >= 12
