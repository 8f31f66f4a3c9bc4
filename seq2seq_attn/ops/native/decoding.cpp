// Decoding with attention: additive scores, and the context under the softmax of any scores; the reference
// implementations are `Additive` and `Attention` in attention/.
#include "one_query.h"

// v . tanh(q + k) for the queries (sentences, queries, size) on the keys (sentences, length, size).
extern "C" void additive_scores(Index sentences, Index queries, Index length, Index size, const Number *query,
                                const float *keys, const float *v, Number *scores, Index threads) {
    const Index rows = sentences * queries;
#pragma omp parallel num_threads(team(rows * length * size, threads))
    {
        std::vector<float> copied(size);
        float *q = copied.data();
#pragma omp for
        for (Index row = 0; row < rows; row++) {
            for (Index i = 0; i < size; i++) q[i] = load(query[row * size + i]);
            const float *key = keys + row / queries * length * size;
            for (Index s = 0; s < length; s++)
                store(scores[row * length + s], additive_score(size, q, key + s * size, v));
        }
    }
}

// softmax of the scores (sentences, queries, length) over what is_token (sentences, length), all if it is null, and the
// contexts (sentences, queries, width) that these weights read of the values (sentences, length, width).
extern "C" void attention_read(Index sentences, Index queries, Index length, Index width, const Number *scores,
                               const bool *is_token, const Number *values, Number *weights, Number *contexts,
                               Index threads) {
    const Index rows = sentences * queries;
#pragma omp parallel num_threads(team(rows * length * width, threads))
    {
        std::vector<float> scored(length), summed(width);
        float *score = scored.data(), *sum = summed.data();
#pragma omp for
        for (Index row = 0; row < rows; row++) {
            const Index b = row / queries;
            for (Index s = 0; s < length; s++) score[s] = load(scores[row * length + s]);
            softmax_read(length, width, score, is_token ? is_token + b * length : nullptr, values + b * length * width,
                         weights + row * length, sum, contexts + row * width);
        }
    }
}
