// Attention in decoding: additive scores, and weights and contexts from any scores; the reference implementations are
// `Additive` and `Attention` in attention/.
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
