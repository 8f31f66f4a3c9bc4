// A linear layer whose weight is packed in panels; the reference implementation is torch's.
#include "panels.h"

// y (rows, outputs) = x W' + b of x (rows, inputs).
extern "C" void panel_linear(Index rows, Index inputs, Index outputs, const float *x, const float *panels,
                             const float *bias, float *y, Index threads) {
    const Index count = padded(outputs) / PANEL;
#pragma omp parallel num_threads(team(rows * inputs * outputs, threads))
    for (Index first = 0; first < rows; first += MOST_ROWS) {  // few enough for their pages of y to stay addressable
        const Index some = rows - first < MOST_ROWS ? rows - first : MOST_ROWS;
        const float *from = x + first * inputs;
        float *to = y + first * outputs;
#pragma omp for schedule(static) nowait
        for (Index each = 0; each < count; each++) {
            const Index column = each * PANEL, left = outputs - column;
            const float *panel = panels + column * inputs;
            if (left >= PANEL) {
                multiply_all(some, inputs, from, inputs, panel, bias + column, to + column, outputs);
                continue;
            }
            float last[MOST_ROWS * PANEL];  // the last panel is wider than what is left of y
            multiply_all(some, inputs, from, inputs, panel, bias + column, last, PANEL);
            for (Index row = 0; row < some; row++)
                std::memcpy(to + row * outputs + column, last + row * PANEL, left * sizeof(float));
        }
    }
}
