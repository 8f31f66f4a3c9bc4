// What attention does for one query: additive scores, softmax over the tokens, and the weighted sum of the values.
#pragma once

#include "numbers.h"

// v . tanh(q + k), all three of length `size`.
inline float additive_score(Index size, const float *q, const float *k, const float *v) {
    float score = 0;
#pragma omp simd reduction(+ : score)
    for (Index i = 0; i < size; i++) score += v[i] * hyperbolic_tangent(q[i] + k[i]);
    return score;
}

// Of `score` (length), which becomes exponentials, the weights (length) over is_token (length), all if it is null, and
// the context (width) of the values (length, width). `sum` (width) is scratch space.
inline void softmax_read(Index length, Index width, float *score, const bool *is_token, const Number *values,
                         Number *weights, float *sum, Number *context) {
    const auto is_read = [&](Index s) { return !is_token || is_token[s]; };
    float highest = -INFINITY, total = 0;
    for (Index s = 0; s < length; s++)
        if (is_read(s)) highest = score[s] < highest ? highest : score[s];
    for (Index s = 0; s < length; s++) {
        score[s] = is_read(s) ? exponential(score[s] - highest) : 0;
        total += score[s];
    }
    for (Index i = 0; i < width; i++) sum[i] = 0;
    for (Index s = 0; s < length; s++) {
        store(weights[s], score[s] / total);
        if (!is_read(s)) continue;
        const Number *value = values + s * width;
        const float a = load(weights[s]);
#pragma omp simd
        for (Index i = 0; i < width; i++) sum[i] += a * load(value[i]);
    }
    for (Index i = 0; i < width; i++) store(context[i], sum[i]);
}
