// Common to all kernels: numbers in fp32 or bf16, the exponential and functions of it, and the number of threads.
//
// Every file is compiled once for fp32 and once, with BFLOAT16 defined, for bf16. Kernels compute in fp32 and round
// when they store. NaN propagates, so that diverging training is noticed.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

using Index = std::int64_t;

#ifdef BFLOAT16
struct Number {
    std::uint16_t bits;
};
#else
using Number = float;
#endif

template <class To, class From>
inline To same_bits(From from) {
    static_assert(sizeof(To) == sizeof(From), "both types have the same size");
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline float load(const Number &place) {
#ifdef BFLOAT16
    return same_bits<float>(std::uint32_t(place.bits) << 16);
#else
    return place;
#endif
}

inline void store(Number &place, float x) {
#ifdef BFLOAT16
    const auto bits = same_bits<std::uint32_t>(x);
    const auto nearest = std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);  // ties to even
    place.bits = x == x ? nearest : std::uint16_t(0x7fc0);
#else
    place = x;
#endif
}

// e^x with an error of at most two units in the last place, in operations that compilers vectorize: 2^n e^r with an
// integer n and |r| <= log(2) / 2, and e^r by its Taylor series up to r^7. x is clamped to [-87, 88], so that the
// result is neither infinite nor zero.
inline float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float shift = 12582912.0f;  // 1.5 * 2^23: numbers of this size have no fractional bits
    const float shifted = x * 1.442695041f + shift;
    const float n = shifted - shift;
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // log(2) in two parts, which keeps r exact
    float e = 1.0f / 5040;
    e = e * r + 1.0f / 720;
    e = e * r + 1.0f / 120;
    e = e * r + 1.0f / 24;
    e = e * r + 1.0f / 6;
    e = e * r + 0.5f;
    e = e * r + 1.0f;
    e = e * r + 1.0f;
    return e * same_bits<float>((same_bits<std::uint32_t>(shifted) + 127) << 23);
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

inline float hyperbolic_tangent(float x) { return 1.0f - 2.0f / (1.0f + exponential(2.0f * x)); }

// The number of threads to use for this many numbers: starting a thread takes as long as several thousand of them.
inline int team(Index numbers, Index threads) { return numbers < (1 << 14) ? 1 : int(threads); }
