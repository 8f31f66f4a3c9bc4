// Products with a constant matrix that is packed for them.
//
// A matrix W (outputs, inputs) is packed in panels (outputs / PANEL, inputs, PANEL), followed by its bias; both are padded
// with zeros to a multiple of PANEL outputs. A row of results does not depend on the other rows, not even in rounding.
#pragma once

#include "numbers.h"

namespace {

constexpr Index PANEL = 32;  // also in ops/layers.py

// A vector register, and the number of rows whose sums stay in registers.
#if defined(__AVX512F__)
constexpr int REGISTER = 64, GROUP = 8;
#elif defined(__AVX__)
constexpr int REGISTER = 32, GROUP = 3;
#else
constexpr int REGISTER = 16, GROUP = 1;
#endif
typedef float Lane __attribute__((vector_size(REGISTER), aligned(4), may_alias));

inline Lane load_register(const Number *from) {
#ifdef BFLOAT16
    typedef std::uint16_t Halves __attribute__((vector_size(REGISTER / 2), aligned(2), may_alias));
    typedef std::uint32_t Bits __attribute__((vector_size(REGISTER)));
    return (Lane)(__builtin_convertvector(*reinterpret_cast<const Halves *>(from), Bits) << 16);
#else
    return *reinterpret_cast<const Lane *>(from);
#endif
}

constexpr Index LANES = PANEL * sizeof(float) / REGISTER;
constexpr Index MOST_ROWS = 64;  // at a time: enough to use a weight often, few enough for a cache

Index padded(Index size) { return (size + PANEL - 1) / PANEL * PANEL; }

template <int ROWS>
void multiply(Index inputs, const float *x, Index x_stride, const float *panel, const float *bias, float *y,
              Index y_stride) {
    Lane sum[ROWS][LANES];
    for (int r = 0; r < ROWS; r++)
        for (Index l = 0; l < LANES; l++) sum[r][l] = reinterpret_cast<const Lane *>(bias)[l];
    for (Index k = 0; k < inputs; k++) {
        const Lane *w = reinterpret_cast<const Lane *>(panel + k * PANEL);
        for (int r = 0; r < ROWS; r++)
            for (Index l = 0; l < LANES; l++) sum[r][l] += x[r * x_stride + k] * w[l];
    }
    for (int r = 0; r < ROWS; r++)
        for (Index l = 0; l < LANES; l++) reinterpret_cast<Lane *>(y + r * y_stride)[l] = sum[r][l];
}

template <int ROWS>
void multiply_few(Index rows, Index inputs, const float *x, Index x_stride, const float *panel, const float *bias,
                  float *y, Index y_stride) {
    if (rows == ROWS)
        multiply<ROWS>(inputs, x, x_stride, panel, bias, y, y_stride);
    else if constexpr (ROWS > 1)
        multiply_few<ROWS - 1>(rows, inputs, x, x_stride, panel, bias, y, y_stride);
}

// y = W x + b of each row, for the outputs of one panel.
void multiply_all(Index rows, Index inputs, const float *x, Index x_stride, const float *panel, const float *bias,
                  float *y, Index y_stride) {
    for (Index row = 0; row < rows; row += GROUP)
        multiply_few<GROUP>(rows - row < GROUP ? rows - row : GROUP, inputs, x + row * x_stride, x_stride, panel, bias,
                            y + row * y_stride, y_stride);
}

}  // namespace
