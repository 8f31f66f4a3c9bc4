// Softmax attention over scaled dot products for training; the reference implementation is torch's, see ops/multi_head.py.
//
// Heads are side by side in every vector: queries (sentences, steps, heads * size), keys and values (sentences,
// positions, heads * size). One head of one sentence is six small products, which stay in a core's cache.
#include "panels.h"

namespace {

constexpr Index WIDTH = REGISTER / sizeof(float);

Index widened(Index size) { return (size + WIDTH - 1) / WIDTH * WIDTH; }

// A matrix whose rows are padded with zeros to whole registers.
struct Matrix {
    Index stride = 0;
    std::vector<float> numbers;

    void resize(Index rows, Index columns) {
        stride = widened(columns);
        numbers.assign(rows * stride, 0.0f);
    }
    float *row(Index at) { return numbers.data() + at * stride; }
};

// C = A B for ROWS rows and REGISTERS registers of columns; the numbers of a row of A are a_next apart.
template <int ROWS, int REGISTERS>
void multiply_block(Index inner, const float *a, Index a_row, Index a_next, const float *b, Index b_stride, float *c,
                    Index c_stride) {
    Lane sum[ROWS][REGISTERS] = {};
    for (Index i = 0; i < inner; i++)
        for (int l = 0; l < REGISTERS; l++) {
            const Lane factor = reinterpret_cast<const Lane *>(b + i * b_stride)[l];
            for (int r = 0; r < ROWS; r++) sum[r][l] += a[r * a_row + i * a_next] * factor;
        }
    for (int r = 0; r < ROWS; r++)
        for (int l = 0; l < REGISTERS; l++) reinterpret_cast<Lane *>(c + r * c_stride)[l] = sum[r][l];
}

template <int ROWS>
void multiply_rows(Index rows, Index inner, const float *a, Index a_row, Index a_next, Matrix &b, float *c,
                   Index c_stride) {
    if constexpr (ROWS > 1)
        if (rows < ROWS) return multiply_rows<ROWS - 1>(rows, inner, a, a_row, a_next, b, c, c_stride);
    Index column = 0;
    for (; column + 2 * WIDTH <= b.stride; column += 2 * WIDTH)
        multiply_block<ROWS, 2>(inner, a, a_row, a_next, b.row(0) + column, b.stride, c + column, c_stride);
    if (column < b.stride)
        multiply_block<ROWS, 1>(inner, a, a_row, a_next, b.row(0) + column, b.stride, c + column, c_stride);
}

// C (rows, columns) = A (rows, inner) B (inner, columns). The rows of A are a_row apart and the numbers of a row a_next,
// so that A can be the transpose of what is stored.
void multiply(Index rows, Index inner, const float *a, Index a_row, Index a_next, Matrix &b, Matrix &c) {
    for (Index row = 0; row < rows; row += GROUP)
        multiply_rows<GROUP>(rows - row, inner, a + row * a_row, a_row, a_next, b, c.row(row), c.stride);
}

// One head's part of tensors whose vectors are `stride` apart.
void read(Index rows, Index size, Index stride, const Number *from, Matrix &to) {
    for (Index row = 0; row < rows; row++)
        for (Index i = 0; i < size; i++) to.row(row)[i] = load(from[row * stride + i]);
}

void read_transposed(Index rows, Index size, Index stride, const Number *from, Matrix &to) {
    for (Index i = 0; i < size; i++)
        for (Index row = 0; row < rows; row++) to.row(i)[row] = load(from[row * stride + i]);
}

void write(Index rows, Index size, Index stride, Matrix &from, Number *to) {
    for (Index row = 0; row < rows; row++)
        for (Index i = 0; i < size; i++) store(to[row * stride + i], from.row(row)[i]);
}

// One head of one sentence. Rows of scores are computed to the end of their last register, where all are excluded.
struct Head {
    Index steps, positions, size;
    float scale;
    bool causal;                  // the steps are the last ones of the positions, and read up to their own
    std::vector<float> excluded;  // added to the scores of a step: 0, or -infinity where no token is
    Matrix q, k, k_transposed, v, v_transposed, weights, context, grad_context, grad_weights, grad_q, grad_k, grad_v;

    Head(Index steps, Index positions, Index size, bool causal, bool backward)
        : steps(steps), positions(positions), size(size), scale(1 / std::sqrt(float(size))), causal(causal),
          excluded(widened(positions), -INFINITY) {
        q.resize(steps, size);
        k_transposed.resize(size, positions);
        weights.resize(steps, positions);
        if (!backward) {
            v.resize(positions, size);
            context.resize(steps, size);
            return;
        }
        k.resize(positions, size);
        v_transposed.resize(size, positions);
        grad_weights.resize(steps, positions);
        for (Matrix *each : {&grad_context, &grad_q}) each->resize(steps, size);
        for (Matrix *each : {&grad_k, &grad_v}) each->resize(positions, size);
    }

    void exclude(const bool *is_token) {
        for (Index j = 0; j < positions; j++) excluded[j] = !is_token || is_token[j] ? 0.0f : -INFINITY;
    }

    // e_tj = scale q_t . k_j in `weights`, -infinity where a step may not read.
    void score() {
        multiply(steps, size, q.row(0), q.stride, 1, k_transposed, weights);
        for (Index t = 0; t < steps; t++) {
            float *row = weights.row(t);
            for (Index j = 0; j < weights.stride; j++) row[j] = row[j] * scale + excluded[j];
            for (Index j = causal ? t + positions - steps + 1 : positions; j < positions; j++) row[j] = -INFINITY;
        }
    }

    // exp(e_j - shift), exactly 0 where the step may not read, and their sum.
    float exponentials(float *row, float shift) {
        float total = 0;
#pragma omp simd reduction(+ : total)
        for (Index j = 0; j < weights.stride; j++) {
            const float e = exponential(row[j] - shift);
            row[j] = row[j] == -INFINITY ? 0.0f : e;
            total += row[j];
        }
        return total;
    }

    // C_t = sum_j a_tj v_j; log_sums (steps) gets log sum_j exp(e_tj).
    void forward(float *log_sums) {
        score();
        for (Index t = 0; t < steps; t++) {
            float *row = weights.row(t), highest = -INFINITY;
#pragma omp simd reduction(max : highest)
            for (Index j = 0; j < weights.stride; j++) highest = row[j] > highest ? row[j] : highest;
            const float total = exponentials(row, highest), factor = 1 / total;
            log_sums[t] = highest + std::log(total);
            for (Index j = 0; j < weights.stride; j++) row[j] *= factor;
        }
        multiply(steps, positions, weights.row(0), weights.stride, 1, v, context);
    }

    // dv_j = sum_t a_tj dC_t, de_tj = a_tj (dC_t . v_j - sum_k a_tk dC_t . v_k), dq_t = scale sum_j de_tj k_j, and
    // dk_j = scale sum_t de_tj q_t.
    void backward(const float *log_sums) {
        score();
        for (Index t = 0; t < steps; t++) exponentials(weights.row(t), log_sums[t]);
        multiply(positions, steps, weights.row(0), 1, weights.stride, grad_context, grad_v);
        multiply(steps, size, grad_context.row(0), grad_context.stride, 1, v_transposed, grad_weights);
        for (Index t = 0; t < steps; t++) {
            float *a = weights.row(t), *grad = grad_weights.row(t), mean = 0;
#pragma omp simd reduction(+ : mean)
            for (Index j = 0; j < weights.stride; j++) mean += a[j] * grad[j];
            for (Index j = 0; j < weights.stride; j++) grad[j] = scale * a[j] * (grad[j] - mean);
        }
        multiply(steps, positions, grad_weights.row(0), grad_weights.stride, 1, k, grad_q);
        multiply(positions, steps, grad_weights.row(0), 1, grad_weights.stride, q, grad_k);
    }
};

// Calls work(head, each, at, key_at) for each head of each sentence: number `each` of all, whose first query and context
// is `at` numbers from the beginning, and whose first key and value `key_at` numbers.
template <class Work>
void for_each_head(Index sentences, Index steps, Index positions, Index heads, Index size, bool causal, bool backward,
                   const bool *is_token, Index threads, Work work) {
    const Index stride = heads * size;
#pragma omp parallel num_threads(team(sentences * steps * positions * stride, threads))
    {
        Head head(steps, positions, size, causal, backward);
#pragma omp for schedule(static)
        for (Index each = 0; each < sentences * heads; each++) {
            const Index sentence = each / heads, first = each % heads * size;
            head.exclude(is_token ? is_token + sentence * positions : nullptr);
            work(head, each, sentence * steps * stride + first, sentence * positions * stride + first);
        }
    }
}

}  // namespace

// Contexts (sentences, steps, heads * size), and log_sums (sentences, heads, steps) for the backward pass. is_token
// (sentences, positions) may be null.
extern "C" void multi_head(Index sentences, Index steps, Index positions, Index heads, Index size, Index causal,
                           const Number *queries, const Number *keys, const Number *values, const bool *is_token,
                           Number *contexts, float *log_sums, Index threads) {
    const Index stride = heads * size;
    const auto work = [&](Head &head, Index each, Index at, Index key_at) {
        read(steps, size, stride, queries + at, head.q);
        read_transposed(positions, size, stride, keys + key_at, head.k_transposed);
        read(positions, size, stride, values + key_at, head.v);
        head.forward(log_sums + each * steps);
        write(steps, size, stride, head.context, contexts + at);
    };
    for_each_head(sentences, steps, positions, heads, size, causal != 0, false, is_token, threads, work);
}

// Gradients of queries, keys and values from that of the contexts, and the log_sums of the forward pass.
extern "C" void multi_head_backward(Index sentences, Index steps, Index positions, Index heads, Index size, Index causal,
                                    const Number *queries, const Number *keys, const Number *values,
                                    const bool *is_token, const float *log_sums, const Number *grad_contexts,
                                    Number *grad_queries, Number *grad_keys, Number *grad_values, Index threads) {
    const Index stride = heads * size;
    const auto work = [&](Head &head, Index each, Index at, Index key_at) {
        read(steps, size, stride, queries + at, head.q);
        read(positions, size, stride, keys + key_at, head.k);
        read_transposed(positions, size, stride, keys + key_at, head.k_transposed);
        read_transposed(positions, size, stride, values + key_at, head.v_transposed);
        read(steps, size, stride, grad_contexts + at, head.grad_context);
        head.backward(log_sums + each * steps);
        write(steps, size, stride, head.grad_q, grad_queries + at);
        write(positions, size, stride, head.grad_k, grad_keys + key_at);
        write(positions, size, stride, head.grad_v, grad_values + key_at);
    };
    for_each_head(sentences, steps, positions, heads, size, causal != 0, true, is_token, threads, work);
}
