// Dropout whose mask is never stored; the caller is ops/dropout.py.
#include "numbers.h"

// Mixes all bits by multiplications and shifts (a hash).
static inline std::uint32_t mixed(std::uint32_t bits) {
    bits = (bits ^ bits >> 16) * 0x7feb352du;
    bits = (bits ^ bits >> 15) * 0x846ca68bu;
    return bits ^ bits >> 16;
}

// Numbers whose random bits are below `dropped` / 2^16 become 0, the others x * scale. The same seed drops the same
// places, in the backward pass as well.
extern "C" void dropout(Index numbers, const Number *x, Number *y, Index seed, Index dropped, double scale,
                        Index threads) {
    const std::uint32_t first = std::uint32_t(seed), second = std::uint32_t(std::uint64_t(seed) >> 32);
#pragma omp parallel for simd num_threads(team(numbers, threads))
    for (Index i = 0; i < numbers; i++) {
        const std::uint32_t bits = mixed(mixed(std::uint32_t(i) ^ first) + second);
        store(y[i], bits >> 16 < std::uint32_t(dropped) ? 0.0f : load(x[i]) * float(scale));
    }
}
