"""Triton kernels for the steps of a recurrent decoder on a GPU, where launching operations takes longer than they do.

Each kernel replaces five to twenty operations. The functions that launch them have the arguments of their callers in
ops/gru.py and ops/scorers.py, where the equations and shapes are. Numbers are loaded as float32 and rounded only
when they are stored; tanh(x) is computed as 2 σ(2 x) - 1.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

COLUMNS = 256  # of a block of states
TILE = 4096  # numbers of keys or values in registers at a time


def gru_forward(x: Tensor, u: Tensor, previous: Tensor, gates: Tensor, candidate: Tensor, state: Tensor) -> None:
    rows, size = state.shape
    _gru_forward[rows, triton.cdiv(size, COLUMNS)](
        x, x.stride(0), u, u.stride(0), previous, gates, candidate, state, size, COLUMNS
    )


@triton.jit
def _gru_forward(x, x_stride, u, u_stride, previous, gates, candidates, states, size, COLUMNS: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = i < size
    x, u, rz, at = x + row * x_stride + i, u + row * u_stride + i, gates + row * 2 * size + i, row * size + i
    x_r, u_r = tl.load(x, inside).to(tl.float32), tl.load(u, inside).to(tl.float32)
    x_z, u_z = tl.load(x + size, inside).to(tl.float32), tl.load(u + size, inside).to(tl.float32)
    x_n, u_n = tl.load(x + 2 * size, inside).to(tl.float32), tl.load(u + 2 * size, inside).to(tl.float32)
    h = tl.load(previous + at, inside).to(tl.float32)
    r, z = tl.sigmoid(x_r + u_r), tl.sigmoid(x_z + u_z)
    n = 2 * tl.sigmoid(2 * (x_n + r * u_n)) - 1
    tl.store(rz, r, inside)
    tl.store(rz + size, z, inside)
    tl.store(candidates + at, n, inside)
    tl.store(states + at, n + z * (h - n), inside)


def gru_backward(
    grad_state: Tensor | None,
    grad_next: Tensor | None,
    grad_carry: Tensor,
    u: Tensor,
    previous: Tensor,
    gates: Tensor,
    candidate: Tensor,
    grad_x: Tensor,
    grad_u: Tensor,
) -> None:
    rows, size = grad_carry.shape
    of_state = (grad_carry, 0) if grad_state is None else (grad_state, grad_state.stride(0))
    of_next = (grad_carry, 0) if grad_next is None else (grad_next, len(grad_next))
    _gru_backward[rows, triton.cdiv(size, COLUMNS)](
        *of_state, *of_next, grad_carry, u, u.stride(0), previous, gates, candidate, grad_x, grad_x.stride(0), grad_u,
        grad_u.stride(0), size, grad_state is not None, COLUMNS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["next_rows"])
def _gru_backward(
    grad_states, grad_states_stride, grad_next, next_rows, grad_carry, u, u_stride, previous, gates, candidates,
    grad_x, grad_x_stride, grad_u, grad_u_stride, size, HAS_STATE: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    row, i = tl.program_id(0).to(tl.int64), tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside, at, rz = i < size, row * size + i, gates + row * 2 * size + i
    g = tl.load(grad_carry + at, inside)
    if HAS_STATE:
        g += tl.load(grad_states + row * grad_states_stride + i, inside).to(tl.float32)
    g += tl.load(grad_next + at, inside & (row < next_rows), 0.0).to(tl.float32)
    r, z = tl.load(rz, inside).to(tl.float32), tl.load(rz + size, inside).to(tl.float32)
    n, h = tl.load(candidates + at, inside).to(tl.float32), tl.load(previous + at, inside).to(tl.float32)
    u_n = tl.load(u + row * u_stride + 2 * size + i, inside).to(tl.float32)
    grad_n = g * (1 - z) * (1 - n * n)
    grad_r, grad_z = grad_n * u_n * r * (1 - r), g * (h - n) * z * (1 - z)
    of_x, of_u = grad_x + row * grad_x_stride + i, grad_u + row * grad_u_stride + i
    tl.store(of_x, grad_r, inside)
    tl.store(of_x + size, grad_z, inside)
    tl.store(of_x + 2 * size, grad_n, inside)
    tl.store(of_u, grad_r, inside)
    tl.store(of_u + size, grad_z, inside)
    tl.store(of_u + 2 * size, grad_n * r, inside)
    tl.store(grad_carry + at, g * z, inside)


def read_forward(
    query: Tensor,
    keys: Tensor,
    v: Tensor | None,
    is_token: Tensor | None,
    values: Tensor,
    weights: Tensor,
    context: Tensor,
) -> None:
    sentences, length, size = keys.shape
    additive = keys if v is None else v
    mask = keys if is_token is None else is_token.view(torch.uint8)
    _read_forward[sentences,](
        query, query.stride(0), keys, additive, mask, values, weights, context, length, size, values.shape[2],
        v is not None, is_token is not None, **_tile(length),
    )  # fmt: skip


@triton.jit(do_not_specialize=["length"])
def _read_forward(
    query, query_stride, keys, v, is_token, values, weights, contexts, length, size, width, ADDITIVE: tl.constexpr,
    MASKED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    b, s, columns = tl.program_id(0).to(tl.int64), tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    here = s < length
    scores = tl.zeros([ROWS], tl.float32)
    for start in range(0, size, COLUMNS):
        i = start + columns
        inside = i < size
        q = tl.load(query + b * query_stride + i, inside, 0.0).to(tl.float32)[None, :]
        k = tl.load(keys + (b * length + s[:, None]) * size + i[None, :], here[:, None] & inside[None, :], 0.0)
        if ADDITIVE:
            each = tl.load(v + i, inside, 0.0)[None, :] * (2 * tl.sigmoid(2 * (q + k)) - 1)
        else:
            each = q * k
        scores += tl.sum(each, 1)
    read = here
    if MASKED:
        read = here & (tl.load(is_token + b * length + s, here, 0) != 0)
    scores = tl.where(read, scores, float("-inf"))
    exponentials = tl.exp(scores - tl.max(scores, 0))
    a = exponentials / tl.sum(exponentials, 0)
    tl.store(weights + b * length + s, a, here)
    for start in range(0, width, COLUMNS):
        i = start + columns
        inside = i < width
        tile = tl.load(values + (b * length + s[:, None]) * width + i[None, :], here[:, None] & inside[None, :], 0.0)
        tl.store(contexts + b * width + i, tl.sum(a[:, None] * tile.to(tl.float32), 0), inside)


def read_backward(
    query: Tensor,
    keys: Tensor,
    v: Tensor | None,
    values: Tensor,
    weights: Tensor,
    grad_context: Tensor,
    grad_weights: Tensor | None,
    grad_query: Tensor,
    grad_keys: Tensor,
    grad_v: Tensor | None,
) -> None:
    sentences, length, size = keys.shape
    additive = (keys, keys) if v is None else (v, grad_v)
    of_weights = weights if grad_weights is None else grad_weights
    _read_backward[sentences,](
        query, query.stride(0), keys, additive[0], values, weights, grad_context, of_weights, grad_query,
        grad_query.stride(0), grad_keys, additive[1], length, size, values.shape[2], v is not None,
        grad_weights is not None, **_tile(length),
    )  # fmt: skip


@triton.jit(do_not_specialize=["length"])
def _read_backward(
    query, query_stride, keys, v, values, weights, grad_contexts, grad_weights, grad_query, grad_query_stride,
    grad_keys, grad_v, length, size, width, ADDITIVE: tl.constexpr, HAS_WEIGHTS: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    b, s, columns = tl.program_id(0).to(tl.int64), tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    here = s < length
    a = tl.load(weights + b * length + s, here, 0.0).to(tl.float32)
    grad_a = tl.zeros([ROWS], tl.float32)
    if HAS_WEIGHTS:
        grad_a += tl.load(grad_weights + b * length + s, here, 0.0).to(tl.float32)
    for start in range(0, width, COLUMNS):
        i = start + columns
        inside = i < width
        grad_context = tl.load(grad_contexts + b * width + i, inside, 0.0).to(tl.float32)
        tile = tl.load(values + (b * length + s[:, None]) * width + i[None, :], here[:, None] & inside[None, :], 0.0)
        grad_a += tl.sum(grad_context[None, :] * tile.to(tl.float32), 1)
    g = a * (grad_a - tl.sum(a * grad_a, 0))  # of the scores
    for start in range(0, size, COLUMNS):
        i = start + columns
        inside = i < size
        both, at = here[:, None] & inside[None, :], (b * length + s[:, None]) * size + i[None, :]
        q = tl.load(query + b * query_stride + i, inside, 0.0).to(tl.float32)[None, :]
        k = tl.load(keys + at, both, 0.0)
        if ADDITIVE:
            hidden = 2 * tl.sigmoid(2 * (q + k)) - 1
            slope = g[:, None] * tl.load(v + i, inside, 0.0)[None, :] * (1 - hidden * hidden)
            of_query = tl.sum(slope, 0)
            of_v = grad_v + b * size + i
            tl.store(of_v, tl.load(of_v, inside, 0.0) + tl.sum(g[:, None] * hidden, 0), inside)
        else:
            slope, of_query = g[:, None] * q, tl.sum(g[:, None] * k, 0)
        tl.store(grad_query + b * grad_query_stride + i, of_query, inside)
        tl.store(grad_keys + at, tl.load(grad_keys + at, both, 0.0) + slope, both)


def _tile(length: int) -> dict[str, Any]:
    """The blocks of keys and values that a program holds: all positions of its sentence by some of the columns."""
    rows = max(16, triton.next_power_of_2(length))
    return {"ROWS": rows, "COLUMNS": max(4, min(256, TILE // rows))}
