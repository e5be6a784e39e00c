// Edit distances of words, bit-parallel (Myers 1999, Hyyro 2003): a column of the table is a bit for each character of the query.
//
// Words are sorted by length; those of 32 neighbors are stored together, four characters of each in turn. A character is a code of
// 8 bits, and a word has a set of its codes modulo 32. An edit changes a set by two bits at most, so words whose set differs from
// that of the query by more than twice the radius are not measured.

// The words of a store.
struct Words {
    // Word p is in group p / 32, whose characters begin at starts[p / 32], and there at p % 32 of each 32.
    const unsigned* characters;
    const unsigned* starts;
    const unsigned* sets;
    // The numbers of the words.
    const unsigned* points;
    const unsigned short* lengths;
    unsigned count;
};

struct WordQueries {
    // The codes of query q end at ends[q]; 255 is a character that no word has.
    const unsigned char* codes;
    const unsigned* ends;
    const unsigned* sets;
    const unsigned* radii;
    unsigned count;
};

constexpr unsigned WORD_THREADS = 256;
// Queries of a block.
constexpr unsigned TOGETHER = 8;
// Pairs of a word and a query that wait to be measured: at most so many, and those of a round.
constexpr unsigned WAITING = 1024;
constexpr unsigned CODES = 256;

template <typename Bits>
struct Patterns {
    Bits places[TOGETHER][CODES];
    unsigned lengths[TOGETHER], sets[TOGETHER], radii[TOGETHER];
};

// The places of each code in each query of the block. All threads of the block take part.
template <typename Bits>
__device__ void load_patterns(const WordQueries& queries, unsigned first, Patterns<Bits>& patterns) {
    for (unsigned i = threadIdx.x; i < TOGETHER * CODES; i += WORD_THREADS) {
        patterns.places[i / CODES][i % CODES] = 0;
    }
    __syncthreads();
    // A warp a query, two characters a lane.
    static_assert(WORD_THREADS == 32 * TOGETHER, "a warp a query");
    const unsigned own = threadIdx.x / 32, lane = threadIdx.x % 32, query = first + own;
    const bool is_there = query < queries.count;
    const unsigned start = is_there && query ? queries.ends[query - 1] : 0, end = is_there ? queries.ends[query] : 0;
    for (unsigned i = start + lane; i < end; i += 32) {
        const unsigned code = queries.codes[i];
        if (code != 255) {
            atomicOr(&patterns.places[own][code], Bits(1) << (i - start));
        }
    }
    if (lane == 0) {
        patterns.lengths[own] = end - start;
        patterns.sets[own] = is_there ? queries.sets[query] : 0;
        patterns.radii[own] = is_there ? queries.radii[query] : 0;
    }
    __syncthreads();
}

// The first four characters of a word, if it has any.
__device__ inline const unsigned* characters_of(const Words& words, unsigned place) {
    return words.characters + words.starts[place / 32] + place % 32;
}

// `next`: the first four characters of the word, which are at `four`.
template <typename Bits>
__device__ inline unsigned edit_distance(const unsigned* four, unsigned next, unsigned length, const Bits* places, unsigned of_query) {
    if (of_query == 0) {
        return length;
    }
    Bits rises = ~Bits(0), falls = 0;
    const Bits last = Bits(1) << (of_query - 1);
    unsigned distance = of_query;
    for (unsigned i = 0; i < length; i += 4) {
        unsigned codes = next;
        four += 32;
        next = i + 4 < length ? *four : 0;
        for (unsigned j = 0; j < 4 && i + j < length; j++, codes >>= 8) {
            const Bits equal = places[codes & 255];
            const Bits zero = (((equal & rises) + rises) ^ rises) | equal | falls;
            Bits up = falls | ~(zero | rises);
            const Bits down = rises & zero;
            distance += (up & last) != 0;
            distance -= (down & last) != 0;
            up = up << 1 | 1;
            rises = down << 1 | ~(zero | up);
            falls = up & zero;
        }
    }
    return distance;
}

template <typename Bits>
__device__ inline unsigned edit_distance(const Words& words, unsigned place, const Bits* places, unsigned of_query) {
    const unsigned length = words.lengths[place];
    const unsigned* four = characters_of(words, place);
    return edit_distance(four, length > 0 ? *four : 0, length, places, of_query);
}

// The words within the radius of each query: the bits of the distance as f32, then the number. found: `room` for each query. A block
// has `chunk` words.
template <typename Bits>
__device__ void within(const Words& words, const WordQueries& queries, unsigned* counts, unsigned long long* found, unsigned room, unsigned chunk) {
    __shared__ Patterns<Bits> patterns;
    __shared__ unsigned waiting[WAITING + WORD_THREADS * TOGETHER];
    __shared__ unsigned waiting_count;
    const unsigned first = blockIdx.y * TOGETHER, start = blockIdx.x * chunk, end = min(words.count, start + chunk);
    // Words are sorted: those of a block have lengths from that of the first to that of the last.
    const unsigned shortest = words.lengths[start], longest = words.lengths[end - 1];
    unsigned near = 0;
    if (threadIdx.x < TOGETHER && first + threadIdx.x < queries.count) {
        const unsigned query = first + threadIdx.x;
        const unsigned length = queries.ends[query] - (query ? queries.ends[query - 1] : 0), radius = queries.radii[query];
        near = length <= longest + radius && shortest <= length + radius;
    }
    if (!__syncthreads_or(near)) {
        return;
    }
    load_patterns(queries, first, patterns);
    if (threadIdx.x == 0) {
        waiting_count = 0;
    }
    __syncthreads();
    const unsigned together = min(TOGETHER, queries.count - first);
    for (unsigned from = start; from < end; from += WORD_THREADS) {
        const unsigned place = from + threadIdx.x;
        if (place < end) {
            const unsigned set = words.sets[place], length = words.lengths[place];
            for (unsigned q = 0; q < together; q++) {
                const unsigned radius = patterns.radii[q], of_query = patterns.lengths[q];
                const unsigned apart = length > of_query ? length - of_query : of_query - length;
                if (apart <= radius && __popc(set ^ patterns.sets[q]) <= 2 * radius) {
                    waiting[atomicAdd(&waiting_count, 1)] = place << 3 | q;
                }
            }
        }
        __syncthreads();
        const unsigned count = waiting_count;
        if (count < WAITING && from + WORD_THREADS < end) {
            // No thread adds before all have read.
            __syncthreads();
            continue;
        }
        for (unsigned i = threadIdx.x; i < count; i += WORD_THREADS) {
            const unsigned pair = waiting[i], q = pair & 7;
            const unsigned distance = edit_distance(words, pair >> 3, patterns.places[q], patterns.lengths[q]);
            if (distance <= patterns.radii[q]) {
                const unsigned to = atomicAdd(&counts[first + q], 1);
                if (to < room) {
                    found[size_t(first + q) * room + to] =
                        static_cast<unsigned long long>(__float_as_uint(static_cast<float>(distance))) << 32 |
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
    words_within_32(Words words, WordQueries queries, unsigned* counts, unsigned long long* found, unsigned room, unsigned chunk) {
    within<unsigned>(words, queries, counts, found, room, chunk);
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    words_within_64(Words words, WordQueries queries, unsigned* counts, unsigned long long* found, unsigned room, unsigned chunk) {
    within<unsigned long long>(words, queries, counts, found, room, chunk);
}

// A query that comes with the launch, so that no copy is waited for.
struct OneQuery {
    unsigned char codes[64];
    unsigned length, set, radius;
};

// The words within the radius of one query, a thread a word. answer: in the host's memory, how many they are, then up to `room` of
// them, written in any order: the host waits for each. state: two zeros, which stay.
template <typename Bits>
__device__ void within_of_one(const Words& words, const OneQuery& query, unsigned* state, unsigned long long* answer, unsigned room) {
    __shared__ Bits places[CODES];
    const unsigned place = blockIdx.x * WORD_THREADS + threadIdx.x;
    bool near = false;
    const unsigned* four = nullptr;
    unsigned length = 0, next = 0;
    if (place < words.count) {
        const unsigned set = words.sets[place];
        length = words.lengths[place];
        // Before it is known whether they are needed: to wait for them takes longer than all the rest.
        four = characters_of(words, place);
        next = length > 0 ? *four : 0;
        const unsigned apart = length > query.length ? length - query.length : query.length - length;
        near = apart <= query.radius && __popc(set ^ query.set) <= 2 * query.radius;
    }
    static_assert(WORD_THREADS == CODES, "a thread a code");
    places[threadIdx.x] = 0;
    if (__syncthreads_or(near)) {
        if (threadIdx.x < query.length && query.codes[threadIdx.x] != 255) {
            atomicOr(&places[query.codes[threadIdx.x]], Bits(1) << threadIdx.x);
        }
        __syncthreads();
        const unsigned distance = near ? edit_distance(four, next, length, places, query.length) : ~0u;
        if (distance <= query.radius) {
            const unsigned to = atomicAdd(&state[0], 1);
            if (to < room) {
                answer[1 + to] = static_cast<unsigned long long>(__float_as_uint(static_cast<float>(distance))) << 32 | words.points[place];
            }
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        // The words of this block are counted before the block is.
        __threadfence();
        if (atomicAdd(&state[1], 1) == gridDim.x - 1) {
            // The last block.
            __threadfence();
            const unsigned count = atomicExch(&state[0], 0);
            atomicExch(&state[1], 0);
            *static_cast<volatile unsigned long long*>(answer) = count;
        }
    }
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    words_within_one_32(Words words, OneQuery query, unsigned* state, unsigned long long* answer, unsigned room) {
    within_of_one<unsigned>(words, query, state, answer, room);
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    words_within_one_64(Words words, OneQuery query, unsigned* state, unsigned long long* answer, unsigned room) {
    within_of_one<unsigned long long>(words, query, state, answer, room);
}

// How many words are at each distance from each query, up to the last of `bins`, which counts all beyond.
template <typename Bits>
__device__ void distances(const Words& words, const WordQueries& queries, unsigned* histograms, unsigned bins, unsigned chunk) {
    __shared__ Patterns<Bits> patterns;
    extern __shared__ unsigned own[];
    const unsigned first = blockIdx.y * TOGETHER, start = blockIdx.x * chunk, end = min(words.count, start + chunk);
    for (unsigned i = threadIdx.x; i < TOGETHER * bins; i += WORD_THREADS) {
        own[i] = 0;
    }
    load_patterns(queries, first, patterns);
    const unsigned together = min(TOGETHER, queries.count - first);
    for (unsigned place = start + threadIdx.x; place < end; place += WORD_THREADS) {
        for (unsigned q = 0; q < together; q++) {
            const unsigned distance = edit_distance(words, place, patterns.places[q], patterns.lengths[q]);
            atomicAdd(&own[q * bins + min(distance, bins - 1)], 1);
        }
    }
    __syncthreads();
    for (unsigned i = threadIdx.x; i < together * bins; i += WORD_THREADS) {
        if (own[i] > 0) {
            atomicAdd(&histograms[size_t(first) * bins + i], own[i]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    word_distances_32(Words words, WordQueries queries, unsigned* histograms, unsigned bins, unsigned chunk) {
    distances<unsigned>(words, queries, histograms, bins, chunk);
}

extern "C" __global__ void __launch_bounds__(WORD_THREADS)
    word_distances_64(Words words, WordQueries queries, unsigned* histograms, unsigned bins, unsigned chunk) {
    distances<unsigned long long>(words, queries, histograms, bins, chunk);
}
