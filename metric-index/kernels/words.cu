// Edit distances between words, bit-parallel (Myers 1999, Hyyro 2003). A column of the dynamic
// programming table has one bit per character of the query.
//
// Words are sorted by length. The words of a group of 32 are stored together: four characters of
// each word, then the next four of each, and so on. A character is a code of 8 bits. Each word also
// has a set of its codes modulo 32. An edit changes at most two bits of the set. Words whose set
// differs from the query's set in more than 2 * radius bits are therefore not measured.

// The words of a store.
struct Words {
    // Word p is in group p / 32, whose characters begin at starts[p / 32]. Within the group, the
    // word has element p % 32 of every 32.
    const unsigned* characters;
    const unsigned* starts;
    const unsigned* sets;
    // The point of each word.
    const unsigned* points;
    const unsigned short* lengths;
    unsigned count;
};

// The queries of a batch.
struct WordQueries {
    // The codes of query q end at ends[q]. Code 255 is a character that occurs in no word.
    const unsigned char* codes;
    const unsigned* ends;
    const unsigned* sets;
    const unsigned* radii;
    unsigned count;
};

constexpr unsigned WORD_THREADS = 256;
// Number of queries per block.
constexpr unsigned TOGETHER = 8;
// A block measures its waiting pairs of a word and a query when there are this many. The buffer
// also has space for the pairs of one more pass.
constexpr unsigned MAX_WAITING = 1024;
// Number of character codes.
constexpr unsigned CODES = 256;

// The queries of a block.
template <typename Bits>
struct Patterns {
    // The positions of each code in each query, as bits.
    Bits bit_positions[TOGETHER][CODES];
    unsigned lengths[TOGETHER], sets[TOGETHER], radii[TOGETHER];
};

// Loads the positions of each code in each query of the block, as bits. All threads of the block
// must call it.
template <typename Bits>
__device__ void load_patterns(const WordQueries& queries, unsigned first,
                              Patterns<Bits>& patterns) {
    for (unsigned i = threadIdx.x; i < TOGETHER * CODES; i += WORD_THREADS) {
        patterns.bit_positions[i / CODES][i % CODES] = 0;
    }
    __syncthreads();
    // One warp per query.
    static_assert(WORD_THREADS == 32 * TOGETHER, "one warp per query");
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, query = first + warp;
    const bool exists = query < queries.count;
    const unsigned start = exists && query ? queries.ends[query - 1] : 0,
                   end = exists ? queries.ends[query] : 0;
    for (unsigned i = start + lane; i < end; i += 32) {
        const unsigned code = queries.codes[i];
        if (code != 255) {
            atomicOr(&patterns.bit_positions[warp][code], Bits(1) << (i - start));
        }
    }
    if (lane == 0) {
        patterns.lengths[warp] = end - start;
        patterns.sets[warp] = exists ? queries.sets[query] : 0;
        patterns.radii[warp] = exists ? queries.radii[query] : 0;
    }
    __syncthreads();
}

// Returns the address of the first four characters of a word. An empty word has none.
__device__ inline const unsigned* characters_of(const Words& words, unsigned position) {
    return words.characters + words.starts[position / 32] + position % 32;
}

// Returns the edit distance between a word and a query. `next` are the first four characters of the
// word, which are stored at `characters`.
template <typename Bits>
__device__ inline unsigned edit_distance(const unsigned* characters, unsigned next, unsigned length,
                                         const Bits* bit_positions, unsigned query_length) {
    if (query_length == 0) {
        return length;
    }
    Bits vertical_positive = ~Bits(0), vertical_negative = 0;
    const Bits last_bit = Bits(1) << (query_length - 1);
    unsigned distance = query_length;
    for (unsigned i = 0; i < length; i += 4) {
        unsigned codes = next;
        characters += 32;
        next = i + 4 < length ? *characters : 0;
        for (unsigned j = 0; j < 4 && i + j < length; j++, codes >>= 8) {
            const Bits equal = bit_positions[codes & 255];
            const Bits diagonal_zero =
                (((equal & vertical_positive) + vertical_positive) ^ vertical_positive) | equal |
                vertical_negative;
            Bits horizontal_positive = vertical_negative | ~(diagonal_zero | vertical_positive);
            const Bits horizontal_negative = vertical_positive & diagonal_zero;
            distance += (horizontal_positive & last_bit) != 0;
            distance -= (horizontal_negative & last_bit) != 0;
            horizontal_positive = horizontal_positive << 1 | 1;
            vertical_positive = horizontal_negative << 1 | ~(diagonal_zero | horizontal_positive);
            vertical_negative = horizontal_positive & diagonal_zero;
        }
    }
    return distance;
}

template <typename Bits>
__device__ inline unsigned edit_distance(const Words& words, unsigned position,
                                         const Bits* bit_positions, unsigned query_length) {
    const unsigned length = words.lengths[position];
    const unsigned* characters = characters_of(words, position);
    return edit_distance(characters, length > 0 ? *characters : 0, length, bit_positions,
                         query_length);
}

// Finds the words within the radius of each query. A result has the bits of the distance as f32,
// then the point. found: `capacity` results per query. Each block processes `chunk` words.
template <typename Bits>
__device__ void within(const Words& words, const WordQueries& queries, unsigned* counts,
                       unsigned long long* found, unsigned capacity, unsigned chunk) {
    __shared__ Patterns<Bits> patterns;
    __shared__ unsigned waiting[MAX_WAITING + WORD_THREADS * TOGETHER];
    __shared__ unsigned waiting_count;
    const unsigned first = blockIdx.y * TOGETHER, start = blockIdx.x * chunk,
                   end = min(words.count, start + chunk);
    // Words are sorted by length, so the first and last word of a block bound the lengths.
    const unsigned shortest = words.lengths[start], longest = words.lengths[end - 1];
    unsigned is_near = 0;
    if (threadIdx.x < TOGETHER && first + threadIdx.x < queries.count) {
        const unsigned query = first + threadIdx.x;
        const unsigned length = queries.ends[query] - (query ? queries.ends[query - 1] : 0),
                       radius = queries.radii[query];
        is_near = length <= longest + radius && shortest <= length + radius;
    }
    if (!__syncthreads_or(is_near)) {
        return;
    }
    load_patterns(queries, first, patterns);
    if (threadIdx.x == 0) {
        waiting_count = 0;
    }
    __syncthreads();
    const unsigned query_count = min(TOGETHER, queries.count - first);
    for (unsigned pass_start = start; pass_start < end; pass_start += WORD_THREADS) {
        const unsigned position = pass_start + threadIdx.x;
        if (position < end) {
            const unsigned set = words.sets[position], length = words.lengths[position];
            for (unsigned q = 0; q < query_count; q++) {
                const unsigned radius = patterns.radii[q], query_length = patterns.lengths[q];
                const unsigned length_difference =
                    length > query_length ? length - query_length : query_length - length;
                if (length_difference <= radius && __popc(set ^ patterns.sets[q]) <= 2 * radius) {
                    waiting[atomicAdd(&waiting_count, 1)] = position << 3 | q;
                }
            }
        }
        __syncthreads();
        const unsigned count = waiting_count;
        if (count < MAX_WAITING && pass_start + WORD_THREADS < end) {
            // All threads must read the count before any thread adds a pair.
            __syncthreads();
            continue;
        }
        for (unsigned i = threadIdx.x; i < count; i += WORD_THREADS) {
            const unsigned pair = waiting[i], q = pair & 7;
            const unsigned distance =
                edit_distance(words, pair >> 3, patterns.bit_positions[q], patterns.lengths[q]);
            if (distance <= patterns.radii[q]) {
                const unsigned slot = atomicAdd(&counts[first + q], 1);
                if (slot < capacity) {
                    found[size_t(first + q) * capacity + slot] =
                        static_cast<unsigned long long>(
                            __float_as_uint(static_cast<float>(distance)))
                            << 32 |
                        words.points[pair >> 3];
                }
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            waiting_count = 0;
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    words_within_32(Words words, WordQueries queries, unsigned* counts, unsigned long long* found,
                    unsigned capacity, unsigned chunk) {
    within<unsigned>(words, queries, counts, found, capacity, chunk);
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    words_within_64(Words words, WordQueries queries, unsigned* counts, unsigned long long* found,
                    unsigned capacity, unsigned chunk) {
    within<unsigned long long>(words, queries, counts, found, capacity, chunk);
}

// A query that is passed as an argument of the kernel, to avoid waiting for a copy.
struct OneQuery {
    unsigned char codes[64];
    unsigned length, set, radius;
};

// Finds the words within the radius of one query. One thread per word. `answer` is in the memory of
// the host: the number of results, then up to `capacity` results. They are written in any order;
// the host waits for each value. `state` is two zeros; the kernel resets them.
template <typename Bits>
__device__ void within_of_one(const Words& words, const OneQuery& query, unsigned* state,
                              unsigned long long* answer, unsigned capacity) {
    __shared__ Bits bit_positions[CODES];
    const unsigned position = blockIdx.x * WORD_THREADS + threadIdx.x;
    bool is_near = false;
    const unsigned* characters = nullptr;
    unsigned length = 0, next = 0;
    if (position < words.count) {
        const unsigned set = words.sets[position];
        length = words.lengths[position];
        // Load the characters before it is known whether they are needed. Waiting for them later
        // would take longer than the rest of the kernel.
        characters = characters_of(words, position);
        next = length > 0 ? *characters : 0;
        const unsigned length_difference =
            length > query.length ? length - query.length : query.length - length;
        is_near = length_difference <= query.radius && __popc(set ^ query.set) <= 2 * query.radius;
    }
    static_assert(WORD_THREADS == CODES, "one thread per code");
    bit_positions[threadIdx.x] = 0;
    if (__syncthreads_or(is_near)) {
        if (threadIdx.x < query.length && query.codes[threadIdx.x] != 255) {
            atomicOr(&bit_positions[query.codes[threadIdx.x]], Bits(1) << threadIdx.x);
        }
        __syncthreads();
        const unsigned distance =
            is_near ? edit_distance(characters, next, length, bit_positions, query.length) : ~0u;
        if (distance <= query.radius) {
            const unsigned slot = atomicAdd(&state[0], 1);
            if (slot < capacity) {
                answer[1 + slot] =
                    static_cast<unsigned long long>(__float_as_uint(static_cast<float>(distance)))
                        << 32 |
                    words.points[position];
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        // The results of this block must be counted before the block is.
        __threadfence();
        if (atomicAdd(&state[1], 1) == gridDim.x - 1) {
            // This is the last block.
            __threadfence();
            const unsigned count = atomicExch(&state[0], 0);
            atomicExch(&state[1], 0);
            *static_cast<volatile unsigned long long*>(answer) = count;
        }
    }
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    words_within_one_32(Words words, OneQuery query, unsigned* state, unsigned long long* answer,
                        unsigned capacity) {
    within_of_one<unsigned>(words, query, state, answer, capacity);
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    words_within_one_64(Words words, OneQuery query, unsigned* state, unsigned long long* answer,
                        unsigned capacity) {
    within_of_one<unsigned long long>(words, query, state, answer, capacity);
}

// Counts the words at each distance from each query. The last of `bins` counts all greater
// distances, too.
template <typename Bits>
__device__ void distances(const Words& words, const WordQueries& queries, unsigned* histograms,
                          unsigned bins, unsigned chunk) {
    __shared__ Patterns<Bits> patterns;
    extern __shared__ unsigned own[];
    const unsigned first = blockIdx.y * TOGETHER, start = blockIdx.x * chunk,
                   end = min(words.count, start + chunk);
    for (unsigned i = threadIdx.x; i < TOGETHER * bins; i += WORD_THREADS) {
        own[i] = 0;
    }
    load_patterns(queries, first, patterns);
    const unsigned query_count = min(TOGETHER, queries.count - first);
    for (unsigned position = start + threadIdx.x; position < end; position += WORD_THREADS) {
        for (unsigned q = 0; q < query_count; q++) {
            const unsigned distance =
                edit_distance(words, position, patterns.bit_positions[q], patterns.lengths[q]);
            atomicAdd(&own[q * bins + min(distance, bins - 1)], 1);
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < query_count * bins; i += WORD_THREADS) {
        if (own[i] > 0) {
            atomicAdd(&histograms[size_t(first) * bins + i], own[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    word_distances_32(Words words, WordQueries queries, unsigned* histograms, unsigned bins,
                      unsigned chunk) {
    distances<unsigned>(words, queries, histograms, bins, chunk);
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    word_distances_64(Words words, WordQueries queries, unsigned* histograms, unsigned bins,
                      unsigned chunk) {
    distances<unsigned long long>(words, queries, histograms, bins, chunk);
}
