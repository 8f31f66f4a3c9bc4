// Softmax over the vocabulary for the cross-entropy loss; the reference implementation is in ops/loss.py.
#include "numbers.h"

// log p(target) (rows) of the logits (rows, words) plus bias (words). Overwrites the logits by their softmax minus
// `at_target` at the target. `sums` (blocks, words) are the sums of the softmax over the rows of each block. The number
// of blocks is fixed and threads take whole blocks, so that results do not depend on the number of threads.
extern "C" void vocabulary_loss(Index rows, Index words, Number *logits, const float *bias, const Index *targets,
                                double at_target, float *log_probabilities, Index blocks, float *sums, Index threads) {
#pragma omp parallel num_threads(team(rows * words, threads))
    {
        std::vector<float> exponentials(words);
        float *e = exponentials.data();
#pragma omp for schedule(dynamic)
        for (Index block = 0; block < blocks; block++) {
            float *sum = sums + block * words;
            for (Index i = 0; i < words; i++) sum[i] = 0;
            for (Index row = rows * block / blocks; row < rows * (block + 1) / blocks; row++) {
                Number *logit = logits + row * words;
                float highest = -INFINITY, total = 0;
#pragma omp simd reduction(max : highest)
                for (Index i = 0; i < words; i++) {
                    e[i] = load(logit[i]) + bias[i];
                    highest = e[i] > highest ? e[i] : highest;
                }
                const Index target = targets[row];
                const float target_logit = e[target];
#pragma omp simd reduction(+ : total)
                for (Index i = 0; i < words; i++) {
                    e[i] = exponential(e[i] - highest);
                    total += e[i];
                }
                const float log_probability = target_logit - highest - std::log(total);
                log_probabilities[row] = log_probability;
                const float scale = 1 / total;
#pragma omp simd
                for (Index i = 0; i < words; i++) {
                    const float p = e[i] * scale;
                    sum[i] += p;
                    store(logit[i], p);
                }
                store(logit[target], std::exp(log_probability) - float(at_target));
            }
        }
    }
}
