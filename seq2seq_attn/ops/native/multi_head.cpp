// Softmax attention over scaled dot products for training; the reference implementation is torch's, see ops/attention.py.
//
// Heads are side by side in every vector: queries (sentences, steps, heads * size), keys and values (sentences,
// positions, heads * size). One head of one sentence is six small products, which stay in a core's cache.
#include <algorithm>
#include <utility>

#include "panels.h"

namespace {

constexpr Index WIDTH = REGISTER / sizeof(float);

Index widened(Index size) { return (size + WIDTH - 1) / WIDTH * WIDTH; }

// A matrix whose rows are `stride` apart and have a whole number of registers. It has memory of its own, padded with
// zeros, or is part of a tensor.
struct Matrix {
    Index columns = 0, stride = 0;
    float *first = nullptr;
    std::vector<float> memory;

    void resize(Index rows, Index size) {
        columns = stride = widened(size);
        memory.assign(rows * stride, 0.0f);
        first = memory.data();
    }
    float *row(Index at) { return first + at * stride; }

    // Makes it the part of a tensor that begins here, if that needs no conversion and no padding.
    bool place(Index size, Index tensor_stride, const Number *begin) {
#ifdef BFLOAT16
        return false;
#else
        if (size != columns) return false;
        stride = tensor_stride;
        first = const_cast<float *>(begin);
        return true;
#endif
    }
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
    for (; column + 2 * WIDTH <= b.columns; column += 2 * WIDTH)
        multiply_block<ROWS, 2>(inner, a, a_row, a_next, b.row(0) + column, b.stride, c + column, c_stride);
    if (column < b.columns)
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
    if (to.place(size, stride, from)) return;
    for (Index row = 0; row < rows; row++)
        for (Index i = 0; i < size; i++) to.row(row)[i] = load(from[row * stride + i]);
}

// a_0 b_0 a_1 b_1 ... from a_FIRST and b_FIRST on.
template <Index FIRST, Index... I>
Lane interleaved(Lane a, Lane b, std::integer_sequence<Index, I...>) {
#ifdef __clang__
    return __builtin_shufflevector(a, b, (I % 2 * WIDTH + I / 2 + FIRST)...);
#else
    typedef std::int32_t Places __attribute__((vector_size(REGISTER)));
    return __builtin_shuffle(a, b, Places{std::int32_t(I % 2 * WIDTH + I / 2 + FIRST)...});
#endif
}

// A tile of as many rows as columns. Each round moves the highest bit of a row's index to the lowest of the column's,
// and the highest bit of the column's to the lowest of the row's.
void transpose(Lane (&tile)[WIDTH]) {
    constexpr auto all = std::make_integer_sequence<Index, WIDTH>();
    constexpr Index half = WIDTH / 2;
    for (Index round = 1; round < WIDTH; round *= 2) {
        Lane shuffled[WIDTH];
        for (Index row = 0; row < half; row++) {
            shuffled[2 * row] = interleaved<0>(tile[row], tile[row + half], all);
            shuffled[2 * row + 1] = interleaved<half>(tile[row], tile[row + half], all);
        }
        for (Index row = 0; row < WIDTH; row++) tile[row] = shuffled[row];
    }
}

// A register with these numbers, at most WIDTH, and zeros.
Lane first_numbers(Index count, const Number *from) {
    if (count == WIDTH) return load_register(from);
    Lane numbers = {};
    for (Index i = 0; i < count; i++) numbers[i] = load(from[i]);
    return numbers;
}

void read_transposed(Index rows, Index size, Index stride, const Number *from, Matrix &to) {
    for (Index row = 0; row < rows; row += WIDTH)
        for (Index column = 0; column < size; column += WIDTH) {
            const Index height = std::min(WIDTH, rows - row), width = std::min(WIDTH, size - column);
            Lane tile[WIDTH] = {};
            for (Index r = 0; r < height; r++) tile[r] = first_numbers(width, from + (row + r) * stride + column);
            transpose(tile);
            for (Index i = 0; i < width; i++) *reinterpret_cast<Lane *>(to.row(column + i) + row) = tile[i];
        }
}

// Where the results of a head go: into the tensor itself, or into memory from which `write` copies them.
void write(Index rows, Index size, Index stride, Matrix &from, Number *to) {
    if (from.first == reinterpret_cast<float *>(to)) return;
    for (Index row = 0; row < rows; row++)
        for (Index i = 0; i < size; i++) store(to[row * stride + i], from.row(row)[i]);
}

// One head of one sentence. Rows of scores are computed to the end of their last register, where all are excluded.
struct Head {
    Index steps, positions, size;
    float scale;
    bool causal;                  // the steps are the last ones of the positions, and read up to their own
    std::vector<float> excluded;  // added to all scores of a position: 0, or -infinity where no token is
    Matrix future;                // added to the scores of a step: 0, or -infinity after its own position
    Matrix q, k, k_transposed, v, v_transposed, weights, context, grad_context, grad_weights, grad_q, grad_k, grad_v;

    Head(Index steps, Index positions, Index size, bool causal, bool backward)
        : steps(steps), positions(positions), size(size), scale(1 / std::sqrt(float(size))), causal(causal),
          excluded(widened(positions), -INFINITY) {
        future.resize(causal ? steps : 1, positions);
        for (Index t = 0; causal && t < steps; t++)
            for (Index j = t + positions - steps + 1; j < positions; j++) future.row(t)[j] = -INFINITY;
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

    // a_tj = exp(e_tj) / sum_k exp(e_tk) of e_tj = scale q_t . k_j, exactly 0 where a step may not read.
    void weigh() {
        multiply(steps, size, q.row(0), q.stride, 1, k_transposed, weights);
        for (Index t = 0; t < steps; t++) {
            float *row = weights.row(t), *later = future.row(causal ? t : 0), highest = -INFINITY, total = 0;
#pragma omp simd reduction(max : highest)
            for (Index j = 0; j < weights.columns; j++) {
                row[j] = row[j] * scale + (excluded[j] + later[j]);
                highest = row[j] > highest ? row[j] : highest;
            }
#pragma omp simd reduction(+ : total)
            for (Index j = 0; j < weights.columns; j++) {
                const float e = exponential(row[j] - highest);
                row[j] = row[j] == -INFINITY ? 0.0f : e;
                total += row[j];
            }
            const float factor = 1 / total;
            for (Index j = 0; j < weights.columns; j++) row[j] *= factor;
        }
    }

    // C_t = sum_j a_tj v_j.
    void forward() {
        weigh();
        multiply(steps, positions, weights.row(0), weights.stride, 1, v, context);
    }

    // dv_j = sum_t a_tj dC_t, de_tj = a_tj (dC_t . v_j - sum_k a_tk dC_t . v_k), dq_t = scale sum_j de_tj k_j, and
    // dk_j = scale sum_t de_tj q_t.
    void backward() {
        weigh();
        multiply(positions, steps, weights.row(0), 1, weights.stride, grad_context, grad_v);
        multiply(steps, size, grad_context.row(0), grad_context.stride, 1, v_transposed, grad_weights);
        for (Index t = 0; t < steps; t++) {
            float *a = weights.row(t), *grad = grad_weights.row(t), mean = 0;
#pragma omp simd reduction(+ : mean)
            for (Index j = 0; j < weights.columns; j++) mean += a[j] * grad[j];
            for (Index j = 0; j < weights.columns; j++) grad[j] = scale * a[j] * (grad[j] - mean);
        }
        multiply(steps, positions, grad_weights.row(0), grad_weights.stride, 1, k, grad_q);
        multiply(positions, steps, grad_weights.row(0), 1, grad_weights.stride, q, grad_k);
    }
};

// Calls work(head, at, key_at) for each head of each sentence, whose first query and context is `at` numbers from the
// beginning, and whose first key and value `key_at` numbers.
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
            work(head, sentence * steps * stride + first, sentence * positions * stride + first);
        }
    }
}

}  // namespace

// Contexts (sentences, steps, heads * size). is_token (sentences, positions) may be null.
extern "C" void multi_head(Index sentences, Index steps, Index positions, Index heads, Index size, Index causal,
                           const Number *queries, const Number *keys, const Number *values, const bool *is_token,
                           Number *contexts, Index threads) {
    const Index stride = heads * size;
    const auto work = [&](Head &head, Index at, Index key_at) {
        read(steps, size, stride, queries + at, head.q);
        read_transposed(positions, size, stride, keys + key_at, head.k_transposed);
        read(positions, size, stride, values + key_at, head.v);
        head.context.place(size, stride, contexts + at);
        head.forward();
        write(steps, size, stride, head.context, contexts + at);
    };
    for_each_head(sentences, steps, positions, heads, size, causal != 0, false, is_token, threads, work);
}

// Gradients of queries, keys and values from that of the contexts.
extern "C" void multi_head_backward(Index sentences, Index steps, Index positions, Index heads, Index size, Index causal,
                                    const Number *queries, const Number *keys, const Number *values,
                                    const bool *is_token, const Number *grad_contexts, Number *grad_queries,
                                    Number *grad_keys, Number *grad_values, Index threads) {
    const Index stride = heads * size;
    const auto work = [&](Head &head, Index at, Index key_at) {
        read(steps, size, stride, queries + at, head.q);
        read(positions, size, stride, keys + key_at, head.k);
        read_transposed(positions, size, stride, keys + key_at, head.k_transposed);
        read_transposed(positions, size, stride, values + key_at, head.v_transposed);
        read(steps, size, stride, grad_contexts + at, head.grad_context);
        head.grad_q.place(size, stride, grad_queries + at);
        head.grad_k.place(size, stride, grad_keys + key_at);
        head.grad_v.place(size, stride, grad_values + key_at);
        head.backward();
        write(steps, size, stride, head.grad_q, grad_queries + at);
        write(positions, size, stride, head.grad_k, grad_keys + key_at);
        write(positions, size, stride, head.grad_v, grad_values + key_at);
    };
    for_each_head(sentences, steps, positions, heads, size, causal != 0, true, is_token, threads, work);
}
