"""Every normalizer of ours against its definition, written again in NumPy, one row at a time."""

import numpy as np
import pytest
import torch
from finite_differences import numeric_gradient

from seq2seq_attn.attention import (
    Entmax15,
    Gumbel,
    Hard,
    NormalizedSigmoid,
    Sigmoid,
    Softmax,
    Sparsemax,
    normalizer_classes,
)

ROWS = [[0.9, 0.2, -0.4, 0.35, -2.0], [1.7, 0.0, 1.5, -0.8, 1.58], [-3.0, 4.0, 0.1, 2.0, -1.0]]
IS_TOKEN = [[True, True, True, True, True], [True, True, True, False, True], [True, False, True, True, True]]


def softmax(scores, temperature=1.0):
    exponentials = np.exp(scores / temperature)
    return exponentials / exponentials.sum()


def sparsemax(scores):
    """Martins & Astudillo 2016: sort, find the largest k, subtract the threshold."""
    z = sorted(scores, reverse=True)
    k = max(k for k in range(1, len(z) + 1) if 1 + k * z[k - 1] > sum(z[:k]))
    return np.maximum(scores - (sum(z[:k]) - 1) / k, 0)


def entmax15(scores):
    """Peters et al. 2019: [(α - 1) e - τ]_+ ^ (1 / (α - 1)) for α = 1.5, the threshold by bisection."""
    return bisected(lambda threshold: np.maximum(scores / 2 - threshold, 0) ** 2, scores / 2)


def sigmoid(scores):
    return 1 / (1 + np.exp(-scores))


def normalized_sigmoid(scores):
    return sigmoid(scores) / sigmoid(scores).sum()


def hard(scores):
    return np.eye(len(scores))[np.argmax(scores)]


def bisected(weights_at, scores):
    """Weights that sum to 1, found by halving the range of a threshold that lowers them."""
    low, high = scores.max() - 1, scores.max()
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if weights_at(middle).sum() > 1 else (low, middle)
    return weights_at(low)


EQUATIONS = {  # config name: a normalizer of ours, its weights, and the weights whose gradient it has
    "softmax": (Softmax(), softmax, softmax),
    "softmax, cold": (Softmax(temperature=0.25), lambda e: softmax(e, 0.25), lambda e: softmax(e, 0.25)),
    "sparsemax": (Sparsemax(), sparsemax, sparsemax),
    "entmax15": (Entmax15(), entmax15, entmax15),
    "sigmoid": (Sigmoid(), sigmoid, sigmoid),
    "normalized_sigmoid": (NormalizedSigmoid(), normalized_sigmoid, normalized_sigmoid),
    "hard": (Hard(), hard, softmax),
    "gumbel": (Gumbel(0.5).eval(), lambda e: softmax(e, 0.5), lambda e: softmax(e, 0.5)),
    "gumbel, hard": (Gumbel(0.5, hard=True).eval(), hard, lambda e: softmax(e, 0.5)),
}


def of_rows():
    """Those of this package whose weights depend only on the scores of one row."""
    ours = {name: cls for name, cls in normalizer_classes().items() if cls.__module__.startswith("seq2seq_attn.")}
    return [name for name, cls in ours.items() if not cls.needs_history]


@pytest.mark.parametrize("name", of_rows())
def test_every_normalizer_of_ours_has_its_equation_here(name):
    assert name in EQUATIONS


@pytest.mark.parametrize("name", EQUATIONS)
def test_a_normalizer_computes_the_equation_of_its_paper(name):
    normalizer, equation, _ = EQUATIONS[name]
    weights = normalizer(torch.tensor(ROWS, dtype=torch.double), torch.tensor(IS_TOKEN))
    np.testing.assert_allclose(weights.numpy(), over_tokens(equation, np.array(ROWS)), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", EQUATIONS)
def test_gradients_are_finite_differences_of_the_equation(name):
    normalizer, _, smooth = EQUATIONS[name]
    scores = torch.tensor(ROWS, dtype=torch.double, requires_grad=True)
    direction = torch.randn(scores.shape, dtype=torch.double)
    (normalizer(scores, torch.tensor(IS_TOKEN)) * direction).sum().backward()
    expected = numeric_gradient(lambda moved: (over_tokens(smooth, moved) * direction.numpy()).sum(), np.array(ROWS))
    np.testing.assert_allclose(scores.grad.numpy(), expected, rtol=0, atol=1e-10)


def over_tokens(equation, rows):
    """The equation for the tokens of each row, 0 elsewhere."""
    weights = np.zeros(rows.shape)
    for found, row, is_token in zip(weights, rows, np.array(IS_TOKEN), strict=True):
        found[is_token] = equation(row[is_token])
    return weights


def test_gumbel_in_training_is_softmax_of_scores_plus_noise():
    scores, gumbel = torch.tensor(ROWS, dtype=torch.double), Gumbel(temperature=0.5)
    torch.manual_seed(8)
    weights = gumbel(scores)
    torch.manual_seed(8)
    exponential = torch.empty_like(scores).exponential_().numpy()
    expected = [softmax(row, 0.5) for row in np.array(ROWS) - np.log(exponential)]
    np.testing.assert_allclose(weights.numpy(), expected, rtol=0, atol=1e-10)


def test_softmax_by_hand():
    scores = torch.tensor([0.0, 1, 5, 2], dtype=torch.double)
    weights = Softmax()(scores, torch.tensor([True, True, False, True]))
    expected = torch.tensor([0.09003057, 0.24472847, 0, 0.66524096], dtype=torch.double)
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-8)


def test_sparsemax_and_entmax15_by_hand():
    scores = torch.tensor([1.0, 0.5, -1], dtype=torch.double)
    # sparsemax: τ = (1 + 0.5 - 1) / 2. entmax: halves 0.5 and 0.25 have mean 0.375, squared deviations 1/32 in sum,
    # so τ = 0.375 - √(31/64), and the third, -0.5, lies below it.
    above = (31 / 64) ** 0.5
    expected = {Sparsemax: [0.75, 0.25, 0.0], Entmax15: [(above + 0.125) ** 2, (above - 0.125) ** 2, 0.0]}
    for cls, weights in expected.items():
        torch.testing.assert_close(cls()(scores).tolist(), weights, rtol=0, atol=1e-12)


@pytest.mark.parametrize("size", [0.1, 1, 10, 1e4])
def test_sparsemax_is_the_nearest_point_of_the_simplex(size):
    scores = size * torch.randn(20, 9, dtype=torch.double)
    for row, weights in zip(scores.numpy(), Sparsemax()(scores).numpy(), strict=True):
        nearest = bisected(lambda threshold, row=row: np.maximum(row - threshold, 0), row)
        np.testing.assert_allclose(weights, nearest, rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [0.1, 1, 10, 1e4])
def test_entmax15_meets_the_conditions_of_an_optimum(size):
    # It maximizes p · e + 4/3 Σ (p - p^1.5) over the simplex, whose gradient e - 2 √p + 4/3 is the same wherever
    # p > 0 and not higher elsewhere.
    scores = size * torch.randn(20, 9, dtype=torch.double)
    for row, weights in zip(scores.numpy(), Entmax15()(scores).numpy(), strict=True):
        np.testing.assert_allclose(weights.sum(), 1, rtol=0, atol=1e-12)
        slope, read = row - 2 * np.sqrt(weights), weights > 0
        np.testing.assert_allclose(slope[read], slope[read].max(), rtol=0, atol=1e-10 * max(size, 1))
        assert (slope[~read] <= slope[read].max() + 1e-10 * max(size, 1)).all()
