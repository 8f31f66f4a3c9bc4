// Attention for one query: additive scores or dot products, softmax over tokens, and the weighted sum of the values.
#pragma once

#include "numbers.h"

// v . tanh(q + k), all three of length `size`.
inline float additive_score(Index size, const float *q, const float *k, const float *v) {
    float score = 0;
#pragma omp simd reduction(+ : score)
    for (Index i = 0; i < size; i++) score += v[i] * hyperbolic_tangent(q[i] + k[i]);
    return score;
}

// Adds g times the gradients of `additive_score` to those of q, k and v.
inline void additive_score_backward(Index size, float g, const float *q, const float *k, const float *v, float *grad_q,
                                    float *grad_k, float *grad_v) {
#pragma omp simd
    for (Index i = 0; i < size; i++) {
        const float t = hyperbolic_tangent(q[i] + k[i]);
        const float slope = g * v[i] * (1 - t * t);
        grad_v[i] += g * t;
        grad_k[i] += slope;
        grad_q[i] += slope;
    }
}

// q . k, both of length `size`.
inline float dot(Index size, const float *q, const float *k) {
    float score = 0;
#pragma omp simd reduction(+ : score)
    for (Index i = 0; i < size; i++) score += q[i] * k[i];
    return score;
}

// Weights (length): the softmax of `score` (length) over tokens, where is_token (length) is null for no padding; and
// context (width): the weighted sum of the values (length, width). Overwrites `score`; `sum` (width) is scratch space.
inline void softmax_read(Index length, Index width, float *score, const bool *is_token, const Number *values,
                         Number *weights, float *sum, Number *context) {
    const auto is_open = [&](Index s) { return !is_token || is_token[s]; };
    float highest = -INFINITY, total = 0;
    for (Index s = 0; s < length; s++)
        if (is_open(s)) highest = score[s] < highest ? highest : score[s];
    for (Index s = 0; s < length; s++) {
        score[s] = is_open(s) && score[s] != -INFINITY ? exponential(score[s] - highest) : 0;
        total += score[s];
    }
    for (Index i = 0; i < width; i++) sum[i] = 0;
    for (Index s = 0; s < length; s++) {
        store(weights[s], score[s] / total);
        if (!is_open(s)) continue;
        const Number *value = values + s * width;
        const float a = load(weights[s]);
#pragma omp simd
        for (Index i = 0; i < width; i++) sum[i] += a * load(value[i]);
    }
    for (Index i = 0; i < width; i++) store(context[i], sum[i]);
}
