// A step of attention, forward and backward, with additive scores v . tanh(q + k), or with dot products q . k where v
// is null; the reference implementations are in ops/scorers.py.
//
// The hidden layer tanh(q + k) is never stored: it is summed while it is in registers, and recomputed in the backward
// pass. Padding is skipped.
#include "one_query.h"

// One query per sentence: query (sentences, size) with rows `query_stride` apart, keys (sentences, length, size),
// v (size) or null, is_token (sentences, length) or null for no padding, values (sentences, length, width). Writes the
// weights (sentences, length) and the contexts (sentences, width).
extern "C" void read_forward(Index sentences, Index length, Index size, Index width, const Number *query,
                             Index query_stride, const float *keys, const float *v, const bool *is_token,
                             const Number *values, Number *weights, Number *contexts, Index threads) {
#pragma omp parallel num_threads(team(sentences * length * size, threads))
    {
        std::vector<float> query_buffer(size), score_buffer(length), sum_buffer(width);
        float *q = query_buffer.data(), *score = score_buffer.data(), *sum = sum_buffer.data();
#pragma omp for
        for (Index b = 0; b < sentences; b++) {
            for (Index i = 0; i < size; i++) q[i] = load(query[b * query_stride + i]);
            const bool *mask = is_token ? is_token + b * length : nullptr;
            for (Index s = 0; s < length; s++) {
                if (mask && !mask[s]) continue;
                const float *key = keys + (b * length + s) * size;
                score[s] = v ? additive_score(size, q, key, v) : dot(size, q, key);
            }
            softmax_read(length, width, score, mask, values + b * length * width, weights + b * length, sum,
                         contexts + b * width);
        }
    }
}

// Writes the gradient of the query (sentences, size). Adds to the gradients of the keys (sentences, length, size) and
// of v, one row per sentence (sentences, size), unless v is null. `grad_weights` (sentences, length) may be null.
extern "C" void read_backward(Index sentences, Index length, Index size, Index width, const Number *query,
                              Index query_stride, const float *keys, const float *v, const Number *values,
                              const Number *weights, const Number *grad_contexts, const Number *grad_weights,
                              Number *grad_query, Index grad_query_stride, float *grad_keys, float *grad_v,
                              Index threads) {
#pragma omp parallel num_threads(team(sentences * length * size, threads))
    {
        std::vector<float> query_buffer(size), sum_buffer(size), context_buffer(width), score_buffer(length);
        float *q = query_buffer.data(), *grad_q = sum_buffer.data();
        float *grad_context = context_buffer.data(), *grad_score = score_buffer.data();
#pragma omp for
        for (Index b = 0; b < sentences; b++) {
            const Number *weight = weights + b * length;
            for (Index i = 0; i < size; i++) q[i] = load(query[b * query_stride + i]);
            for (Index i = 0; i < size; i++) grad_q[i] = 0;
            for (Index i = 0; i < width; i++) grad_context[i] = load(grad_contexts[b * width + i]);
            float mean = 0;  // of the weights' gradients under the weights
            for (Index s = 0; s < length; s++) {
                const Number *value = values + (b * length + s) * width;
                const float a = load(weight[s]);
                float grad_weight = grad_weights ? load(grad_weights[b * length + s]) : 0;
                if (a != 0) {
#pragma omp simd reduction(+ : grad_weight)
                    for (Index i = 0; i < width; i++) grad_weight += grad_context[i] * load(value[i]);
                }
                grad_score[s] = a * grad_weight;
                mean += grad_score[s];
            }
            for (Index s = 0; s < length; s++) {
                const float a = load(weight[s]);
                if (a == 0) continue;  // e.g. on padding: the score has no gradient
                const float g = grad_score[s] - a * mean;
                const float *key = keys + (b * length + s) * size;
                float *grad_key = grad_keys + (b * length + s) * size;
                if (v) {
                    additive_score_backward(size, g, q, key, v, grad_q, grad_key, grad_v + b * size);
                    continue;
                }
#pragma omp simd
                for (Index i = 0; i < size; i++) {
                    grad_key[i] += g * q[i];
                    grad_q[i] += g * key[i];
                }
            }
            for (Index i = 0; i < size; i++) store(grad_query[b * grad_query_stride + i], grad_q[i]);
        }
    }
}

// Gradient of the values (sentences, length, width): the sum over steps of weights (steps, sentences, length) times
// gradients of the contexts (steps, sentences, width).
extern "C" void values_backward(Index steps, Index sentences, Index length, Index width, const Number *weights,
                                const Number *grad_contexts, Number *grad_values, Index threads) {
#pragma omp parallel num_threads(team(steps * sentences * length * width, threads))
    {
        std::vector<float> sum_buffer(width);
        float *sum = sum_buffer.data();
#pragma omp for collapse(2)
        for (Index b = 0; b < sentences; b++) {
            for (Index s = 0; s < length; s++) {
                for (Index i = 0; i < width; i++) sum[i] = 0;
                for (Index t = 0; t < steps; t++) {
                    const float a = load(weights[(t * sentences + b) * length + s]);
                    if (a == 0) continue;
                    const Number *grad_context = grad_contexts + (t * sentences + b) * width;
#pragma omp simd
                    for (Index i = 0; i < width; i++) sum[i] += a * load(grad_context[i]);
                }
                for (Index i = 0; i < width; i++) store(grad_values[(b * length + s) * width + i], sum[i]);
            }
        }
    }
}
