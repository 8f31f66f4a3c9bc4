"""Self-attention step by step: all numbers, printed or not, equal those of NumPy and of a calculation by hand."""

import re
from itertools import chain
from math import e, exp, sqrt

import numpy as np
import pytest
import torch
from rich.cells import cell_len

from seq2seq_attn.attention import Attention, MultiHead, ScaledDot, SelfAttention
from seq2seq_attn.errors import UserError
from seq2seq_attn.walkthrough import VECTORS, walk
from seq2seq_attn.walkthrough.self_attention import PARAMETERS

W_Q, W_K, W_V, W_O = (np.array(matrix, dtype=float) for matrix in PARAMETERS.values())
PE = np.array([[np.sin(p), np.cos(p), np.sin(p / 100), np.cos(p / 100)] for p in range(3)])
RANDOM = np.random.default_rng(5).normal(size=(3, 4))


def attend(q, k, v, causal=False):
    """Scores, exp(e - max), weights and contexts."""
    scores = q @ k.T / sqrt(q.shape[1])
    if causal:
        scores = np.where(np.tri(3), scores, -np.inf)
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = shares / shares.sum(axis=1, keepdims=True)
    return scores, shares, weights, weights @ v


def heads(x):
    """Queries, keys and values of each head, followed by what `attend` returns."""
    q, k, v = x @ W_Q.T, x @ W_K.T, x @ W_V.T
    halves = [(q[:, part], k[:, part], v[:, part]) for part in (slice(2), slice(2, 4))]
    return [(*half, *attend(*half)) for half in halves]


def joined(x):
    return np.concatenate([head[-1] for head in heads(x)], axis=1)


def output(x):
    return joined(x) @ W_O.T


def close(tensor, array, tolerance=1e-12):
    np.testing.assert_allclose(tensor.numpy(), array, rtol=0, atol=tolerance)


def stacked(walked, field):
    return torch.stack([getattr(step, field) for step in walked.steps])


@pytest.mark.parametrize("x", [np.array(VECTORS, dtype=float), RANDOM])
def test_the_steps_equal_numpy(x):
    walked = walk("self-attention", states=x)
    q, k, v = x @ W_Q.T, x @ W_K.T, x @ W_V.T
    of_walks = zip((walked.one_head, *walked.heads), [(q, k, v, *attend(q, k, v)), *heads(x)], strict=True)
    for ours, (queries, keys, values, scores, shares, weights, contexts) in of_walks:
        close(ours.keys, keys)
        close(ours.values, values)
        fields = {"query": queries, "scores": scores, "exponentials": shares, "weights": weights, "context": contexts}
        for field, theirs in fields.items():
            close(stacked(ours, field), theirs)
    close(walked.outputs, output(x))
    _, _, weights, contexts = attend(q, k, v, causal=True)
    close(walked.causal_weights, weights)
    close(walked.causal_contexts, contexts)
    close(walked.reversed_outputs, output(x))
    # The package computes sines and cosines in single precision.
    close(walked.encodings, PE, 1e-7)
    close(walked.positioned, x + PE, 1e-7)
    close(walked.positioned_outputs, output(x + PE), 1e-5)
    close(walked.reversed_positioned_outputs, output(x[::-1] + PE)[::-1], 1e-5)


def test_the_numbers_of_chases_by_hand():
    """q = (1, 0, 1, 0); the keys (2, 0, 2, 0), (0, 2, 0, 0), (2, 0, 0, 2) give 4, 0 and 2, divided by √4."""
    walked = walk("self-attention")
    step = walked.one_head.steps[1]
    assert step.scores.tolist() == [2, 0, 1]
    total = e**2 + 1 + e
    assert step.weights.tolist() == pytest.approx([e**2 / total, 1 / total, e / total])
    assert step.context.tolist() == pytest.approx(
        [3 * e**2 / total, (e**2 + e) / total, 2 * e / total, 1 / total]  # v: (3, 1, 0, 0), (0, 0, 0, 1), (0, 1, 2, 0)
    )
    # Head 1 scores Tom and Jerry 2 / √2 and chases 0; head 2, which looks for a cat, Tom 2 / √2 and the others 0.
    noun, cat = exp(sqrt(2)) / (2 * exp(sqrt(2)) + 1), exp(sqrt(2)) / (exp(sqrt(2)) + 2)
    assert walked.heads[0].steps[1].weights.tolist() == pytest.approx([noun, 1 - 2 * noun, noun])
    assert walked.heads[1].steps[1].weights.tolist() == pytest.approx([cat, (1 - cat) / 2, (1 - cat) / 2])
    c = [3 * noun, 2 * noun, 2 * (1 - cat) / 2, (1 - cat) / 2]  # v: (3, 1), (0, 0), (0, 1) and (0, 0), (0, 1), (2, 0)
    assert walked.outputs[1].tolist() == pytest.approx([c[0] + c[2], c[1] + c[3], c[2], c[0] + c[1]])
    assert walked.causal_weights[1].tolist() == pytest.approx([e**2 / (e**2 + 1), 1 / (e**2 + 1), 0])


def test_the_walk_is_that_of_the_modules():
    walked = walk("self-attention", states=RANDOM)
    x = walked.vectors[None]
    torch.testing.assert_close(walked.layer(x)[0][0], walked.outputs)
    whole = MultiHead(Attention(ScaledDot(4, 4)), 1, 4, 4)
    whole.load_state_dict(walked.layer.attention.state_dict())
    contexts, weights = SelfAttention(whole, causal=True).double()(x)
    torch.testing.assert_close(weights[0], walked.causal_weights)
    torch.testing.assert_close(contexts[0], whole.output_layer(walked.causal_contexts))


def test_the_order_matters_only_with_positions():
    walked = walk("self-attention")
    torch.testing.assert_close(walked.reversed_outputs, walked.outputs)
    differences = (walked.reversed_positioned_outputs - walked.positioned_outputs).abs().amax(dim=1)
    assert differences.min() > 1


def printed_rows(text):
    """The numbers of each line that consists of a label and numbers."""
    for line in text.splitlines():
        row = re.sub(r"^   (The first number of q of |C of )?(\d )?(Tom|chases|Jerry)?:? *(p = \d)?", "", line)
        if re.fullmatch(r"(inf|[-\d.\[\]()·+/√=C ])+", row):
            yield line, [float(each) for each in re.findall(r"-?inf|-?\d+(?:\.\d+)?", row)]


def factors(left, right):
    """Of a product that is written out: a_1, b_1, a_2, b_2, ..."""
    return [*chain.from_iterable(zip(left, right, strict=True))]


def test_every_number_that_is_printed_is_that_of_numpy():
    x = np.array(VECTORS, dtype=float)
    q, k, v = x @ W_Q.T, x @ W_K.T, x @ W_V.T
    scores, shares, weights, contexts = attend(q, k, v)
    in_order, in_reverse = output(x + PE), output(x[::-1] + PE)[::-1]
    tables = [
        [x],
        [W_Q, W_K, W_V, W_O],
        [q, k, v],
        [[[*factors(x[1], W_Q[0]), q[1, 0]]]],
        [[[*factors(q[1], key), 4] for key in k], scores[1][:, None]],
        [scores, shares, shares.sum(axis=1, keepdims=True), weights],
        [weights[1][:, None], v, weights[1][:, None] * v],
        [contexts[1:2]],
        [contexts],
        *([*head[:4], head[5]] for head in heads(x)),
        [joined(x), output(x)],
        [*attend(q, k, v, causal=True)[::2], attend(q, k, v, causal=True)[3]],
        [output(x), output(x), np.zeros((3, 1))],
        [PE, x + PE],
        [in_order, in_reverse, abs(in_order - in_reverse).max(axis=1, keepdims=True)],
    ]
    expected = chain.from_iterable(np.hstack(table) for table in tables)
    for (line, found), numbers in zip(printed_rows(str(walk("self-attention"))), expected, strict=True):
        # Four decimals, except the sums of step 3, which have four digits.
        assert found == pytest.approx([*numbers], abs=5e-4 if len(numbers) == 10 else 6e-5), line


def test_the_text_fits_a_page():
    lines = str(walk("self-attention")).splitlines()
    assert len(lines) <= 85
    assert max(map(cell_len, lines)) <= 120


@pytest.mark.parametrize("words", [None, ["conscientiousness"] * 3, ["汤姆追逐杰瑞"] * 3])
@pytest.mark.parametrize("scale", [1e-6, 0.1, 1, 10, 300, 1e5, 1e9])
def test_every_line_fits_a_terminal_of_120_columns(scale, words):
    text = str(walk("self-attention", states=scale * RANDOM, words=words))
    assert max(map(cell_len, text.splitlines())) <= 120


def test_no_number_of_ordinary_vectors_is_left_out():
    assert "…" not in str(walk("self-attention", states=3 * RANDOM, words="cats see mice"))


def test_both_orders_are_shown_if_they_read_the_same():
    text = str(walk("self-attention", words="no means no"))
    assert len(re.findall("no means no +no means no +largest difference", text)) == 2


def test_words_label_the_default_vectors_and_numbers_label_others():
    assert "2 chases" in str(walk("self-attention"))
    assert "2 sees" in str(walk("self-attention", words="Ann sees Bob"))
    own = walk("self-attention", states=RANDOM)
    assert own.words is None
    assert "Here the query of 2;" in str(own)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"query": [[1, 0]]}, "self-attention takes states and words, not query"),
        ({"values": np.ones((3, 4)), "seed": 3}, "self-attention takes states and words, not values, seed"),
        ({"normalizer": "softmax"}, "not normalizer"),
        ({"states": RANDOM[:2]}, "states of 2 words with 4 numbers each; self-attention is shown with 3 words with 4"),
        ({"states": RANDOM[:, :3]}, "as in '1 0 1 0; 0 1 0 0; 1 0 0 1'"),
        ({"states": [[1, 2], [3]]}, "states: .*give rows of numbers"),
        ({"words": "Tom chases"}, "2 words; self-attention is shown with 3, as in 'Tom chases Jerry'"),
        ({"states": 1e200 * RANDOM}, "overflow; give smaller numbers"),
        ({"states": 1e308 * np.ones((3, 4))}, "overflow; give smaller numbers"),
        ({"states": [[0, 0, 0, 1.7e308]] * 3}, "overflow; give smaller numbers"),
    ],
)
def test_what_makes_no_sense_is_refused(given, message):
    with pytest.raises(UserError, match=message):
        walk("self-attention", **given)


@pytest.mark.parametrize("scorer", ["self_attention", {"name": "self-attention", "temperature": 2}])
def test_self_attention_is_no_scorer(scorer):
    with pytest.raises(UserError, match="is not a scorer; give 'self-attention' in its place"):
        walk(scorer)
