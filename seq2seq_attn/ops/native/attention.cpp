// Attention with any number of queries: additive scores, forward and backward, and weights and contexts from any scores;
// the reference implementations are `Additive` and `Attention` in attention/.
//
// The hidden layer tanh(q + k) is never stored, as in reading.cpp.
#include "one_query.h"

// Scores v . tanh(q + k) (sentences, queries, length) of queries (sentences, queries, size), keys (sentences, length,
// size) and v (size).
extern "C" void additive_scores(Index sentences, Index queries, Index length, Index size, const Number *query,
                                const float *keys, const float *v, Number *scores, Index threads) {
    const Index rows = sentences * queries;
#pragma omp parallel num_threads(team(rows * length * size, threads))
    {
        std::vector<float> query_buffer(size);
        float *q = query_buffer.data();
#pragma omp for
        for (Index row = 0; row < rows; row++) {
            for (Index i = 0; i < size; i++) q[i] = load(query[row * size + i]);
            const float *key = keys + row / queries * length * size;
            for (Index s = 0; s < length; s++)
                store(scores[row * length + s], additive_score(size, q, key + s * size, v));
        }
    }
}

// Writes the gradients of the queries (sentences, queries, size). Adds to those of the keys (sentences, length, size) and
// of v, one row per sentence (sentences, size). Scores without a gradient, e.g. those of padding, cost nothing.
extern "C" void additive_scores_backward(Index sentences, Index queries, Index length, Index size, const Number *query,
                                         const float *keys, const float *v, const Number *grad_scores,
                                         Number *grad_query, float *grad_keys, float *grad_v, Index threads) {
#pragma omp parallel num_threads(team(sentences * queries * length * size, threads))
    {
        std::vector<float> query_buffer(size), sum_buffer(size);
        float *q = query_buffer.data(), *grad_q = sum_buffer.data();
#pragma omp for
        for (Index b = 0; b < sentences; b++) {
            for (Index row = b * queries; row < (b + 1) * queries; row++) {
                for (Index i = 0; i < size; i++) q[i] = load(query[row * size + i]);
                for (Index i = 0; i < size; i++) grad_q[i] = 0;
                for (Index s = 0; s < length; s++) {
                    const float g = load(grad_scores[row * length + s]);
                    const Index key = (b * length + s) * size;
                    if (g == 0) continue;
                    additive_score_backward(size, g, q, keys + key, v, grad_q, grad_keys + key, grad_v + b * size);
                }
                for (Index i = 0; i < size; i++) store(grad_query[row * size + i], grad_q[i]);
            }
        }
    }
}

// Weights: the softmax of the scores (sentences, queries, length) over tokens, where is_token (sentences, length) is
// null for no padding; and contexts (sentences, queries, width): the weighted sums of the values (sentences, length,
// width).
extern "C" void attention_read(Index sentences, Index queries, Index length, Index width, const Number *scores,
                               const bool *is_token, const Number *values, Number *weights, Number *contexts,
                               Index threads) {
    const Index rows = sentences * queries;
#pragma omp parallel num_threads(team(rows * length * width, threads))
    {
        std::vector<float> score_buffer(length), sum_buffer(width);
        float *score = score_buffer.data(), *sum = sum_buffer.data();
#pragma omp for
        for (Index row = 0; row < rows; row++) {
            const Index b = row / queries;
            for (Index s = 0; s < length; s++) score[s] = load(scores[row * length + s]);
            softmax_read(length, width, score, is_token ? is_token + b * length : nullptr, values + b * length * width,
                         weights + row * length, sum, contexts + row * width);
        }
    }
}
