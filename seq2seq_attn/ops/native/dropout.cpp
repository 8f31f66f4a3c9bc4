// Dropout without a stored mask; the reference implementation is torch's, see ops/dropout.py.
#include "numbers.h"

// A hash in which every input bit affects every output bit.
static inline std::uint32_t hash(std::uint32_t bits) {
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    return bits ^ bits >> 16;
}

// y = d(x), or addend + d(x), where d(x) is 0 with probability `dropped` / 2^16, otherwise x * scale. The mask is a
// function of the seed, so that the backward pass computes the same mask. addend may be null.
extern "C" void dropout(Index numbers, const Number *x, const Number *addend, Number *y, Index seed, Index dropped,
                        double scale, Index threads) {
    const std::uint32_t first = std::uint32_t(seed), second = std::uint32_t(std::uint64_t(seed) >> 32);
    const auto drop = [=](Index i) {
        const std::uint32_t bits = hash(hash(std::uint32_t(i) ^ first) + second);
        return bits >> 16 < std::uint32_t(dropped) ? 0.0f : load(x[i]) * float(scale);
    };
    if (addend) {
#pragma omp parallel for simd num_threads(team(numbers, threads))
        for (Index i = 0; i < numbers; i++) store(y[i], load(addend[i]) + drop(i));
    } else {
#pragma omp parallel for simd num_threads(team(numbers, threads))
        for (Index i = 0; i < numbers; i++) store(y[i], drop(i));
    }
}
