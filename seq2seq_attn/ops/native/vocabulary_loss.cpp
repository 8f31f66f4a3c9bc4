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

// As `vocabulary_loss` for pairs of rows 2i and 2i + 1 with one target each, p and q their softmax. To the gradients, it
// adds those of `weight` [KL(p || q) + KL(q || p)], and writes these divergences, without the weight, to `divergences`
// (pairs). `sums` are those of the gradients, before `at_target` is subtracted.
extern "C" void paired_loss(Index pairs, Index words, Number *logits, const float *bias, const Index *targets,
                            double at_target, double weight, float *log_probabilities, float *divergences,
                            Index blocks, float *sums, Index threads) {
    const float w = float(weight);
#pragma omp parallel num_threads(team(2 * pairs * words, threads))
    {
        std::vector<float> buffer(3 * words);
        float *p = buffer.data(), *q = p + words, *difference = q + words;  // of log p and log q
#pragma omp for schedule(dynamic)
        for (Index block = 0; block < blocks; block++) {
            float *sum = sums + block * words;
            for (Index i = 0; i < words; i++) sum[i] = 0;
            for (Index pair = pairs * block / blocks; pair < pairs * (block + 1) / blocks; pair++) {
                Number *first = logits + 2 * pair * words, *second = first + words;
                float highest_p = -INFINITY, highest_q = -INFINITY, total_p = 0, total_q = 0;
#pragma omp simd reduction(max : highest_p, highest_q)
                for (Index i = 0; i < words; i++) {
                    p[i] = load(first[i]) + bias[i];
                    q[i] = load(second[i]) + bias[i];
                    difference[i] = p[i] - q[i];
                    highest_p = p[i] > highest_p ? p[i] : highest_p;
                    highest_q = q[i] > highest_q ? q[i] : highest_q;
                }
                const Index target = targets[2 * pair];
                const float logit_p = p[target], logit_q = q[target];
#pragma omp simd reduction(+ : total_p, total_q)
                for (Index i = 0; i < words; i++) {
                    p[i] = exponential(p[i] - highest_p);
                    q[i] = exponential(q[i] - highest_q);
                    total_p += p[i];
                    total_q += q[i];
                }
                const float log_p = logit_p - highest_p - std::log(total_p);
                const float log_q = logit_q - highest_q - std::log(total_q);
                log_probabilities[2 * pair] = log_p;
                log_probabilities[2 * pair + 1] = log_q;
                const float scale_p = 1 / total_p, scale_q = 1 / total_q;
                const float shift = (log_p - log_q) - (logit_p - logit_q);
                float kl_pq = 0, kl_qp = 0;
#pragma omp simd reduction(+ : kl_pq, kl_qp)
                for (Index i = 0; i < words; i++) {
                    p[i] *= scale_p;
                    q[i] *= scale_q;
                    difference[i] += shift;
                    kl_pq += p[i] * difference[i];
                    kl_qp -= q[i] * difference[i];
                }
                divergences[pair] = kl_pq + kl_qp;
#pragma omp simd
                for (Index i = 0; i < words; i++) {
                    const float grad_p = p[i] + w * (p[i] * (difference[i] + 1 - kl_pq) - q[i]);
                    const float grad_q = q[i] + w * (q[i] * (1 - difference[i] - kl_qp) - p[i]);
                    sum[i] += grad_p + grad_q;
                    p[i] = grad_p;
                    q[i] = grad_q;
                }
                p[target] -= float(at_target);
                q[target] -= float(at_target);
#pragma omp simd
                for (Index i = 0; i < words; i++) {
                    store(first[i], p[i]);
                    store(second[i], q[i]);
                }
            }
        }
    }
}
