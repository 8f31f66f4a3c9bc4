// The layers of a Transformer for inference: all layers of an encoder, and a step of a decoder through all layers. The
// reference implementation is in models/transformer/layers.py. A thread takes a block of rows through all layers.
#include "transformer_layers.h"

// States (sentences, longest, size) of the last layer from the inputs of the first one, at the first lengths (sentences)
// positions; the rest, which is padding, is left as it is.
extern "C" void transformer_encoder(Index count, Index size, Index heads, Index hidden_size, Index norm_first,
                                    Index activation, double epsilon, const float *parameters, Index per_layer,
                                    Index sentences, Index longest, const Index *lengths, const float *inputs,
                                    float *states, Index threads) {
    const Layers layers{count, size, heads, hidden_size, bool(norm_first), Activation(activation), epsilon, parameters,
                        per_layer};
    std::vector<Index> starts;  // the first sentence of each block
    Index rows = MOST_ROWS, all_rows = 0;
    for (Index b = 0; b < sentences; all_rows += lengths[b], b++) {
        if (rows + lengths[b] > MOST_ROWS) starts.push_back(b), rows = 0;
        rows += lengths[b];
    }
    const Index blocks = starts.size();
    starts.push_back(sentences);
#pragma omp parallel num_threads(team(all_rows * per_layer * count, threads))
    {
        Block block(layers, longest > MOST_ROWS ? longest : MOST_ROWS, longest);
#pragma omp for schedule(dynamic)
        for (Index each = 0; each < blocks; each++) {
            block.rows = 0;
            for (Index b = starts[each]; b < starts[each + 1]; b++)
                for (Index s = 0; s < lengths[b]; s++, block.rows++)
                    std::memcpy(block.x + block.rows * block.width, inputs + (b * longest + s) * size,
                                size * sizeof(float));
            for (Index layer = 0; layer < count; layer++) {
                block.start(layer);
                block.multiply(3 * size, block.before(), block.qkv);
                const float *first = block.qkv;  // of the sentence
                for (Index b = starts[each], row = 0; b < starts[each + 1]; first += lengths[b] * block.wide, b++)
                    for (Index s = 0; s < lengths[b]; s++, row++)
                        for (Index h = 0; h < heads; h++) {
                            const Index of_head = h * layers.head_size();
                            const auto at = [&](Index j) { return first + j * block.wide + size + of_head; };
                            read(layers.head_size(), lengths[b], layers.scale(), first + s * block.wide + of_head, at,
                                 size, block.score, block.y + row * block.width + of_head);
                        }
                block.multiply(size, block.y, block.z);
                block.after();
                block.feed_forward();
            }
            const float *x = block.x;
            for (Index b = starts[each]; b < starts[each + 1]; b++)
                for (Index s = 0; s < lengths[b]; s++, x += block.width)
                    std::memcpy(states + (b * longest + s) * size, x, size * sizeof(float));
        }
    }
}

// States (rows, size) of the last layer from the inputs (rows, size) of the first one, for a step of hypotheses.
//
// Earlier step t stored keys and values (layers, cache_rows[t], 2, size) at the address caches[t]; hypothesis r continues
// the one in row slots[r, t] (rows, steps) of it. This step stores its own in cache (layers, rows, 2, size). The source
// has keys and values (sentences, longest, layers, 2, size), of which the first lengths (sentences) are tokens; the
// hypotheses of a sentence are neighbors. weights (rows, longest) are the mean over layers and heads of those of the
// source.
extern "C" void transformer_step(Index count, Index size, Index heads, Index hidden_size, Index norm_first,
                                 Index activation, double epsilon, const float *parameters, Index per_layer, Index rows,
                                 const float *inputs, Index steps, const Index *caches,
                                 const Index *cache_rows, const Index *slots, float *cache,
                                 Index sentences, Index longest, const Index *lengths, const float *source,
                                 float *states, float *weights, Index threads) {
    const Layers layers{count, size, heads, hidden_size, bool(norm_first), Activation(activation), epsilon, parameters,
                        per_layer};
    const int workers = team(rows * per_layer * count, threads);
    const Index of_worker = (rows + workers - 1) / workers, most = of_worker < MOST_ROWS ? of_worker : MOST_ROWS;
    const Index head_size = layers.head_size();
    const float share = 1.0f / (count * heads);
#pragma omp parallel num_threads(workers)
    {
        Block block(layers, most, steps + 1 > longest ? steps + 1 : longest);
#pragma omp for schedule(static)
        for (Index first = 0; first < rows; first += most) {
            block.rows = rows - first < most ? rows - first : most;
            for (Index r = 0; r < block.rows; r++)
                std::memcpy(block.x + r * block.width, inputs + (first + r) * size, size * sizeof(float));
            std::memset(weights + first * longest, 0, block.rows * longest * sizeof(float));
            for (Index layer = 0; layer < count; layer++) {
                block.start(layer);
                block.multiply(3 * size, block.before(), block.qkv);
                for (Index r = 0; r < block.rows; r++) {
                    const Index row = first + r;
                    const float *query = block.qkv + r * block.wide;
                    float *own = cache + (layer * rows + row) * 2 * size;
                    std::memcpy(own, query + size, 2 * size * sizeof(float));
                    for (Index h = 0; h < heads; h++) {
                        const auto at = [&](Index t) -> const float * {
                            if (t == steps) return own + h * head_size;
                            const Index earlier = layer * cache_rows[t] + slots[row * steps + t];
                            return reinterpret_cast<const float *>(caches[t]) + earlier * 2 * size + h * head_size;
                        };
                        read(head_size, steps + 1, layers.scale(), query + h * head_size, at, size, block.score,
                             block.y + r * block.width + h * head_size);
                    }
                }
                block.multiply(size, block.y, block.z);
                block.after();

                block.multiply(size, block.before(), block.z);
                for (Index r = 0; r < block.rows; r++) {
                    const Index row = first + r, sentence = row / (rows / sentences), length = lengths[sentence];
                    const float *positions = source + (sentence * longest * count + layer) * 2 * size;
                    for (Index h = 0; h < heads; h++) {
                        const Index here = r * block.width + h * head_size;
                        const auto at = [&](Index s) { return positions + s * count * 2 * size + h * head_size; };
                        read(head_size, length, layers.scale(), block.z + here, at, size, block.score, block.y + here);
                        for (Index s = 0; s < length; s++) weights[row * longest + s] += share * block.score[s];
                    }
                }
                block.multiply(size, block.y, block.z);
                block.after();
                block.feed_forward();
            }
            for (Index r = 0; r < block.rows; r++)
                std::memcpy(states + (first + r) * size, block.x + r * block.width, size * sizeof(float));
        }
    }
}
