"""The recurrent translator satisfies the interface's laws with every decoder, cell and context."""

import itertools

import numpy as np
import pytest
import torch
from confirmed_searches import assert_forced_decoding_confirms_searches
from torch import nn

from seq2seq_attn import ops
from seq2seq_attn.corpora.source import Tokens
from seq2seq_attn.errors import UserError
from seq2seq_attn.models.recurrent.config import RecurrentConfig

SOURCE_WORDS, TARGET_WORDS = 17, 13
DRAW = torch.Generator().manual_seed(3)
SOURCE = Tokens(torch.randint(4, SOURCE_WORDS, (3, 6), generator=DRAW), torch.tensor([6, 4, 2]))
TARGET = Tokens(torch.randint(4, TARGET_WORDS, (3, 5), generator=DRAW), torch.tensor([5, 3, 4]))

DECODERS = [
    {"kind": "bahdanau"},
    {"kind": "luong", "input_feeding": True},
    {"kind": "luong", "input_feeding": False, "readout": "plain"},
    {"kind": "conditional"},
    {"kind": "conditional", "transitions": 3},
]
CONTEXTS = [
    {"kind": "attention"},
    {"kind": "attention", "scorer": "general"},
    {"kind": "mean"},
    {"kind": "fixed"},
    {"kind": "none"},
]
HISTORY_DEPENDENT = [  # the scorer, normalizer, window or chunk depends on earlier steps
    {"scorer": {"name": "location_aware", "kernel_width": 3}, "heads": 11},
    {"scorer": "linguistic_coverage"},
    {"scorer": {"name": "neural_coverage", "coverage_size": 3}},
    {"scorer": {"name": "relative", "scorer": {"name": "additive", "hidden_size": 4}, "max_distance": 2}},
    {"scorer": "general", "window": {"name": "local_m", "half_width": 1}},
    {"scorer": "general", "window": "random_token"},
    {"scorer": "linguistic_coverage", "window": {"name": "local_p", "half_width": 2}},
    {"scorer": "general", "normalizer": "shuffled"},
    {"normalizer": {"name": "monotonic", "noise": 0}},
    {"normalizer": {"name": "monotonic", "noise": 0}, "chunk": {"size": 2, "scorer": "location_aware"}},
]


NO_DROPOUT = {"embedding": 0, "state": 0, "readout": 0}


def make(decoder=DECODERS[0], context=CONTEXTS[0], joint=False, dropout=NO_DROPOUT, **changes):
    torch.manual_seed(7)
    values = {
        "embedding_size": 7,
        "encoder": {"hidden_size": 5},
        "decoder": {"hidden_size": 11, **decoder},
        "context": context,
        "dropout": NO_DROPOUT | dropout,
    }
    config = RecurrentConfig.model_validate({**values, **changes})
    return config.build(SOURCE_WORDS, TARGET_WORDS, joint).double().eval()


EVERY_CONTEXT = CONTEXTS + HISTORY_DEPENDENT
ALL_ARMS = list(itertools.product(DECODERS, EVERY_CONTEXT))
# By default, each context with one decoder, taken in turn.
SOME_ARMS = list(zip(itertools.cycle(DECODERS), EVERY_CONTEXT, strict=False))
ARMS = [pytest.param(*arm, marks=() if arm in SOME_ARMS else pytest.mark.slow) for arm in ALL_ARMS]


@pytest.mark.parametrize(("decoder", "context"), ARMS)
def test_steps_equal_teacher_forcing(decoder, context):
    assert_steps_equal_teacher_forcing(make(decoder, context))


def is_possible(decoder, cell):
    """Whether a decoder may have a cell: a deep transition needs one that multiplies its state."""
    return not (cell in ("mingru", "sru") and "transitions" in decoder)


@pytest.mark.parametrize(
    ("cell", "decoder", "context"),
    [
        pytest.param(cell, *arm, marks=() if arm in SOME_ARMS else pytest.mark.slow)
        for cell in ("lstm", "rnn", "mingru", "sru")
        for arm in itertools.product(DECODERS, CONTEXTS)
        if is_possible(arm[0], cell)
    ],
)
def test_steps_equal_teacher_forcing_with_every_cell(cell, decoder, context):
    encoder, layer_norm = {"hidden_size": 5, "cell": cell}, cell in ("lstm", "sru")
    assert_steps_equal_teacher_forcing(make({**decoder, "cell": cell}, context, encoder=encoder, layer_norm=layer_norm))


@pytest.mark.parametrize(
    ("decoder", "context"), list(zip((DECODERS[2], DECODERS[0]), HISTORY_DEPENDENT[-2:], strict=True))
)
def test_steps_equal_teacher_forcing_in_training_mode_which_differs_for_monotonic_attention(decoder, context):
    model = make(decoder, context)
    in_evaluation = model(SOURCE, TARGET)
    assert_steps_equal_teacher_forcing(model.train())
    assert not torch.allclose(model(SOURCE, TARGET), in_evaluation)


def assert_steps_equal_teacher_forcing(model):
    memory = model.encode(SOURCE)
    inputs, state = model.decoder_inputs(TARGET), model.start(memory)
    logits, weights = model(SOURCE, TARGET), model.decode(inputs, memory).weights
    for i in range(inputs.shape[1]):
        step = model.step(inputs[:, i], state, memory)
        torch.testing.assert_close(step.logits, logits[:, i])
        torch.testing.assert_close(step.weights, weights[:, i])
        state = step.state


@pytest.mark.parametrize(("decoder", "context"), ARMS)
def test_hypotheses_that_swap_rows_in_a_beam_predict_as_each_would_alone(decoder, context):
    model = make(decoder, context)
    memory = model.encode(SOURCE)
    tokens = torch.randint(4, TARGET_WORDS, (4, 3, 2), generator=torch.Generator().manual_seed(5))  # step, sentence, k
    parents = torch.tensor([[[0, 0], [1, 0], [1, 1]], [[1, 0], [0, 0], [0, 1]], [[0, 1], [1, 1], [1, 0]]])
    state = model.start(memory).select(torch.arange(3).repeat_interleave(2))
    prefixes = tokens[0][..., None]  # (sentence, k, step)
    for step in range(4):
        together = model.step(tokens[step].flatten(), state, memory)
        if step < 3:
            state = together.state.select((torch.arange(3)[:, None] * 2 + parents[step]).flatten())
            continued = torch.take_along_dim(prefixes, parents[step][..., None], dim=1)
            prefixes = torch.cat((continued, tokens[step + 1][..., None]), dim=-1)
    for k in range(2):
        alone = model.head.projection(model.decode(prefixes[:, k], memory).features[:, -1])
        torch.testing.assert_close(together.logits.view(3, 2, -1)[:, k], alone)


@pytest.mark.parametrize(("decoder", "context"), ARMS)
def test_more_padding_and_a_permuted_batch_change_nothing(decoder, context):
    model = make(decoder, context)
    order = torch.tensor([2, 0, 1])
    wider = Tokens(torch.cat((SOURCE.tokens, torch.full((3, 4), 16)), dim=1)[order], SOURCE.lengths[order])
    longer = Tokens(torch.cat((TARGET.tokens, torch.full((3, 2), 12)), dim=1)[order], TARGET.lengths[order])
    torch.testing.assert_close(model(wider, longer)[:, :5], model(SOURCE, TARGET)[order])


@pytest.mark.parametrize(("decoder", "context"), ARMS)
def test_running_all_steps_in_one_call_equals_the_loop(decoder, context):
    model = make(decoder, context)
    memory = model.encode(SOURCE)
    gates = model.decoder.input_gates(model.target_embedding(model.decoder_inputs(TARGET).t()))
    fast = ops.fuse(model).decoder.run(gates, model.start(memory), memory.source.prepared)
    loop = model.decoder.run(gates, model.start(memory), memory.source.prepared)
    for got, expected in zip(fast, loop, strict=True):
        torch.testing.assert_close(got, expected)


def draw_norms(module):
    """Gains other than 1 and biases other than 0 for all layer normalizations, and another epsilon."""
    for norm in module.modules():
        if isinstance(norm, nn.LayerNorm):
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)
            norm.eps = 0.1


FUSED_SCORERS = ["additive", "normalized_additive", "concat", "dot", "scaled_dot", "general"]


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize(
    ("decoder", "context", "layer_norm"),
    [
        *itertools.product([DECODERS[2]], [CONTEXTS[0]], [False, True]),
        *itertools.product([DECODERS[0]], [{"kind": "fixed"}], [False, True]),
        *(
            pytest.param(
                DECODERS[each],
                {"kind": "attention", "scorer": scorer},
                layer_norm,
                marks=() if scorer == "additive" or turn % 3 == number % 3 else pytest.mark.slow,
            )
            for (turn, each), (number, scorer) in itertools.product(enumerate((0, 1, 3)), enumerate(FUSED_SCORERS))
            for layer_norm in ([False, True] if scorer in ("additive", "dot") else [False])
        ),
    ],
)
def test_gradients_of_all_steps_in_one_call_equal_those_of_the_loop(decoder, context, layer_norm):
    model = make({**decoder, "hidden_size": 10}, context, layer_norm=layer_norm).float()
    draw_norms(model.decoder)
    assert ops.reasons(model) == {}

    def gradients(model):
        model.zero_grad()
        decoded = model.decode(model.decoder_inputs(TARGET), model.encode(SOURCE))
        # The loss also depends on the weights, as with supervised attention.
        (model.head.projection(decoded.features).square().sum() + decoded.weights.square().sum()).backward()
        return {name: p.grad for name, p in model.named_parameters()}

    fast, loop = gradients(ops.fuse(model)), gradients(model)
    for name, gradient in loop.items():
        if name.endswith("scorer.offset"):  # to which softmax is invariant
            assert fast[name] is None
            assert gradient.abs() < 1e-5
        else:
            torch.testing.assert_close(fast[name], gradient, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("decoder", [DECODERS[0], DECODERS[1], DECODERS[3]], ids=lambda decoder: decoder["kind"])
def test_masks_that_are_views_are_read_as_they_are(decoder):
    """Transposed, cut from a wider one, expanded: kernels read the rows of a mask one after the other."""
    model = make(decoder).float().decoder
    keys, hidden, gates = torch.randn(3, 4, 10), torch.randn(3, 11), torch.randn(5, 3, 33)
    tokens = torch.tensor([[True, True, True, True], [True, True, True, False], [True, False, False, False]])
    for mask in (tokens.t().contiguous().t(), torch.cat((tokens, ~tokens), dim=1)[:, :4], tokens[1].expand(3, 4)):
        assert not mask.is_contiguous()

        def weights(decoder, mask=mask):
            source = decoder.context.prepare(keys, is_token=mask)
            return decoder.run(gates, decoder.start(hidden, source), source).weights

        torch.testing.assert_close(weights(ops.fuse(model)), weights(model), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("decoder", [DECODERS[0], DECODERS[1], DECODERS[3]], ids=lambda decoder: decoder["kind"])
def test_the_source_of_other_sentences_or_of_another_scorer_is_refused(decoder):
    one = ops.fuse(make(decoder).float())
    memory, state = one.encode(SOURCE), one.start(one.encode(SOURCE))
    gates = one.decoder.input_gates(one.target_embedding(one.decoder_inputs(TARGET).t()))
    other = make(decoder, {"kind": "attention", "scorer": {"name": "additive", "hidden_size": 3}}).float()
    for source in (memory.source.prepared.select(torch.tensor([0])), other.encode(SOURCE).source.prepared):
        with pytest.raises(ValueError, match=r"the decoder needs prepared keys \(sentences, size\) = \(3, 11\), got"):
            one.decoder.run(gates, state, source)


def test_additive_attention_in_one_call_in_bf16_is_close_to_fp32():
    model = make().float()
    exact = model(SOURCE, TARGET)
    with torch.autocast("cpu", torch.bfloat16):
        rough = ops.fuse(model)(SOURCE, TARGET)
    torch.testing.assert_close(rough.float(), exact, rtol=0.05, atol=0.03)
    assert not torch.equal(rough.float(), exact)


@pytest.mark.parametrize(
    "changes",
    [
        {"context": {"kind": "attention", "normalizer": {"name": "softmax", "temperature": 0.5}}},
        {"context": {"kind": "attention", "window": {"name": "local_m", "half_width": 1}}},
        {"context": {"kind": "attention"}, "decoder": {"kind": "bahdanau", "hidden_size": 11, "cell": "lstm"}},
        {"context": {"kind": "attention", "scorer": "location"}},
        {"context": {"kind": "attention"}, "decoder": {"kind": "conditional", "hidden_size": 11, "cell": "lstm"}},
        {"context": {"kind": "fixed"}, "decoder": {"kind": "conditional", "hidden_size": 11}},
    ],
)
def test_variants_of_the_fused_equation_run_step_by_step(changes):
    model = make(**changes).float()
    assert "decoder" in ops.reasons(model)
    torch.testing.assert_close(ops.fuse(model)(SOURCE, TARGET), model(SOURCE, TARGET), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm", [nn.LayerNorm(33, bias=False), nn.LayerNorm((3, 33)), nn.RMSNorm(33)], ids=repr)
@pytest.mark.parametrize("name", ["input_norm", "recurrent_norm"])
def test_gates_normalized_otherwise_are_computed_step_by_step(name, norm):
    decoder = make(layer_norm=True).float().decoder
    assert ops.reasons(decoder) == {}
    setattr(decoder.cell, name, norm)
    assert "" in ops.reasons(decoder)


def test_the_bahdanau_decoder_follows_the_equations_of_the_paper():
    """An independent implementation in NumPy of eq. 4-6 and A.1.2, for one sentence."""
    model = make(tie_embeddings="none")
    p = {name: value.detach().numpy() for name, value in model.named_parameters()}
    states = model.encoder(SOURCE).states[0].detach().numpy()
    sigmoid = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    summary = np.concatenate([states[-1, :5], states[0, 5:]])
    hidden = np.tanh(p["initial.weight"] @ summary + p["initial.bias"])
    logits = model(SOURCE, TARGET)[0].detach().numpy()
    scorer, cell = "decoder.context.scorer.", "decoder.cell.recurrent."
    for i, token in enumerate(model.decoder_inputs(TARGET)[0].tolist()):
        embedded = p["target_embedding.table.weight"][token]
        energy = np.tanh(
            p[scorer + "query_layer.weight"] @ hidden
            + states @ p[scorer + "key_layer.weight"].T
            + p[scorer + "key_layer.bias"]
        )
        scores = energy @ p[scorer + "v"]
        weights = np.exp(scores) / np.exp(scores).sum()
        context = weights @ states
        gates = (
            p["decoder.from_token.weight"] @ embedded
            + p["decoder.from_token.bias"]
            + p["decoder.from_context.map.weight"] @ context
        )
        recurrent = p[cell + "weight"] @ hidden + p[cell + "bias"]
        reset, update = sigmoid(gates[:11] + recurrent[:11]), sigmoid(gates[11:22] + recurrent[11:22])
        candidate = np.tanh(gates[22:] + reset * recurrent[22:])
        hidden = (1 - update) * candidate + update * hidden
        readout = np.tanh(
            p["readout.combine.weight"] @ np.concatenate([hidden, context, embedded]) + p["readout.combine.bias"]
        )
        np.testing.assert_allclose(
            logits[i], p["head.projection.weight"] @ readout + p["head.projection.bias"], rtol=1e-9
        )


def test_a_deep_transition_passes_the_state_through_further_gru_cells_without_an_input():
    deep, shallow = make({"kind": "conditional", "transitions": 4}), make({"kind": "conditional"})
    shallow.load_state_dict({name: deep.state_dict()[name] for name in shallow.state_dict()})
    tokens, memory = torch.tensor([4, 5, 6]), deep.encode(SOURCE)
    hidden = shallow.step(tokens, shallow.start(memory), memory).state.hidden
    for cell in deep.decoder.deeper:
        reference = torch.nn.GRUCell(1, 11).double()
        reference.weight_hh, reference.bias_hh = cell.recurrent.weight, cell.recurrent.bias
        torch.nn.init.zeros_(reference.bias_ih)
        hidden = reference(hidden.new_zeros(3, 1), hidden)
    state = deep.step(tokens, deep.start(memory), memory).state
    torch.testing.assert_close(state.hidden, hidden)
    assert ops.reasons(deep.float())["decoder"] == "the decoder has 4 transitions"


@pytest.mark.parametrize("cell", ["mingru", "sru"])
def test_a_deep_transition_needs_a_cell_that_multiplies_its_state(cell):
    with pytest.raises(ValueError, match=f"transitions=3: {cell} computes its gates from its input alone"):
        make({"kind": "conditional", "transitions": 3, "cell": cell})
    make({"kind": "conditional", "cell": cell})


def test_a_readout_size_without_a_deep_readout_is_refused():
    with pytest.raises(ValueError, match="readout_size is the size of readout=deep"):
        make({"kind": "bahdanau", "readout": "plain", "readout_size": 7})


def test_the_arms_of_an_ablation_differ_by_their_context_alone():
    names = [set(dict(make(context=context).named_parameters())) for context in CONTEXTS + HISTORY_DEPENDENT]
    for other in names[1:]:
        assert all("context" in name for name in names[0] ^ other)


@pytest.mark.parametrize("summary", ["last", "mean", "learned"])
def test_the_fixed_context_is_the_summary_that_also_sets_the_first_state(summary):
    model = make(context={"kind": "fixed"}, summary=summary)
    memory = model.encode(SOURCE)
    expected = torch.tanh(model.initial(memory.source.prepared.context[:, 0]))
    torch.testing.assert_close(memory.source.initial, expected)


@pytest.mark.parametrize("context", CONTEXTS + HISTORY_DEPENDENT)
def test_selected_rows_decode_as_before(context):
    model = make(context=context)
    memory = model.encode(SOURCE)
    rows = torch.tensor([2, 0])
    state = model.step(torch.tensor([7, 8, 9]), model.start(memory), memory).state
    whole = model.step(torch.tensor([4, 5, 6]), state, memory)
    part = model.step(torch.tensor([6, 4]), state.select(rows), memory.select(rows))
    torch.testing.assert_close(part.logits, whole.logits[rows])


def test_tied_embeddings_are_one_matrix():
    target = make(tie_embeddings="target")
    assert target.head.projection.weight is target.target_embedding.table.weight
    assert target.encoder.embedding.table.weight is not target.head.projection.weight
    config = RecurrentConfig(tie_embeddings="all", embedding_size=7)
    every = config.build(TARGET_WORDS, TARGET_WORDS, joint=True)
    assert every.head.projection.weight is every.target_embedding.table.weight is every.encoder.embedding.table.weight


def test_impossible_weight_tying_is_an_error_that_names_a_solution():
    with pytest.raises(UserError, match=r"text\.joint=true"):
        make(tie_embeddings="all")
    with pytest.raises(UserError, match="embeddings' size 7, got 11"):
        make({"kind": "luong", "readout": "plain"}, tie_embeddings="target")


def test_a_scorer_whose_sizes_do_not_fit_is_an_error_that_names_a_solution():
    with pytest.raises(UserError, match="Dot needs query_size == key_size, got 11 and 10; use General"):
        make(context={"scorer": "dot"})


def test_word_dropout_drops_whole_words_without_rescaling_in_training_only():
    model = make(dropout={"word": 0.5})
    embedding = model.target_embedding
    tokens = torch.randint(4, TARGET_WORDS, (40, 30))
    assert (embedding(tokens).abs().sum(-1) > 0).all()
    kept = embedding.train()(tokens).abs().sum(-1) > 0
    assert 0.4 < kept.double().mean() < 0.6
    again = embedding(tokens)
    survived = again.abs().sum(-1) > 0
    torch.testing.assert_close(again[survived], embedding.eval()(tokens)[survived])


def test_every_parameter_gets_a_gradient():
    for decoder, context in SOME_ARMS:
        model = make(decoder, context, summary="learned").train()
        model(SOURCE, TARGET).square().sum().backward()
        assert_every_parameter_has_a_gradient(model, context)


def assert_every_parameter_has_a_gradient(model, context):
    """But where a window leaves one word: its weight is 1 whatever its score."""
    missing = {name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().sum() == 0}
    one_word = context.get("window") == "random_token"
    assert missing == {name for name in dict(model.named_parameters()) if one_word and "scorer" in name}, context


STACKS = [{"layers": 2}, {"layers": 3, "residual": True}]


def stacked(decoder, layers, cell, **changes):
    encoder = {"hidden_size": 5, "cell": cell, **layers}
    return make({**decoder, **layers, "cell": cell}, encoder=encoder, **changes)


@pytest.mark.parametrize(
    ("decoder", "layers", "cell"),
    [
        (decoder, layers, cell)
        for decoder in DECODERS
        for layers, cell in [(STACKS[0], "gru"), *((STACKS[1], cell) for cell in ("lstm", "rnn", "mingru", "sru"))]
        if is_possible(decoder, cell)
    ],
)
def test_steps_equal_teacher_forcing_with_several_layers(decoder, layers, cell):
    model = stacked(decoder, layers, cell)
    assert len(model.decoder.cell.cells) == len(model.encoder.network.layers) == layers["layers"]
    assert_steps_equal_teacher_forcing(model)


@pytest.mark.parametrize(("decoder", "context"), ARMS)
def test_decoders_with_several_layers_take_any_context(decoder, context):
    model = stacked(decoder, STACKS[1], "gru", context=context)
    assert_steps_equal_teacher_forcing(model)
    model.train()(SOURCE, TARGET).square().sum().backward()
    assert_every_parameter_has_a_gradient(model, context)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("layers", STACKS)
def test_a_search_over_several_layers_finds_what_forced_decoding_confirms(decoder, layers):
    assert_forced_decoding_confirms_searches(stacked(decoder, layers, "lstm"), SOURCE, max_length=8)


def test_the_fused_decoder_is_not_used_for_a_stack():
    model = stacked(DECODERS[0], STACKS[0], "gru").float()
    assert ops.reasons(model)["decoder"] == "StackedCell is not a GRU"
    torch.testing.assert_close(ops.fuse(model)(SOURCE, TARGET), model(SOURCE, TARGET), rtol=1e-4, atol=1e-5)


def test_the_interface_gives_analysis_the_parts_of_a_model():
    attends = {"attention": True, "mean": True, "fixed": False, "none": False}
    for kind, expected in attends.items():
        model = make(context={"kind": kind})
        memory = model.encode(SOURCE)
        assert model.attends is expected
        assert len(model.contexts_that_read()) == expected
    assert model.embedding_tables() == (model.encoder.embedding.table, model.target_embedding.table)
    embedded = model.embed_source(SOURCE)
    torch.testing.assert_close(model.encode_embedded(embedded, SOURCE).source.initial, memory.source.initial)


def test_state_dropout_drops_encoder_states():
    model = make(dropout={"state": 0.5})
    plain = model.encode(SOURCE).source.prepared.values
    dropped = model.train().encode(SOURCE).source.prepared.values
    kept = dropped != 0
    assert 0 < kept.sum() < (plain != 0).sum()
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])


def test_dropout_between_layers_is_that_of_the_configuration():
    model = make({"kind": "bahdanau", "layers": 2}, encoder={"hidden_size": 5, "layers": 2}, dropout={"state": 0.3})
    assert (model.encoder.network.dropout.p, model.decoder.cell.dropout.p) == (0.3, 0.3)


@pytest.mark.parametrize("readout", ["deep", "plain"])
def test_readout_dropout_drops_features(readout):
    model = make({"kind": "bahdanau", "readout": readout}, dropout={"readout": 0.5})
    plain = model.decode(model.decoder_inputs(TARGET), model.encode(SOURCE)).features
    model.train()
    dropped = model.decode(model.decoder_inputs(TARGET), model.encode(SOURCE)).features
    kept = dropped != 0
    assert 0 < kept.sum() < (plain != 0).sum()
    torch.testing.assert_close(dropped[kept], 2 * plain[kept])
