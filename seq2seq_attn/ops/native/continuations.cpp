// The best continuations of hypotheses; the reference implementation is in ops/continuations.py.
#include "numbers.h"

static const Index BLOCK = 64;  // words; a block is skipped if its best score is below the current `count` best

// The `count` best continuations of each sentence by live + log softmax of the logits (sentences * hypotheses, words),
// best first: their scores, parents and tokens (sentences, count). Ties go to the lower parent, then the lower token.
// If there are fewer, the remaining scores are -infinity. The `exclusions` words in `excluded` are never chosen. `ends`
// (sentences, hypotheses) is log softmax at the word `end`, or -infinity if that word is excluded.
extern "C" void best_continuations(Index sentences, Index hypotheses, Index words, Index count, const Number *logits,
                                   const float *live, Index end, Index exclusions, const Index *excluded, float *scores,
                                   Index *parents, Index *tokens, float *ends, Index threads) {
#pragma omp parallel num_threads(sentences > 1 ? team(sentences * hypotheses * words, threads) : 1)
    {
        std::vector<float> logit_buffer(words);
        float *logit = logit_buffer.data();
#pragma omp for
        for (Index b = 0; b < sentences; b++) {
            float *score = scores + b * count;
            Index *parent = parents + b * count, *token = tokens + b * count;
            for (Index i = 0; i < count; i++) score[i] = -INFINITY, parent[i] = 0, token[i] = 0;
            for (Index k = 0; k < hypotheses; k++) {
                const Index row = b * hypotheses + k;
                float highest = -INFINITY, total = 0;
#pragma omp simd reduction(max : highest)
                for (Index i = 0; i < words; i++) {
                    logit[i] = load(logits[row * words + i]);
                    highest = logit[i] > highest ? logit[i] : highest;
                }
#pragma omp simd reduction(+ : total)
                for (Index i = 0; i < words; i++) total += exponential(logit[i] - highest);
                const float normalizer = highest + std::log(total), prefix = live[row];
                for (Index i = 0; i < exclusions; i++) logit[excluded[i]] = -INFINITY;
                ends[row] = logit[end] - normalizer;
                for (Index first = 0; first < words; first += BLOCK) {
                    const Index beyond = first + BLOCK < words ? first + BLOCK : words;
                    float best = -INFINITY;
#pragma omp simd reduction(max : best)
                    for (Index i = first; i < beyond; i++) best = logit[i] > best ? logit[i] : best;
                    if (!(best - normalizer + prefix > score[count - 1])) continue;
                    for (Index i = first; i < beyond; i++) {
                        const float candidate = logit[i] - normalizer + prefix;
                        if (!(candidate > score[count - 1])) continue;
                        Index place = count - 1;
                        for (; place > 0 && candidate > score[place - 1]; place--) {
                            score[place] = score[place - 1];
                            parent[place] = parent[place - 1];
                            token[place] = token[place - 1];
                        }
                        score[place] = candidate, parent[place] = k, token[place] = i;
                    }
                }
            }
        }
    }
}
