// A step of the gated recurrent unit, forward and backward; the reference implementations are in ops/gru.py.
#include "numbers.h"

// x, u, grad_x and grad_u (rows, 3 size) hold the blocks r, z, n, with a stride between rows; gates (rows, 2 size) hold
// r, z; previous and new states and candidates n are (rows, size).

extern "C" void gru_forward(Index rows, Index size, const Number *x, Index x_stride, const Number *u, Index u_stride,
                            const Number *previous, Number *gates, Number *candidates, Number *states,
                            Index threads) {
#pragma omp parallel for num_threads(team(rows * size, threads))
    for (Index row = 0; row < rows; row++) {
        const Number *x_r = x + row * x_stride, *x_z = x_r + size, *x_n = x_z + size;
        const Number *u_r = u + row * u_stride, *u_z = u_r + size, *u_n = u_z + size;
        const Number *h = previous + row * size;
        Number *reset = gates + row * 2 * size, *update = reset + size;
        Number *candidate = candidates + row * size, *state = states + row * size;
#pragma omp simd
        for (Index i = 0; i < size; i++) {
            const float r = sigmoid(load(x_r[i]) + load(u_r[i]));
            const float z = sigmoid(load(x_z[i]) + load(u_z[i]));
            const float n = hyperbolic_tangent(load(x_n[i]) + r * load(u_n[i]));
            store(reset[i], r);
            store(update[i], z);
            store(candidate[i], n);
            store(state[i], n + z * (load(h[i]) - n));
        }
    }
}

// The gradient of the new state is the sum of `grad_states` (rows, size), of its output; `grad_next` (next_rows, size),
// through the next step's product; and `grad_carry` (rows, size), through the next step's term z * h. The first two may
// be null. `grad_carry` is overwritten by the same gradient of this step.
extern "C" void gru_backward(Index rows, Index size, const Number *grad_states, Index grad_states_stride,
                             const Number *grad_next, Index next_rows, float *grad_carry, const Number *u,
                             Index u_stride, const Number *previous, const Number *gates, const Number *candidates,
                             Number *grad_x, Index grad_x_stride, Number *grad_u, Index grad_u_stride, Index threads) {
#pragma omp parallel for num_threads(team(rows * size, threads))
    for (Index row = 0; row < rows; row++) {
        const Number *u_n = u + row * u_stride + 2 * size;
        const Number *h = previous + row * size, *candidate = candidates + row * size;
        const Number *reset = gates + row * 2 * size, *update = reset + size;
        Number *gx_r = grad_x + row * grad_x_stride, *gx_z = gx_r + size, *gx_n = gx_z + size;
        Number *gu_r = grad_u + row * grad_u_stride, *gu_z = gu_r + size, *gu_n = gu_z + size;
        float *gradient = grad_carry + row * size;
        if (grad_states)
            for (Index i = 0; i < size; i++) gradient[i] += load(grad_states[row * grad_states_stride + i]);
        if (grad_next && row < next_rows)
            for (Index i = 0; i < size; i++) gradient[i] += load(grad_next[row * size + i]);
#pragma omp simd
        for (Index i = 0; i < size; i++) {
            const float g = gradient[i], r = load(reset[i]), z = load(update[i]), n = load(candidate[i]);
            const float grad_n = g * (1 - z) * (1 - n * n);
            const float grad_r = grad_n * load(u_n[i]) * r * (1 - r);
            const float grad_z = g * (load(h[i]) - n) * z * (1 - z);
            store(gx_r[i], grad_r);
            store(gx_z[i], grad_z);
            store(gx_n[i], grad_n);
            store(gu_r[i], grad_r);
            store(gu_z[i], grad_z);
            store(gu_n[i], grad_n * r);
            gradient[i] = g * z;
        }
    }
}
