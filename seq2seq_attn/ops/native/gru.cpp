// A step of the gated recurrent unit, forward and backward; the reference implementation is in ops/gru.py.
#include "numbers.h"

// x, u, grad_x, grad_u (rows, 3 size), each with its stride between rows: r, z, n in turn; gates (rows, 2 size): r, z.

extern "C" void gru_forward(Index rows, Index size, const Number *x, Index x_stride, const Number *u, Index u_stride,
                            const Number *before, Number *gates, Number *candidates, Number *states, Index threads) {
#pragma omp parallel for num_threads(team(rows * size, threads))
    for (Index row = 0; row < rows; row++) {
        const Number *x_r = x + row * x_stride, *x_z = x_r + size, *x_n = x_z + size;
        const Number *u_r = u + row * u_stride, *u_z = u_r + size, *u_n = u_z + size;
        const Number *h = before + row * size;
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

// `carried` (rows, size) is what comes from the next step past its gates; here it becomes what goes to the step before.
// `later` (later_rows, size), what comes from the next step through its product, and `grad_states` may be null.
extern "C" void gru_backward(Index rows, Index size, const Number *grad_states, Index grad_states_stride,
                             const Number *later, Index later_rows, float *carried, const Number *u, Index u_stride,
                             const Number *before, const Number *gates, const Number *candidates, Number *grad_x,
                             Index grad_x_stride, Number *grad_u, Index grad_u_stride, Index threads) {
#pragma omp parallel for num_threads(team(rows * size, threads))
    for (Index row = 0; row < rows; row++) {
        const Number *u_n = u + row * u_stride + 2 * size;
        const Number *h = before + row * size, *candidate = candidates + row * size;
        const Number *reset = gates + row * 2 * size, *update = reset + size;
        Number *x_r = grad_x + row * grad_x_stride, *x_z = x_r + size, *x_n = x_z + size;
        Number *to_r = grad_u + row * grad_u_stride, *to_z = to_r + size, *to_n = to_z + size;
        float *gradient = carried + row * size;
        if (grad_states)
            for (Index i = 0; i < size; i++) gradient[i] += load(grad_states[row * grad_states_stride + i]);
        if (later && row < later_rows)
            for (Index i = 0; i < size; i++) gradient[i] += load(later[row * size + i]);
#pragma omp simd
        for (Index i = 0; i < size; i++) {
            const float g = gradient[i], r = load(reset[i]), z = load(update[i]), n = load(candidate[i]);
            const float grad_n = g * (1 - z) * (1 - n * n);
            const float grad_r = grad_n * load(u_n[i]) * r * (1 - r);
            const float grad_z = g * (load(h[i]) - n) * z * (1 - z);
            store(x_r[i], grad_r);
            store(x_z[i], grad_z);
            store(x_n[i], grad_n);
            store(to_r[i], grad_r);
            store(to_z[i], grad_z);
            store(to_n[i], grad_n * r);
            gradient[i] = g * z;
        }
    }
}
