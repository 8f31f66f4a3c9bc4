"""The scan of a linear recurrence equals the loop over its steps, with its gradients."""

import pytest
import torch

from seq2seq_attn.models.recurrent.cells import scan as reference_scan
from seq2seq_attn.ops.recurrent import scan

COUNTS, HIDDEN = [4, 4, 3, 1], 5  # sentences of 4, 3, 3 and 2 words


def drawn(rows_before=None, dtype=torch.double):
    """a in (0, 1), b, and the state before the first step that runs, or None."""
    a, b = torch.rand(sum(COUNTS), HIDDEN, dtype=dtype), torch.randn(sum(COUNTS), HIDDEN, dtype=dtype)
    before = [] if rows_before is None else [torch.randn(rows_before, HIDDEN, dtype=dtype)]
    return [tensor.requires_grad_() for tensor in (a, b, *before)]


def by_sentence(a, b, before, reverse):
    """The states of each sentence on its own, in the packed layout."""
    starts = [sum(COUNTS[:step]) for step in range(len(COUNTS))]
    states = torch.zeros_like(a)
    for row in range(COUNTS[0]):
        steps = [start + row for start, rows in zip(starts, COUNTS, strict=True) if row < rows]
        is_first = not reverse or len(steps) == len(COUNTS)  # it has the first step that runs
        state = before[row] if before is not None and is_first else torch.zeros(HIDDEN)
        for step in reversed(steps) if reverse else steps:
            state = a[step] * state + b[step]
            states[step] = state
    return states


LAYOUTS = pytest.mark.parametrize(("reverse", "rows_before"), [(False, None), (True, None), (False, 4), (True, 1)])


@LAYOUTS
def test_a_scan_of_packed_sentences_equals_a_loop_over_each_sentence(reverse, rows_before):
    a, b, *before = (tensor.detach() for tensor in drawn(rows_before))
    expected = by_sentence(a, b, before[0] if before else None, reverse)
    for implementation in (reference_scan, scan):
        found = implementation(a, b, COUNTS, before[0] if before else None, reverse)
        torch.testing.assert_close(found, expected)


@LAYOUTS
@pytest.mark.parametrize("implementation", [reference_scan, scan])
def test_gradients_equal_finite_differences(implementation, reverse, rows_before):
    def run(a, b, before=None):
        return implementation(a, b, COUNTS, before, reverse)

    assert torch.autograd.gradcheck(run, drawn(rows_before))


def gradients(loss, inputs):
    return torch.autograd.grad(loss, inputs, retain_graph=True)


def test_a_scan_computed_by_hand():
    """Two sentences: c = 1, 2 * 1 + 1 = 3 and c = 5. Read backwards: c_2 = 1, c_1 = 4 * 1 + 1 = 5 and c = 5."""
    a, b = torch.tensor([[4.0], [7.0], [2.0]], requires_grad=True), torch.tensor([[1.0], [5.0], [1.0]])
    states = scan(a, b, [2, 1])
    assert states.flatten().tolist() == [1, 5, 3]
    assert gradients(states.sum(), [a])[0].flatten().tolist() == [0, 0, 1]  # dc_2 / da_2 = c_1
    states = scan(a, b, [2, 1], reverse=True)
    assert states.flatten().tolist() == [5, 5, 1]
    assert gradients(states.sum(), [a])[0].flatten().tolist() == [1, 0, 0]


@pytest.mark.parametrize("decay", [0.0, 1e-20, 0.5, 1 - 2**-20, 1.0])
def test_a_thousand_steps_are_exact_for_any_decay(decay):
    """c_T = a^T c_0 + b (1 + a + ... + a^{T-1}), and dc_T / dc_0 = a^T: no step divides by a vanishing product."""
    steps, b = 1000, 0.25
    initial = torch.tensor([[3.0]], requires_grad=True)
    states = scan(torch.full((steps, 1), decay), torch.full((steps, 1), b), [1] * steps, initial)
    geometric = steps if decay == 1 else (1 - decay**steps) / (1 - decay)
    assert states[-1].item() == pytest.approx(decay**steps * 3 + b * geometric, rel=1e-4)
    assert gradients(states[-1].sum(), [initial])[0].item() == pytest.approx(decay**steps, rel=1e-4, abs=1e-30)
