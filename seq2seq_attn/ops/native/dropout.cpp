// Dropout without a stored mask; the reference implementation is torch's, see ops/layers.py.
#include "numbers.h"

// A hash in which every input bit affects every output bit.
static inline std::uint32_t hash(std::uint32_t bits) {
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    return bits ^ bits >> 16;
}

// y_i is 0 with probability `dropped` / 2^16, otherwise x_i * scale. The mask is a function of the seed, so that the
// backward pass computes the same mask. One hash decides on an element of the first half and on one of the second.
extern "C" void dropout(Index numbers, const Number *x, Number *y, Index seed, Index dropped, double scale,
                        Index threads) {
    const std::uint32_t first = std::uint32_t(seed), second = std::uint32_t(std::uint64_t(seed) >> 32);
    const Index half = numbers / 2;
    const float kept = float(scale);
    const std::uint32_t limit = std::uint32_t(dropped);
#pragma omp parallel for simd num_threads(team(numbers, threads))
    for (Index i = 0; i < half; i++) {
        const std::uint32_t bits = hash(hash(std::uint32_t(i) ^ first) + second);
        store(y[i], bits >> 16 < limit ? 0.0f : load(x[i]) * kept);
        store(y[half + i], (bits & 0xffff) < limit ? 0.0f : load(x[half + i]) * kept);
    }
    if (numbers % 2) {
        const std::uint32_t bits = hash(hash(std::uint32_t(half) ^ first) + second);
        store(y[numbers - 1], bits >> 16 < limit ? 0.0f : load(x[numbers - 1]) * kept);
    }
}
