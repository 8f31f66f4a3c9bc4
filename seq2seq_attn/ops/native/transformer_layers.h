// What the kernels of transformer.cpp share: the parameters of a layer, layer normalization, attention, and a block of rows
// on its way through the layers. Rows are vectors of the model, of tokens or of hypotheses.
#pragma once

#include "panels.h"

namespace {

// The parameters of a layer, one after the other.
struct Parameters {
    const float *next;

    const float *take(Index count) {
        const float *taken = next;
        next += count;
        return taken;
    }

    // y = W x + b of each row; the rows of y are padded.
    void linear(Index rows, Index inputs, Index outputs, const float *x, Index x_stride, float *y) {
        const Index width = padded(outputs);
        const float *panels = take(width * inputs), *bias = take(width);
        for (Index column = 0; column < width; column += PANEL)
            multiply_all(rows, inputs, x, x_stride, panels + column * inputs, bias + column, y + column, width);
    }

    // Layer normalization of each row; y may be x.
    void normalize(Index rows, Index size, Index stride, double epsilon, const float *x, float *y) {
        const float *scale = take(size), *shift = take(size);
        for (Index row = 0; row < rows; row++, x += stride, y += stride) {
            float sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
            for (Index i = 0; i < size; i++) sum += x[i];
            const float mean = sum / size;
#pragma omp simd reduction(+ : squares)
            for (Index i = 0; i < size; i++) squares += (x[i] - mean) * (x[i] - mean);
            const float factor = 1.0f / std::sqrt(squares / size + float(epsilon));
            for (Index i = 0; i < size; i++) y[i] = (x[i] - mean) * factor * scale[i] + shift[i];
        }
    }
};

// Softmax attention of one head: context (size) = sum_j a_j v_j, a_j = softmax_j(scale * q . k_j) over the positions
// j < length. at(j) points to k_j, and `to_value` numbers further to v_j. Overwrites score (length) with a.
template <class At>
void read(Index size, Index length, float scale, const float *q, At at, Index to_value, float *score, float *context) {
    float highest = -INFINITY, total = 0;
    for (Index j = 0; j < length; j++) {
        const float *key = at(j);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (Index i = 0; i < size; i++) sum += q[i] * key[i];
        score[j] = sum * scale;
        highest = score[j] < highest ? highest : score[j];
    }
#pragma omp simd reduction(+ : total)
    for (Index j = 0; j < length; j++) {
        score[j] = exponential(score[j] - highest);
        total += score[j];
    }
    for (Index j = 0; j < length; j++) score[j] /= total;
    Index i = 0;
    for (; i + PANEL <= size; i += PANEL) {
        Lane sum[LANES] = {};
        for (Index j = 0; j < length; j++) {
            const Lane *value = reinterpret_cast<const Lane *>(at(j) + to_value + i);
            for (Index l = 0; l < LANES; l++) sum[l] += score[j] * value[l];
        }
        for (Index l = 0; l < LANES; l++) reinterpret_cast<Lane *>(context + i)[l] = sum[l];
    }
    for (; i < size; i++) {
        context[i] = 0;
        for (Index j = 0; j < length; j++) context[i] += score[j] * at(j)[to_value + i];
    }
}

enum Activation : Index { RELU, GELU, SWIGLU };

void activate(Index rows, Index size, Index stride, Activation activation, float *hidden, const float *gate) {
    for (Index row = 0; row < rows; row++) {
        float *h = hidden + row * stride;
        if (activation == RELU)
            for (Index i = 0; i < size; i++) h[i] = h[i] < 0 ? 0 : h[i];
        else if (activation == GELU)
            for (Index i = 0; i < size; i++) h[i] *= 0.5f * (1.0f + std::erf(h[i] * 0.7071067811865476f));
        else
            for (Index i = 0; i < size; i++) h[i] *= sigmoid(h[i]) * gate[row * stride + i];
    }
}

struct Layers {
    Index count, size, heads, hidden_size;
    bool norm_first;
    Activation activation;
    double epsilon;           // of layer normalization
    const float *parameters;  // (count, per_layer): of each layer, in the order in which they are used
    Index per_layer;

    Index head_size() const { return size / heads; }
    float scale() const { return 1.0f / std::sqrt(float(head_size())); }
};

// A block of rows on its way through the layers, and scratch space. Rows of x, y and z are `width` numbers apart.
struct Block {
    const Layers &layers;
    const Index width, wide, hidden_width;
    std::vector<float> x_buffer, y_buffer, z_buffer, wide_buffer, hidden_buffer, gate_buffer, score_buffer;
    float *x, *y, *z, *qkv, *score;
    Index rows = 0;
    Parameters parameters{nullptr};

    Block(const Layers &layers, Index most, Index longest)
        : layers(layers),
          width(padded(layers.size)),
          wide(padded(3 * layers.size)),
          hidden_width(padded(layers.hidden_size)),
          x_buffer(most * width),
          y_buffer(most * width),
          z_buffer(most * width),
          wide_buffer(most * wide),
          hidden_buffer(most * hidden_width),
          gate_buffer(layers.activation == SWIGLU ? most * hidden_width : 0),
          score_buffer(longest),
          x(x_buffer.data()),
          y(y_buffer.data()),
          z(z_buffer.data()),
          qkv(wide_buffer.data()),
          score(score_buffer.data()) {}

    void start(Index layer) { parameters.next = layers.parameters + layer * layers.per_layer; }

    // z = W f + b, the output of a sublayer or an intermediate product.
    void multiply(Index outputs, const float *f, float *result) {
        parameters.linear(rows, layers.size, outputs, f, width, result);
    }

    // The input of a sublayer: x, or its normalization in y.
    const float *before() {
        if (!layers.norm_first) return x;
        parameters.normalize(rows, layers.size, width, layers.epsilon, x, y);
        return y;
    }

    // x = x + z, normalized if it was not before.
    void after() {
        for (Index i = 0; i < rows * width; i++) x[i] += z[i];
        if (!layers.norm_first) parameters.normalize(rows, layers.size, width, layers.epsilon, x, x);
    }

    void feed_forward() {
        const float *input = before();
        float *hidden = hidden_buffer.data(), *gate = gate_buffer.data();
        multiply(layers.hidden_size, input, hidden);
        if (layers.activation == SWIGLU) multiply(layers.hidden_size, input, gate);
        activate(rows, layers.hidden_size, hidden_width, layers.activation, hidden, gate);
        parameters.linear(rows, layers.hidden_size, layers.size, hidden, hidden_width, z);
        after();
    }
};

}  // namespace
