"""The attention of models that are not of this package: torch's layers, and outputs like those of Hugging Face."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import seq2seq_attn as s2s
from seq2seq_attn.analysis.other_models import of_output

PAD, BOS, EOS, FIRST, VOCABULARY = 0, 1, 2, 3, 11
LABELS = ["<pad>", "<s>", "</s>", *"abcdefgh"]


class Reverser(nn.Module):
    """A translator of torch's own layers, as its tutorials write them."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.positions = nn.Embedding(10, 32)
        self.transformer = nn.Transformer(32, 2, 1, 2, 64, dropout=0.1, batch_first=True)
        self.output = nn.Linear(32, VOCABULARY)

    def embed(self, tokens):
        return self.embedding(tokens) + self.positions(torch.arange(tokens.shape[1]))

    def forward(self, source, target, readable=None):
        is_padding = source == PAD if readable is None else ~readable
        return self.output(
            self.transformer(
                self.embed(source),
                self.embed(target),
                tgt_mask=nn.Transformer.generate_square_subsequent_mask(target.shape[1]),
                src_key_padding_mask=is_padding,
                memory_key_padding_mask=is_padding,
                tgt_is_causal=True,
            )
        )


def batch(size, generator):
    """Sources of 4 to 6 letters with `</s>`, and targets that are their reverses."""
    lengths = torch.randint(4, 7, (size,), generator=generator).tolist()
    words = [torch.randperm(VOCABULARY - FIRST, generator=generator)[:n] + FIRST for n in lengths]
    end, start = torch.tensor([EOS]), torch.tensor([BOS])
    padded = [
        nn.utils.rnn.pad_sequence(side, batch_first=True, padding_value=PAD)
        for side in (
            [torch.cat((each, end)) for each in words],
            [torch.cat((start, each.flip(0))) for each in words],
            [torch.cat((each.flip(0), end)) for each in words],
        )
    ]
    return (*padded, lengths)


def labels(rows):
    return [[LABELS[token] for token in row] for row in rows.tolist()]


@pytest.fixture(scope="module")
def reverser():
    """Trained for seconds."""
    torch.manual_seed(3)
    model, generator = Reverser(), torch.Generator().manual_seed(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(100):
        source, inputs, target, _ = batch(32, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(source, inputs).flatten(0, 1), target.flatten(), ignore_index=PAD).backward()
        optimizer.step()
    return model.eval()


@pytest.fixture(scope="module")
def pairs():
    return batch(40, torch.Generator().manual_seed(4))


def test_a_trained_transformer_of_torch_is_seen_to_align(reverser, pairs):
    source, inputs, target, lengths = pairs
    gold = [{(length - 1 - i, i) for i in range(length)} for length in lengths]
    found = s2s.view(s2s.read_attention(reverser, source, inputs), labels(source), labels(target), gold=gold)
    assert [len(each.source) for each in found] == [length + 1 for length in lengths]
    table = found.heads()
    assert len(table) == 2 * 3 + 1
    assert table.best.error_rate < 0.2
    best = found.align(layer=table.best.layer, head=table.best.head)
    assert best.agreement(found.gold).error_rate == table.best.error_rate
    assert best[0].source == " ".join(labels(source)[0][: lengths[0]])


def test_a_head_that_aligns_reads_what_the_prediction_depends_on(reverser, pairs):
    source, inputs, target, lengths = (each[:6] for each in pairs)
    found = s2s.view(s2s.read_attention(reverser, source, inputs), labels(source), labels(target))

    def importance(number):
        size = lengths[number] + 1
        of_pair = [side[number : number + 1, :size] for side in (source, inputs, target)]

        def predict(readable):
            copies = [side.expand(len(readable), -1) for side in of_pair]
            with torch.no_grad():
                logits = reverser(*copies[:2], readable=torch.tensor(readable)).log_softmax(dim=-1)
            return logits.gather(-1, copies[2][..., None])[..., 0]

        return found[number].leave_one_out(predict)

    measured = [importance(number) for number in range(6)]
    assert measured[0].shape == (lengths[0], lengths[0])
    depends = [each.argmax(axis=1).tolist() == list(range(len(each)))[::-1] for each in measured]
    assert sum(depends) >= 4  # on the letter that is copied
    assert max(each.correlation for each in found.heads(importance=measured)) > 0.2


def test_the_weights_are_those_that_the_layers_compute(reverser, pairs):
    source, inputs, *_ = pairs
    read = s2s.read_attention(reverser, source, inputs)
    transformer = reverser.transformer
    memory = transformer.encoder(reverser.embed(source), src_key_padding_mask=source == PAD)
    layer = transformer.decoder.layers[0]
    mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
    states = reverser.embed(inputs)
    states = layer.norm1(states + layer.self_attn(states, states, states, attn_mask=mask)[0])
    q, k, _ = layer.multihead_attn.in_proj_weight.chunk(3)
    b, c, _ = layer.multihead_attn.in_proj_bias.chunk(3)
    queries, keys = (
        F.linear(*each).unflatten(-1, (2, 16)).transpose(1, 2) for each in ((states, q, b), (memory, k, c))
    )
    scores = queries @ keys.mT / 4
    scores = scores.masked_fill((source == PAD)[:, None, None], -torch.inf)
    torch.testing.assert_close(read.cross_attentions[0], scores.softmax(dim=-1).detach(), atol=1e-5, rtol=0)


def test_a_model_is_left_as_it_was(reverser, pairs):
    source, inputs, *_ = pairs
    before = reverser(source, inputs)
    read = s2s.read_attention(reverser, source, inputs)
    torch.testing.assert_close(read.output, before, atol=1e-5, rtol=0)
    with pytest.raises(RuntimeError):
        s2s.read_attention(reverser, source, inputs[:3])
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in reverser.modules())
    assert torch.equal(reverser(source, inputs), before)


@pytest.mark.parametrize("asked", [{"need_weights": False}, {}, {"average_attn_weights": False}], ids=str)
def test_a_decoder_of_ones_own_is_read_and_receives_what_it_asked_for(asked):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.reads = nn.MultiheadAttention(12, 3)

        def forward(self, states, memory):
            return self.reads(states, memory, memory, **asked)

    torch.manual_seed(1)
    model, states, memory = Own().eval(), torch.randn(4, 12), torch.randn(5, 12)  # without a batch
    read = s2s.read_attention(model, states, memory, modules=["reads"])
    assert read.cross_attentions[0].shape == (1, 3, 4, 5)
    for found, own in zip(read.output, model(states, memory), strict=True):
        assert (found is own is None) or torch.allclose(found, own, atol=1e-6)
    assert s2s.view(read, [list("abcde")], [list("vwxy")])[0].layers[0].shape == (3, 4, 5)
    with pytest.raises(s2s.UserError, match=r"no nn\.TransformerDecoderLayer"):
        s2s.read_attention(model, states, memory)
    with pytest.raises(s2s.UserError, match="modules: 'read' is not the name"):
        s2s.read_attention(model, states, memory, modules=["read"])


def test_weights_after_dropout_are_refused(reverser, pairs):
    source, inputs, target, _ = pairs
    reverser.train()
    try:
        read = s2s.read_attention(reverser, source, inputs)
    finally:
        reverser.eval()
    with pytest.raises(s2s.UserError, match=r"sums to .*model.eval\(\)"):
        s2s.view(read, labels(source), labels(target))


ROWS = np.random.default_rng(5).dirichlet(np.ones(4), size=(3, 2, 6, 2, 1))  # steps, layers, beams, heads, row


def test_a_beam_is_followed_through_its_steps():
    indices = torch.tensor([[1, 0, 2], [3, 5, -1]])  # of two sequences in batches of three beams; the second is shorter
    output = SimpleNamespace(
        cross_attentions=tuple(tuple(torch.tensor(layer) for layer in step) for step in ROWS),
        sequences=torch.tensor([[2, 5, 6, 7], [2, 5, 2, 1]]),
        beam_indices=indices,
    )
    first, second = of_output(output)
    for layer in range(2):
        np.testing.assert_array_equal(
            first[layer], np.concatenate([ROWS[0, layer, 1], ROWS[1, layer, 0], ROWS[2, layer, 2]], 1)
        )
        np.testing.assert_array_equal(second[layer], np.concatenate([ROWS[0, layer, 3], ROWS[1, layer, 5]], 1))
    target = [["<s>", "x", "y", "z"], ["<s>", "x", "</s>", "</s>"]]  # padded by </s>
    views = s2s.view(output, [[*"abcd"]], target)
    assert [each.target for each in views] == [("x", "y", "z"), ("x", "</s>")]  # without the start
    del output.beam_indices
    with pytest.raises(s2s.UserError, match=r"6 beams for 2 sequences.*output_scores=True"):
        s2s.view(output, [[*"abcd"]], target)


def test_a_first_step_may_read_a_prompt_and_later_ones_may_have_all_rows():
    full = np.random.default_rng(6).dirichlet(np.ones(4), size=(1, 2, 5))  # (B, heads, T, S)
    steps = [(full[:, :, :3],), (full[:, :, :4],), (full,)]  # without a cache
    for cross in (steps, [steps[0], (full[:, :, 3:4],), (full[:, :, 4:],)]):
        (found,) = of_output(SimpleNamespace(cross_attentions=cross, sequences=[[0]]))
        np.testing.assert_array_equal(found[0], full[0])


@pytest.mark.parametrize("missing", [None, (), (None,), ((None,),)], ids=str)
def test_an_output_without_weights_says_how_to_ask_for_them(missing):
    with pytest.raises(s2s.UserError, match=r"attn_implementation='eager'.*output_attentions=True"):
        s2s.view(SimpleNamespace(cross_attentions=missing), [["a"]], [["b"]])


@pytest.mark.slow
def test_a_model_of_hugging_face_is_read_from_generation_and_from_a_forced_target():
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    torch.manual_seed(7)
    sizes = {"encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=32, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=16,
        pad_token_id=PAD, bos_token_id=BOS, eos_token_id=EOS, decoder_start_token_id=BOS, forced_eos_token_id=None,
        init_std=0.2, dropout=0.0,
        attn_implementation="eager", **sizes,
    )  # fmt: skip
    model, generator = transformers.BartForConditionalGeneration(config), torch.Generator().manual_seed(7)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(150):
        source, inputs, target, _ = batch(32, generator)
        optimizer.zero_grad()
        shown = target.masked_fill(target == PAD, -100)
        model(input_ids=source, attention_mask=source != PAD, decoder_input_ids=inputs, labels=shown).loss.backward()
        optimizer.step()
    model.eval()
    source, inputs, target, lengths = batch(12, generator)
    gold = [{(length - 1 - i, i) for i in range(length)} for length in lengths]
    asked = {"attention_mask": source != PAD, "output_attentions": True}
    with torch.no_grad():
        forced = s2s.view(
            model(input_ids=source, decoder_input_ids=inputs, **asked), labels(source), labels(target), gold=gold
        )
    assert forced.heads().best.error_rate < 0.2
    for options in ({"num_beams": 1}, {"num_beams": 4, "num_return_sequences": 2, "output_scores": True}):
        output = model.generate(source, max_new_tokens=8, return_dict_in_generate=True, **options, **asked)
        found = s2s.view(output, labels(source), labels(output.sequences))
        several = len(found) // len(source)
        assert several == options.get("num_return_sequences", 1)
        # What was generated, given as a target, is read with the same weights.
        with torch.no_grad():
            again = model(
                input_ids=source.repeat_interleave(several, 0),
                attention_mask=(source != PAD).repeat_interleave(several, 0),
                decoder_input_ids=output.sequences[:, :-1],
                output_attentions=True,
            )
        rows = output.sequences[:, 1:]
        ends = [row.tolist().index(EOS) + 1 if EOS in row else len(row) for row in rows]
        targets = [row[:end] for row, end in zip(labels(rows), ends, strict=True)]
        same = s2s.view(again, [each for each in labels(source) for _ in range(several)], targets)
        for one, other in zip(found, same, strict=True):
            assert one.target == other.target
            for layer, expected in zip(one.layers, other.layers, strict=True):
                np.testing.assert_allclose(layer, expected, atol=1e-5)
