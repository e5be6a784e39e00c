// Common definitions of the fused kernels: fixed-point sums over an inverted index, and a bound on
// their errors.
//
// A posting is `weight << 17 | (row / 2) << 2 | row % 2`. The weight has 13 bits. It is ceil(w /
// max * 8191), where max is the term's greatest weight in the tile. A vector is four postings,
// either all of even rows or all of odd rows, padded with weight 0. Weights must not be negative;
// the host handles other queries and tiles. Sums have 16 bits, two per word of shared memory; row
// 2i is in the low half of word i.
//
// The lists of a query are split into tasks for a warp. A large task has 1 to 4 chunks of 32
// vectors. The remainder of a list becomes small tasks of at most 8 vectors; a warp processes four
// of them at a time. A task consists of its first vector and `mult << 8 | size`. The size is a
// number of chunks for large tasks, and a number of vectors for small tasks.
//
// Why no neighbor is lost: A product w * q * scale is added as ceil(weight * mult / 65536) with
//
//   mult >= q * max * scale / 8191 * 65536.
//
// This value is never less than the true product. It exceeds the true product by at most q * max *
// scale / 8191 + 1.1875, because mult exceeds its bound by at most 1.25. A sum is therefore at
// least scale * similarity and at most scale * similarity + E, where
//
//   E = scale * (sum of q * max) / 8191 + 1.1875 * terms.
//
// At least k rows have sums >= T, where T is at most the k-th greatest sum. The k-th similarity is
// therefore at least (T - E) / scale, and the sum of every neighbor is at least T - E. One unit is
// subtracted for the rounding of similarities to f32, and another one for the rounding of T - E. A
// sum is 0 only if no product is above 0. `scale` is chosen such that no sum exceeds 65535, by the
// Cauchy-Schwarz inequality or by the sum of q * max, whichever is lower. All bounds are rounded
// outward. If similarities could leave the normal range of f32 (above 1e37, or units below 1e-35),
// the host handles the query.

// The rows of a tile and their posting lists.
struct Tile {
    const uint4* lists; // per term: first vector, number of vectors, bits of the greatest weight, 0
    const uint4* postings;
    const u64* row_ptr; // the first element belongs to the tile's first row
    const u64* row_end;
    const u32* cols;
    const u16* narrow_cols; // `cols` in 16 bits, or null if the vocabulary is too large
    const float* vals;
    float longest; // upper bound on the Euclidean length of a row
    u32 rows;
    u32 first_row; // row number of the tile's first row
    u32 shift;     // columns are below TABLE_BITS << shift
};

const u32 CHUNK_VECTORS = 32;    // vectors per chunk of a large task
const u32 MAX_CHUNKS = 4;        // maximum number of chunks per large task
const u32 MAX_SMALL_VECTORS = 8; // maximum number of vectors per small task
const u32 MAX_TERMS = 8192;      // maximum number of terms per query; the host handles longer ones
const u32 GROUPS = 128;          // number of groups whose greatest sums give a threshold
// Maximum k for groups. For a larger k, the threshold would be too low.
const u32 MAX_GROUPED_K = 64;

// A query term and its posting list in a tile.
struct Term {
    u32 start, length; // in vectors
    float product;     // query weight * greatest weight of the list, rounded up
    float square;      // square of the query weight, rounded up
};

// Loads the term of a query entry; an empty term if `entry` is not below `end`.
__device__ __forceinline__ Term load_term(const Tile& tile, const Queries& queries, u32 entry,
                                          u32 end) {
    Term term = {0, 0, 0.0f, 0.0f};
    if (entry < end) {
        uint4 list = __ldg(tile.lists + queries.col(entry));
        term.start = list.x;
        term.length = list.y;
        if (list.y) {
            float weight = queries.vals[entry];
            term.product = __fmul_ru(weight, __uint_as_float(list.z));
            term.square = __fmul_ru(weight, weight);
        }
    }
    return term;
}

// Returns the sum of a warp's values, rounded up.
__device__ __forceinline__ float warp_sum_rounded_up(float value) {
    for (u32 offset = 16; offset > 0; offset /= 2) {
        value = __fadd_ru(value, __shfl_xor_sync(FULL_MASK, value, offset));
    }
    return value;
}

// The scale of the sums of a query.
struct Scale {
    float scale;   // units for a similarity of 1
    u32 error;     // maximum error of a sum, in units
    bool is_valid; // whether the bounds are in range
};

// Computes the scale of a query's sums from the sums of its terms' squares and products.
__device__ __forceinline__ Scale compute_scale(float square, float product, u32 terms,
                                               float longest) {
    Scale scale = {0.0f, 0, true};
    if (product == 0.0f) return scale;
    float max_sum = fminf(__fmul_ru(__fsqrt_ru(square), longest), product);
    max_sum = __fmul_ru(__fadd_ru(max_sum, __fmul_ru(product, 1.0f / 8190.0f)), 1.000002f);
    scale.is_valid = max_sum > 1e-30f && max_sum < 1e37f && terms <= MAX_TERMS;
    if (!scale.is_valid) return scale;
    scale.scale = __fdiv_rd(65530.0f - 1.25f * terms, max_sum);
    scale.error = __float2uint_ru(
        __fadd_ru(__fmul_ru(__fmul_ru(scale.scale, product), 1.0f / 8190.0f), 1.1875f * terms));
    return scale;
}

// Returns `mult` of a term.
__device__ __forceinline__ u32 compute_mult(float product, float scale) {
    return __float2uint_ru(__fmul_ru(__fmul_ru(product, scale), 8.00097716f)); // > 65536 / 8191
}

// Returns the number of large tasks of a list.
__device__ __forceinline__ u32 large_task_count(u32 vectors) {
    return (vectors / CHUNK_VECTORS + MAX_CHUNKS - 1) / MAX_CHUNKS;
}

// Returns the number of small tasks of a list.
__device__ __forceinline__ u32 small_task_count(u32 vectors) {
    return (vectors % CHUNK_VECTORS + MAX_SMALL_VECTORS - 1) / MAX_SMALL_VECTORS;
}

// Writes the tasks of a list.
__device__ __forceinline__ void write_tasks(const Term& term, u32 mult, uint2* large,
                                            uint2* small) {
    u32 start = term.start;
    for (u32 chunks = term.length / CHUNK_VECTORS; chunks > 0;) {
        u32 size = min(chunks, MAX_CHUNKS);
        *large++ = make_uint2(start, mult << 8 | size);
        start += size * CHUNK_VECTORS;
        chunks -= size;
    }
    for (u32 remaining = term.length % CHUNK_VECTORS; remaining > 0;) {
        u32 size = min(remaining, MAX_SMALL_VECTORS);
        *small++ = make_uint2(start, mult << 8 | size);
        start += size;
        remaining -= size;
    }
}

// Adds a posting to the sum of its row. `half` selects the half of the word.
__device__ __forceinline__ void add_posting(u32* sums, u32 posting, u32 mult, u32 half) {
    u32 units = (posting >> 17) * mult + 0xffff; // the upper 16 bits are the rounded product
    u32* word = (u32*)((char*)sums + (posting & 0x1fffc));
    atomicAdd(word, __byte_perm(units, 0, half));
}

// Adds four postings.
__device__ __forceinline__ void add_vector(u32* sums, uint4 postings, u32 mult) {
    // Selects bytes 2 and 3, moved to the lower half of the word for even rows or to the upper half
    // for odd rows.
    u32 half = 0x4432 - (postings.x & 1) * (0x4432 - 0x3244);
    add_posting(sums, postings.x, mult, half);
    add_posting(sums, postings.y, mult, half);
    add_posting(sums, postings.z, mult, half);
    add_posting(sums, postings.w, mult, half);
}

// Adds the postings of a large task, with one warp.
__device__ __forceinline__ void add_large(u32* sums, const uint4* postings, uint2 task, u32 lane) {
    const u32 chunks = task.y & 255, mult = task.y >> 8;
    const uint4* list = postings + task.x + lane;
    asm volatile("" : "+l"(list)); // compute one address instead of one per chunk
    uint4 vectors[MAX_CHUNKS];
#pragma unroll
    for (u32 chunk = 0; chunk < MAX_CHUNKS; chunk++) {
        if (chunk < chunks) vectors[chunk] = __ldcg(list + CHUNK_VECTORS * chunk);
    }
#pragma unroll
    for (u32 chunk = 0; chunk < MAX_CHUNKS; chunk++) {
        if (chunk < chunks) add_vector(sums, vectors[chunk], mult);
    }
}

// Adds one warp's share of the tasks: the large tasks warp, warp + warps, ..., then the small
// tasks, four at a time. (Loading the next task before adding the current one was slower, because
// it needs more registers.)
__device__ __forceinline__ void add_tasks(u32* sums, const uint4* postings, const uint2* large,
                                          u32 large_count, const uint2* small, u32 small_count,
                                          u32 warp, u32 warps, u32 lane) {
    u32 number = warp;
    for (; number < large_count; number += warps) add_large(sums, postings, large[number], lane);
    for (number -= large_count; number * 4 < small_count; number += warps) {
        u32 task_number = number * 4 + lane / MAX_SMALL_VECTORS, vector = lane % MAX_SMALL_VECTORS;
        if (task_number < small_count) {
            uint2 task = small[task_number];
            if (vector < (task.y & 255)) {
                add_vector(sums, __ldcg(postings + task.x + vector), task.y >> 8);
            }
        }
    }
}

// Returns the greatest sum in a thread's vectors.
template <u32 THREADS>
__device__ __forceinline__ u32 greatest_sum(const uint4* memory, u32 vectors) {
    u32 low = 0, high = 0;
#pragma unroll 2
    for (u32 vector = threadIdx.x; vector < vectors; vector += THREADS) {
        uint4 words = memory[vector];
        low = max(max(max(low, words.x & 0xffff), max(words.y & 0xffff, words.z & 0xffff)),
                  words.w & 0xffff);
        high = max(max(max(high, words.x), max(words.y, words.z)), words.w);
    }
    return max(low, high >> 16);
}

// Writes the greatest sum of each of GROUPS groups of threads.
template <u32 THREADS>
__device__ __forceinline__ void write_maxima(u32 own_greatest, u32* maxima) {
    for (u32 offset = 1; offset < THREADS / GROUPS; offset *= 2) {
        own_greatest = max(own_greatest, __shfl_xor_sync(FULL_MASK, own_greatest, offset));
    }
    if (threadIdx.x % (THREADS / GROUPS) == 0) {
        maxima[threadIdx.x / (THREADS / GROUPS)] = own_greatest;
    }
}

// Returns a value that is at most the k-th greatest of the maxima, and at most 15 below it. All
// lanes of one warp must call it.
__device__ __forceinline__ u32 kth_maximum(const u32* maxima, u32 k, u32 lane) {
    u32 a = maxima[lane], b = maxima[lane + 32], c = maxima[lane + 64], d = maxima[lane + 96];
    u32 kth = 0;
    // The four lowest bits are skipped: they would exclude hardly any candidates.
#pragma unroll 1
    for (u32 bit = 1u << 15; bit >= 1u << 4; bit >>= 1) {
        u32 trial = kth | bit;
        u32 reached = __popc(__ballot_sync(FULL_MASK, a >= trial)) +
                      __popc(__ballot_sync(FULL_MASK, b >= trial)) +
                      __popc(__ballot_sync(FULL_MASK, c >= trial)) +
                      __popc(__ballot_sync(FULL_MASK, d >= trial));
        if (reached >= k) kth = trial;
    }
    return kth;
}

// Returns a sum that at least k rows reach, for k above MAX_GROUPED_K. All threads of the block
// must call it. `groups` has space for the greatest sum of each thread. The function starts with
// the rank-th greatest of these sums. For rank = k, at least k rows reach this sum. If k is close
// to the number of threads or larger, the host passes a lower rank. The function then counts the
// rows that reach the sum, and lowers the sum until there are at least k.
template <u32 THREADS>
__device__ __forceinline__ u32 reached_sum(const uint4* memory, u32 vectors, u32 own_greatest,
                                           u32 k, u32 rank, u32* groups) {
    __shared__ u32 sum, reached;
    const u32 tid = threadIdx.x, lane = tid & 31;
    groups[tid] = own_greatest;
    __syncthreads();
    if (tid < 32) {
        u32 kth = 0;
#pragma unroll 1
        for (u32 bit = 1u << 15; bit >= 1u << 4; bit >>= 1) {
            u32 trial = kth | bit, count = 0;
#pragma unroll 4
            for (u32 group = 0; group < THREADS; group += 32) {
                count += groups[group + lane] >= trial;
            }
            for (u32 offset = 16; offset > 0; offset /= 2) {
                count += __shfl_xor_sync(FULL_MASK, count, offset);
            }
            if (count >= rank) kth = trial;
        }
        if (lane == 0) sum = kth;
    }
    __syncthreads();
    while (rank != k && sum > 0) {
        const u32 trial = sum;
        if (tid == 0) reached = 0;
        __syncthreads();
        u32 count = 0;
        if (own_greatest >= trial) {
            for (u32 vector = tid; vector < vectors; vector += THREADS) {
                const u32* words = (const u32*)(memory + vector);
#pragma unroll
                for (u32 word = 0; word < 4; word++) {
                    count += ((words[word] & 0xffff) >= trial) + ((words[word] >> 16) >= trial);
                }
            }
        }
        for (u32 offset = 16; offset > 0; offset /= 2) {
            count += __shfl_xor_sync(FULL_MASK, count, offset);
        }
        if (lane == 0 && count) atomicAdd(&reached, count);
        __syncthreads();
        const bool has_enough = reached >= k;
        if (tid == 0 && !has_enough) sum = trial - trial / 8 - 1;
        __syncthreads();
        if (has_enough) break;
    }
    return sum;
}

// Returns the lowest sum that a neighbor can have. `kth_similarity` is the similarity of the k-th
// neighbor of earlier tiles, which a neighbor must exceed; 0 if there are fewer than k.
__device__ __forceinline__ u32 compute_cutoff(u32 kth, u32 error, float scale,
                                              float kth_similarity) {
    int cutoff = max((int)kth - (int)error - 2, 1);
    return max(cutoff, (int)fminf(kth_similarity * scale * 0.999999f, 65535.0f));
}

// Threads with a sum that reaches the cutoff are called hot: they write their number to `hot`. The
// other threads clear their sums. `collect_hot` must follow after a barrier. Few threads are hot,
// but most warps contain one, so all threads help to scan the vectors of the hot threads.
template <u32 THREADS>
__device__ __forceinline__ void mark_or_clear(uint4* memory, u32 vectors, u32 own_greatest,
                                              u32 cutoff, u16* hot, u32* hot_count) {
    if (own_greatest >= cutoff) {
        hot[atomicAdd(hot_count, 1)] = threadIdx.x;
    } else {
        for (u32 vector = threadIdx.x; vector < vectors; vector += THREADS) {
            memory[vector] = make_uint4(0, 0, 0, 0);
        }
    }
}

// Finds the rows of hot threads whose sums reach the cutoff, and clears the sums. Calls `take` with
// the first of eight rows and a bit mask of the rows found.
template <u32 THREADS, class Take>
__device__ __forceinline__ void collect_hot(uint4* memory, u32 vectors, u32 cutoff, const u16* hot,
                                            u32 hot_count, const Take& take) {
    const u32 high_cutoff = cutoff << 16;
    // Adjacent lanes scan vectors of different threads, because the vectors of one thread share a
    // bank.
    for (u32 number = threadIdx.x % 64; number < hot_count; number += 64) {
        u32 vector = hot[number] + threadIdx.x / 64 * THREADS;
        for (; vector < vectors; vector += THREADS / 64 * THREADS) {
            uint4 words = memory[vector];
            u32 rows = 0;
            if (words.x >= high_cutoff) rows |= 2;
            if ((words.x & 0xffff) >= cutoff) rows |= 1;
            if (words.y >= high_cutoff) rows |= 8;
            if ((words.y & 0xffff) >= cutoff) rows |= 4;
            if (words.z >= high_cutoff) rows |= 32;
            if ((words.z & 0xffff) >= cutoff) rows |= 16;
            if (words.w >= high_cutoff) rows |= 128;
            if ((words.w & 0xffff) >= cutoff) rows |= 64;
            if (rows) take(8 * vector, rows);
            memory[vector] = make_uint4(0, 0, 0, 0);
        }
    }
}

// Clears the sums of excluded rows. Each thread clears its own rows, which it scans later.
template <u32 THREADS>
__device__ __forceinline__ void clear_excluded(uint4* memory, const Tile& tile, const Allow& allow,
                                               u32 query) {
    u16* sums = (u16*)memory;
    if (allow.ranges) {
        uint2 range = allow.ranges[query];
        u32 begin = max(range.x, tile.first_row) - tile.first_row;
        u32 end = range.y > tile.first_row ? min(range.y - tile.first_row, tile.rows) : 0;
        // The thread owns eight of every 8 * THREADS rows.
        u32 vector = begin / 8 + (threadIdx.x + THREADS - begin / 8 % THREADS) % THREADS;
        for (; begin < end && 8 * vector < end; vector += THREADS) {
            for (u32 row = max(8 * vector, begin); row < min(8 * vector + 8, end); row++) {
                sums[row] = 0;
            }
        }
    }
    if (allow.bounds) {
        for (u64 index = allow.bounds[query]; index < allow.bounds[query + 1]; index++) {
            u32 local = allow.lists[index] - tile.first_row;
            if (local < tile.rows && local / 8 % THREADS == threadIdx.x) sums[local] = 0;
        }
    }
    if (allow.only || allow.row_groups) {
        for (u32 vector = threadIdx.x; 8 * vector < tile.rows; vector += THREADS) {
            for (u32 row = 8 * vector; row < min(8 * vector + 8, tile.rows); row++) {
                if (!allow.is_in_set_and_other_group(query, tile.first_row + row)) sums[row] = 0;
            }
        }
    }
}

// A lookup table for the terms of a query. It has a bit for each column, or for each 2^shift
// columns if the vocabulary is larger than TABLE_BITS. For each word of bits, it stores the index
// of the word's first term. To find a term, a lookup adds the number of lower bits set in the word.
// If several columns share a bit, the lookup also checks the following terms.
const u32 TABLE_BITS = 65536;
const u32 TABLE_WORDS = TABLE_BITS / 32;
// Maximum number of terms in the table. The terms of longer queries stay in global memory.
const u32 MAX_TABLE_TERMS = 256;

struct TermTable {
    u32 bits[TABLE_WORDS];
    u16 first[TABLE_WORDS];       // first term of each word that is not 0
    uint2 terms[MAX_TABLE_TERMS]; // column, and bits of the weight
};

// Clears a table. To build a table, call `clear_table` and `fill_table`, with a barrier after each.
// Threads first, first + stride, ... take part.
__device__ __forceinline__ void clear_table(TermTable& table, u32 first, u32 stride) {
#pragma unroll 1
    for (u32 index = first; index < TABLE_WORDS / 4; index += stride) {
        ((uint4*)table.bits)[index] = make_uint4(0, 0, 0, 0);
    }
}

__device__ __forceinline__ void fill_table(TermTable& table, const Queries& queries, u32 shift,
                                           u32 begin, u32 terms, u32 first, u32 stride) {
#pragma unroll 1
    for (u32 term = first; term < terms; term += stride) {
        const u32 col = queries.col(begin + term), bit = col >> shift;
        const u32 previous = term ? queries.col(begin + term - 1) >> shift : NO_ROW;
        if (previous / 32 != bit / 32) table.first[bit / 32] = (u16)term;
        atomicOr(&table.bits[bit / 32], 1u << bit % 32);
        if (term < MAX_TABLE_TERMS) {
            table.terms[term] = make_uint2(col, __float_as_uint(queries.vals[begin + term]));
        }
    }
}

// Returns the weight of a term in the query, or 0 if the query lacks the term. Searches global
// memory by bisection.
__device__ __forceinline__ float find_weight(const Queries& queries, u32 begin, u32 terms,
                                             u32 col) {
    u32 low = begin, high = begin + terms;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (queries.col(middle) < col) low = middle + 1; else high = middle;
    }
    return low < begin + terms && queries.col(low) == col ? queries.vals[low] : 0.0f;
}

// Returns the dot product of a row and a query, with additions in term order.
__device__ __forceinline__ double row_sum_in_term_order(const Tile& tile, u64 from, u64 to,
                                                        const Queries& queries, u32 begin,
                                                        u32 terms) {
    double sum = 0.0;
    for (u64 entry = from; entry < to; entry++) {
        float weight = find_weight(queries, begin, terms, tile.cols[entry]);
        if (weight != 0.0f) sum = fma((double)tile.vals[entry], (double)weight, sum);
    }
    return sum;
}

// The columns of a row as 32-bit numbers, loaded four at a time.
struct WideCols {
    const uint4* cols;
    __device__ __forceinline__ uint4 load(u32 vector) const { return __ldg(cols + vector); }
    static __device__ __forceinline__ uint4 unpack(uint4 loaded) { return loaded; }
};

// The columns of a row as 16-bit numbers, loaded four at a time.
struct NarrowCols {
    const uint2* cols;
    __device__ __forceinline__ uint2 load(u32 vector) const { return __ldg(cols + vector); }
    static __device__ __forceinline__ uint4 unpack(uint2 loaded) {
        return make_uint4(loaded.x & 0xffff, loaded.x >> 16, loaded.y & 0xffff, loaded.y >> 16);
    }
};

// Whether columns have 32 bits. If so, a bit of the table may represent several columns.
__device__ __forceinline__ constexpr bool is_wide(const WideCols&) { return true; }
__device__ __forceinline__ constexpr bool is_wide(const NarrowCols&) { return false; }

// Returns the sum of the products of a row and a query over every eighth vector of four entries.
// `LONG` means that the query has more than MAX_TABLE_TERMS terms.
template <bool LONG, class Cols>
__device__ __forceinline__ double partial_row_sum(const Cols& cols, const float4* vals, u32 vectors,
                                                  u32 lane, const TermTable& table,
                                                  const Queries& queries, u32 shift, u32 begin,
                                                  u32 terms) {
    double sum = 0.0;
#pragma unroll 1
    for (u32 vector = lane; vector < vectors; vector += 8) {
        const uint4 col = Cols::unpack(cols.load(vector));
        const float4 val = __ldg(vals + vector);
        auto product = [&](u32 col, float val) {
            const u32 bit = is_wide(cols) ? (col >> shift) % TABLE_BITS : col; // also for padding
            // Moves the bit of the column to the top, and drops the bits above it.
            const u32 bits = __funnelshift_l(0, table.bits[bit / 32], ~bit);
            u32 weight = 0;
            if ((int)bits < 0) {
                u32 number = table.first[bit / 32] + __popc(bits) - 1;
                auto load_term = [&]() {
                    return LONG ? make_uint2(queries.col(begin + number),
                                             __float_as_uint(queries.vals[begin + number]))
                                : table.terms[number];
                };
                uint2 term = load_term();
                if (is_wide(cols)) {
                    while (term.x < col && ++number < terms) term = load_term();
                    weight = term.x == col ? term.y : 0;
                } else {
                    weight = term.y;
                }
            }
            sum = fma((double)val, (double)__uint_as_float(weight), sum);
        };
        product(col.x, val.x);
        product(col.y, val.y);
        product(col.z, val.z);
        product(col.w, val.w);
    }
    return sum;
}

// Returns the dot product of a query and a row with the entries from .. to. The table contains the
// query's `terms` terms, which start at `begin`. Eight lanes of a warp must call it, and all
// receive the result. Padding entries have weight 0.
__device__ __forceinline__ double row_sum(const Tile& tile, u64 from, u64 to,
                                          const TermTable& table, const Queries& queries, u32 begin,
                                          u32 terms) {
    const u32 lane = threadIdx.x & 7, lanes = 0xffu << (threadIdx.x & 24), shift = tile.shift;
    const float4* vals = (const float4*)(tile.vals + from);
    const u32 vectors = (u32)(to - from + 3) / 4;
    const bool is_long = terms > MAX_TABLE_TERMS;
    double sum;
    if (tile.narrow_cols) {
        const NarrowCols cols = {(const uint2*)(tile.narrow_cols + from)};
        sum = is_long ? partial_row_sum<true>(cols, vals, vectors, lane, table, queries, shift,
                                              begin, terms)
                      : partial_row_sum<false>(cols, vals, vectors, lane, table, queries, shift,
                                               begin, terms);
    } else {
        const WideCols cols = {(const uint4*)(tile.cols + from)};
        sum = is_long ? partial_row_sum<true>(cols, vals, vectors, lane, table, queries, shift,
                                              begin, terms)
                      : partial_row_sum<false>(cols, vals, vectors, lane, table, queries, shift,
                                               begin, terms);
    }
#pragma unroll
    for (u32 offset = 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(lanes, sum, offset);
    return sum;
}

// Returns the exact similarity of a row, given its dot product with a query, added in any order. If
// the order can change the rounding to f32, the dot product is recomputed in term order.
__device__ __forceinline__ float exact_similarity(double sum, const Tile& tile, u64 from, u64 to,
                                                  const Queries& queries, u32 begin, u32 terms) {
    double error = sum * ((2.0 * terms + 8.0) * 1.1102230246251565e-16);
    float similarity = round_to_f32(sum - error);
    if (similarity != round_to_f32(sum + error)) {
        similarity = round_to_f32(row_sum_in_term_order(tile, from, to, queries, begin, terms));
    }
    return similarity;
}

// Writes the k greatest of `total` keys in shared memory to `best`; `valid` of the keys are not 0.
// In the `last` tile, writes neighbors in the format of the host instead of keys.
template <u32 THREADS>
__device__ __forceinline__ void rank_keys(u64* keys, u32 total, u32 valid, u32 k, u32 last,
                                          u64* best) {
    const u32 tid = threadIdx.x, lane = tid & 31;
    if (total <= 256) {
        const u32 lanes = 0xfu << (lane & 28);
        for (u32 position = tid / 4; position < total; position += THREADS / 4) {
            u64 key = keys[position];
            u32 better = 0;
            for (u32 other = lane & 3; other < total; other += 4) better += keys[other] > key;
            better += __shfl_xor_sync(lanes, better, 1);
            better += __shfl_xor_sync(lanes, better, 2);
            if ((lane & 3) == 0 && key != 0 && better < k) {
                best[better] = last ? neighbor_from_key(key) : key;
            }
        }
        return;
    }
    u32 size = 512;
    while (size < total) size *= 2;
    for (u32 position = total + tid; position < size; position += THREADS) keys[position] = 0;
    __syncthreads();
    sort_descending(keys, size);
    for (u32 position = tid; position < min(k, valid); position += THREADS) {
        best[position] = last ? neighbor_from_key(keys[position]) : keys[position];
    }
}
