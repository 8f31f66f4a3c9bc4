// Attention with additive scores: a step and its way back; the plain statement is in models/recurrent/additive_step.py.
//
// The hidden layer tanh(q + k) of a sentence is never stored: it is summed while it is in registers, and computed again
// on the way back. A position that is no token is passed over.
#include "one_query.h"

// One query a sentence: weights (sentences, length) and contexts (sentences, width) of the values.
extern "C" void additive_forward(Index sentences, Index length, Index size, Index width, const Number *query,
                                 Index query_stride, const float *keys, const float *v, const bool *is_token,
                                 const Number *values, Number *weights, Number *contexts, Index threads) {
#pragma omp parallel num_threads(team(sentences * length * size, threads))
    {
        std::vector<float> copied(size), scored(length), summed(width);
        float *q = copied.data(), *score = scored.data(), *sum = summed.data();
#pragma omp for
        for (Index b = 0; b < sentences; b++) {
            for (Index i = 0; i < size; i++) q[i] = load(query[b * query_stride + i]);
            const bool *is_read = is_token ? is_token + b * length : nullptr;
            for (Index s = 0; s < length; s++) {
                if (is_read && !is_read[s]) continue;
                score[s] = additive_score(size, q, keys + (b * length + s) * size, v);
            }
            softmax_read(length, width, score, is_read, values + b * length * width, weights + b * length, sum,
                         contexts + b * width);
        }
    }
}

// Gradients of the query, written; of keys (sentences, length, size) and of v, a row a sentence, added to what is
// there. `of_weights` may be null.
extern "C" void additive_backward(Index sentences, Index length, Index size, Index width, const Number *query,
                                  Index query_stride, const float *keys, const float *v, const Number *values,
                                  const Number *weights, const Number *of_contexts, const Number *of_weights,
                                  Number *of_query, Index of_query_stride, float *of_keys, float *of_v,
                                  Index threads) {
#pragma omp parallel num_threads(team(sentences * length * size, threads))
    {
        std::vector<float> copied(size), summed(size), read(width), scored(length);
        float *q = copied.data(), *of_q = summed.data(), *of_context = read.data(), *of_score = scored.data();
#pragma omp for
        for (Index b = 0; b < sentences; b++) {
            const Number *weight = weights + b * length;
            for (Index i = 0; i < size; i++) q[i] = load(query[b * query_stride + i]);
            for (Index i = 0; i < size; i++) of_q[i] = 0;
            for (Index i = 0; i < width; i++) of_context[i] = load(of_contexts[b * width + i]);
            float mean = 0;
            for (Index s = 0; s < length; s++) {
                const Number *value = values + (b * length + s) * width;
                const float a = load(weight[s]);
                float of_weight = of_weights ? load(of_weights[b * length + s]) : 0;
                if (a != 0) {
#pragma omp simd reduction(+ : of_weight)
                    for (Index i = 0; i < width; i++) of_weight += of_context[i] * load(value[i]);
                }
                of_score[s] = a * of_weight;
                mean += of_score[s];
            }
            float *to_v = of_v + b * size;
            for (Index s = 0; s < length; s++) {
                const float a = load(weight[s]);
                if (a == 0) continue;  // as on padding: such a score has no gradient
                const float g = of_score[s] - a * mean;
                const float *key = keys + (b * length + s) * size;
                float *of_key = of_keys + (b * length + s) * size;
#pragma omp simd
                for (Index i = 0; i < size; i++) {
                    const float t = hyperbolic_tangent(q[i] + key[i]);
                    const float slope = g * v[i] * (1 - t * t);
                    to_v[i] += g * t;
                    of_key[i] += slope;
                    of_q[i] += slope;
                }
            }
            for (Index i = 0; i < size; i++) store(of_query[b * of_query_stride + i], of_q[i]);
        }
    }
}

// Gradient of the values (sentences, length, width): of all steps' weights (steps, sentences, length) and gradients of
// the contexts (steps, sentences, width) the sum of products.
extern "C" void values_backward(Index steps, Index sentences, Index length, Index width, const Number *weights,
                                const Number *of_contexts, Number *of_values, Index threads) {
#pragma omp parallel num_threads(team(steps * sentences * length * width, threads))
    {
        std::vector<float> summed(width);
        float *sum = summed.data();
#pragma omp for collapse(2)
        for (Index b = 0; b < sentences; b++) {
            for (Index s = 0; s < length; s++) {
                for (Index i = 0; i < width; i++) sum[i] = 0;
                for (Index t = 0; t < steps; t++) {
                    const float a = load(weights[(t * sentences + b) * length + s]);
                    if (a == 0) continue;
                    const Number *of_context = of_contexts + (t * sentences + b) * width;
#pragma omp simd
                    for (Index i = 0; i < width; i++) sum[i] += a * load(of_context[i]);
                }
                for (Index i = 0; i < width; i++) store(of_values[(b * length + s) * width + i], sum[i]);
            }
        }
    }
}
