// Common parts of the fused kernels: fixed-point sums over an inverted index, and their bound.
//
// Postings: `weight << 17 | (row / 2) << 2 | row % 2`. The weight has 13 bits: ceil(w / max * 8191), where
// max is the term's greatest weight in the tile. A vector is four postings, all of even rows or all of odd
// rows, padded with weight 0. Weights must not be negative (the host handles such queries and tiles).
// Sums have 16 bits, two per word of shared memory; row 2i is in the low half of word i.
//
// The lists of a query are split into tasks for a warp. Large tasks have 1 to 4 times 32 vectors. The rest
// of a list becomes small tasks of at most 8 vectors; a warp takes four of them at a time. A task consists
// of its first vector and `mult << 8 | size`.
//
// Why no row is lost. A product w * q * scale is added as ceil(weight * mult / 65536) with
// mult >= q * max * scale / 8191 * 65536. This is never less than the true product, and at most
// q * max * scale / 8191 + 1.1875 above it (mult exceeds its bound by at most 1.25). A sum is therefore at
// least scale * similarity and at most E above it, E = scale * (sum of q * max) / 8191 + 1.1875 * terms.
// At least k rows have sums >= T, where T is at most the k-th greatest sum. The k-th similarity is
// therefore at least (T - E) / scale, and a row of the result has a sum of at least T - E. One more unit
// allows for the rounding of similarities to f32, and another one for the rounding of T - E. A sum is 0
// only if no product is above 0. `scale` is chosen such that no sum exceeds 65535, by the Cauchy-Schwarz
// inequality or by the sum of q * max, whichever is less. All bounds are rounded outward. If similarities
// could leave the normal range of f32 (above 1e37, or units below 1e-35), the host handles the query.

// Rows of a tile and their lists.
struct Tile {
    const uint4* lists; // per term: first vector of four postings, number of vectors, greatest weight, 0
    const uint4* postings;
    const u64* row_ptr; // starts at the tile's first row
    const u64* row_end;
    const u32* cols;
    const u16* narrow_cols; // the same in 16 bits, or null if the vocabulary is larger
    const float* vals;
    float longest; // upper bound of the Euclidean lengths of the rows
    u32 rows;
    u32 first_row; // number of the tile's first row
    u32 shift;     // columns are below PLACES << shift
};

const u32 WARP_VECTORS = 32; // per piece of a large task
const u32 WARP_PIECES = 4;   // maximum per large task
const u32 LANE_VECTORS = 8;  // maximum per small task
const u32 MOST_TERMS = 8192;  // the host handles longer queries
const u32 GROUPS = 128;       // groups of rows whose greatest sums give a threshold
const u32 GROUPED_K = 64;     // for a greater k, 128 groups would give too low a threshold

// A term of a query in a tile.
struct Term {
    u32 start, length; // in vectors
    float product;     // at least query weight * greatest weight of the list
    float square;      // at least the square of the query weight
};

__device__ __forceinline__ Term term_of(const Tile& tile, const Queries& queries, u32 at, u32 end) {
    Term term = {0, 0, 0.0f, 0.0f};
    if (at < end) {
        uint4 list = __ldg(tile.lists + queries.col(at));
        term.start = list.x;
        term.length = list.y;
        if (list.y) {
            float weight = queries.vals[at];
            term.product = __fmul_ru(weight, __uint_as_float(list.z));
            term.square = __fmul_ru(weight, weight);
        }
    }
    return term;
}

__device__ __forceinline__ float warp_sum_up(float value) {
    for (u32 step = 16; step > 0; step /= 2) value = __fadd_ru(value, __shfl_xor_sync(FULL, value, step));
    return value;
}

// Computes the units for a similarity of 1, the error of a sum in units, and whether the bound holds.
struct Scale {
    float scale;
    u32 error;
    bool holds;
};

__device__ __forceinline__ Scale scale_of(float square, float product, u32 terms, float longest) {
    Scale scale = {0.0f, 0, true};
    if (product == 0.0f) return scale;
    float most = fminf(__fmul_ru(__fsqrt_ru(square), longest), product);
    most = __fmul_ru(__fadd_ru(most, __fmul_ru(product, 1.0f / 8190.0f)), 1.000002f);
    scale.holds = most > 1e-30f && most < 1e37f && terms <= MOST_TERMS;
    if (!scale.holds) return scale;
    scale.scale = __fdiv_rd(65530.0f - 1.25f * terms, most);
    scale.error = __float2uint_ru(
        __fadd_ru(__fmul_ru(__fmul_ru(scale.scale, product), 1.0f / 8190.0f), 1.1875f * terms));
    return scale;
}

__device__ __forceinline__ u32 mult_of(float product, float scale) {
    return __float2uint_ru(__fmul_ru(__fmul_ru(product, scale), 8.00097716f)); // > 65536 / 8191
}

// Number of large and small tasks of a list.
__device__ __forceinline__ u32 large_tasks(u32 vectors) {
    return (vectors / WARP_VECTORS + WARP_PIECES - 1) / WARP_PIECES;
}
__device__ __forceinline__ u32 small_tasks(u32 vectors) {
    return (vectors % WARP_VECTORS + LANE_VECTORS - 1) / LANE_VECTORS;
}

// Writes the tasks of a list.
__device__ __forceinline__ void write_tasks(const Term& term, u32 mult, uint2* large, uint2* small) {
    u32 start = term.start;
    for (u32 pieces = term.length / WARP_VECTORS; pieces > 0;) {
        u32 some = min(pieces, WARP_PIECES);
        *large++ = make_uint2(start, mult << 8 | some);
        start += some * WARP_VECTORS;
        pieces -= some;
    }
    for (u32 rest = term.length % WARP_VECTORS; rest > 0;) {
        u32 some = min(rest, LANE_VECTORS);
        *small++ = make_uint2(start, mult << 8 | some);
        start += some;
        rest -= some;
    }
}

__device__ __forceinline__ void add_posting(u32* sums, u32 posting, u32 mult, u32 half) {
    u32 units = (posting >> 17) * mult + 0xffff; // in the upper half of the word
    u32* word = (u32*)((char*)sums + (posting & 0x1fffc));
    atomicAdd(word, __byte_perm(units, 0, half));
}

__device__ __forceinline__ void add_vector(u32* sums, uint4 postings, u32 mult) {
    // Moves bytes 2 and 3 to the lower half of the word for an even row, to the upper half for an odd row.
    u32 half = 0x4432 - (postings.x & 1) * (0x4432 - 0x3244);
    add_posting(sums, postings.x, mult, half);
    add_posting(sums, postings.y, mult, half);
    add_posting(sums, postings.z, mult, half);
    add_posting(sums, postings.w, mult, half);
}

// Adds a large task with one warp.
__device__ __forceinline__ void add_large(u32* sums, const uint4* postings, uint2 task, u32 lane) {
    const u32 pieces = task.y & 255, mult = task.y >> 8;
    const uint4* list = postings + task.x + lane;
    asm volatile("" : "+l"(list)); // one address instead of one per piece
    uint4 part[WARP_PIECES];
#pragma unroll
    for (u32 piece = 0; piece < WARP_PIECES; piece++) {
        if (piece < pieces) part[piece] = __ldcg(list + WARP_VECTORS * piece);
    }
#pragma unroll
    for (u32 piece = 0; piece < WARP_PIECES; piece++) {
        if (piece < pieces) add_vector(sums, part[piece], mult);
    }
}

// Adds the large tasks large[warp], large[warp + warps], ... with a warp, and likewise the small tasks, four
// at a time. (Loading the next task before adding one cost more registers than it saved time.)
__device__ __forceinline__ void add_tasks(u32* sums, const uint4* postings, const uint2* large,
                                          u32 larges, const uint2* small, u32 smalls, u32 warp,
                                          u32 warps, u32 lane) {
    u32 number = warp;
    for (; number < larges; number += warps) add_large(sums, postings, large[number], lane);
    for (number -= larges; number * 4 < smalls; number += warps) {
        u32 own = number * 4 + lane / LANE_VECTORS, at = lane % LANE_VECTORS;
        if (own < smalls) {
            uint2 task = small[own];
            if (at < (task.y & 255)) {
                add_vector(sums, __ldcg(postings + task.x + at), task.y >> 8);
            }
        }
    }
}

// Greatest sum in the vectors of one thread.
template <u32 THREADS>
__device__ __forceinline__ u32 greatest_of(const uint4* memory, u32 vectors) {
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

// Greatest sums of GROUPS groups of threads.
template <u32 THREADS>
__device__ __forceinline__ void write_maxima(u32 greatest, u32* maxima) {
    for (u32 step = 1; step < THREADS / GROUPS; step *= 2) {
        greatest = max(greatest, __shfl_xor_sync(FULL, greatest, step));
    }
    if (threadIdx.x % (THREADS / GROUPS) == 0) maxima[threadIdx.x / (THREADS / GROUPS)] = greatest;
}

// Returns a value at most the k-th greatest of the maxima, and at most 15 below it; one warp calls it.
__device__ __forceinline__ u32 kth_maximum(const u32* maxima, u32 k, u32 lane) {
    u32 a = maxima[lane], b = maxima[lane + 32], c = maxima[lane + 64], d = maxima[lane + 96];
    u32 kth = 0;
    // The four lowest bits would cost as much as the others, and exclude hardly any candidate.
#pragma unroll 1
    for (u32 bit = 1u << 15; bit >= 1u << 4; bit >>= 1) {
        u32 trial = kth | bit;
        u32 reached = __popc(__ballot_sync(FULL, a >= trial)) + __popc(__ballot_sync(FULL, b >= trial)) +
                      __popc(__ballot_sync(FULL, c >= trial)) + __popc(__ballot_sync(FULL, d >= trial));
        if (reached >= k) kth = trial;
    }
    return kth;
}

// Returns a sum that at least k rows reach, for k above GROUPED_K; all threads call it. `groups` contains
// the greatest sum of each thread's rows, and the rank-th greatest of these sums is taken. rank = k is
// sufficient. If k is near the number of threads or above, the host sets a lower rank. Then the rows that
// reach the sum are counted, and the sum is lowered until they are k.
template <u32 THREADS>
__device__ __forceinline__ u32 reached_sum(const uint4* memory, u32 vectors, u32 greatest, u32 k,
                                           u32 rank, u32* groups) {
    __shared__ u32 sum, reached;
    const u32 tid = threadIdx.x, lane = tid & 31;
    groups[tid] = greatest;
    __syncthreads();
    if (tid < 32) {
        u32 kth = 0;
#pragma unroll 1
        for (u32 bit = 1u << 15; bit >= 1u << 4; bit >>= 1) {
            u32 trial = kth | bit, count = 0;
#pragma unroll 4
            for (u32 group = 0; group < THREADS; group += 32) count += groups[group + lane] >= trial;
            for (u32 step = 16; step > 0; step /= 2) count += __shfl_xor_sync(FULL, count, step);
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
        if (greatest >= trial) {
            for (u32 vector = tid; vector < vectors; vector += THREADS) {
                const u32* words = (const u32*)(memory + vector);
#pragma unroll
                for (u32 part = 0; part < 4; part++) {
                    count += ((words[part] & 0xffff) >= trial) + ((words[part] >> 16) >= trial);
                }
            }
        }
        for (u32 step = 16; step > 0; step /= 2) count += __shfl_xor_sync(FULL, count, step);
        if (lane == 0 && count) atomicAdd(&reached, count);
        __syncthreads();
        const bool enough = reached >= k;
        if (tid == 0 && !enough) sum = trial - trial / 8 - 1;
        __syncthreads();
        if (enough) break;
    }
    return sum;
}

// Least sum that a row of the result can have. The similarity must exceed `worst`, because k rows before
// the tile have at least that similarity; 0 if there are fewer.
__device__ __forceinline__ u32 cut_of(u32 kth, u32 error, float scale, float worst) {
    int cut = max((int)kth - (int)error - 2, 1);
    return max(cut, (int)fminf(worst * scale * 0.999999f, 65535.0f));
}

// Threads that hold a sum at or above the cut write their number to `hot`; the others clear their sums.
// `take_hot` must follow after a barrier. Few threads are hot, but most warps contain one, so other threads
// scan the vectors of hot threads.
template <u32 THREADS>
__device__ __forceinline__ void clear_or_mark(uint4* memory, u32 vectors, u32 greatest, u32 cut, u16* hot,
                                              u32* hots) {
    if (greatest >= cut) {
        hot[atomicAdd(hots, 1)] = threadIdx.x;
    } else {
        for (u32 vector = threadIdx.x; vector < vectors; vector += THREADS) {
            memory[vector] = make_uint4(0, 0, 0, 0);
        }
    }
}

// Takes the rows of hot threads whose sums reach the cut, and clears them. `take` gets the first of eight
// rows, and a bit for each of them.
template <u32 THREADS, class Take>
__device__ __forceinline__ void take_hot(uint4* memory, u32 vectors, u32 cut, const u16* hot, u32 hots,
                                         const Take& take) {
    const u32 high_cut = cut << 16;
    // Adjacent lanes scan vectors of different threads, because the vectors of one thread share a bank.
    for (u32 number = threadIdx.x % 64; number < hots; number += 64) {
        u32 vector = hot[number] + threadIdx.x / 64 * THREADS;
        for (; vector < vectors; vector += THREADS / 64 * THREADS) {
            uint4 words = memory[vector];
            u32 rows = 0;
            if (words.x >= high_cut) rows |= 2;
            if ((words.x & 0xffff) >= cut) rows |= 1;
            if (words.y >= high_cut) rows |= 8;
            if ((words.y & 0xffff) >= cut) rows |= 4;
            if (words.z >= high_cut) rows |= 32;
            if ((words.z & 0xffff) >= cut) rows |= 16;
            if (words.w >= high_cut) rows |= 128;
            if ((words.w & 0xffff) >= cut) rows |= 64;
            if (rows) take(8 * vector, rows);
            memory[vector] = make_uint4(0, 0, 0, 0);
        }
    }
}

// Clears the sums of excluded rows: each thread clears its own rows before it scans them.
template <u32 THREADS>
__device__ __forceinline__ void clear_denied(uint4* memory, const Tile& tile, const Allow& allow, u32 query) {
    u16* sums = (u16*)memory;
    if (allow.ranges) {
        uint2 range = allow.ranges[query];
        u32 begin = max(range.x, tile.first_row) - tile.first_row;
        u32 end = range.y > tile.first_row ? min(range.y - tile.first_row, tile.rows) : 0;
        // The thread holds eight rows of every 8 * THREADS rows.
        u32 vector = begin / 8 + (threadIdx.x + THREADS - begin / 8 % THREADS) % THREADS;
        for (; begin < end && 8 * vector < end; vector += THREADS) {
            for (u32 row = max(8 * vector, begin); row < min(8 * vector + 8, end); row++) sums[row] = 0;
        }
    }
    if (allow.bounds) {
        for (u64 at = allow.bounds[query]; at < allow.bounds[query + 1]; at++) {
            u32 local = allow.lists[at] - tile.first_row;
            if (local < tile.rows && local / 8 % THREADS == threadIdx.x) sums[local] = 0;
        }
    }
    if (allow.only || allow.of_rows) {
        for (u32 vector = threadIdx.x; 8 * vector < tile.rows; vector += THREADS) {
            for (u32 row = 8 * vector; row < min(8 * vector + 8, tile.rows); row++) {
                if (!allow.in_set_and_other_group(query, tile.first_row + row)) sums[row] = 0;
            }
        }
    }
}

// Lookup table for the terms of a query. It has a bit for each column, or for each 2^shift columns if the
// vocabulary is larger than PLACES. For each word of bits, it has the number of the word's first term. The
// number of a term is that number plus the bits before its own; if several columns share a bit, a search
// takes one or two more steps.
const u32 PLACES = 65536;
const u32 WORDS = PLACES / 32;
const u32 SHORT_TERMS = 256; // terms of longer queries stay in global memory

struct TermTable {
    u32 bits[WORDS];
    u16 first[WORDS]; // valid only for words other than 0
    uint2 terms[SHORT_TERMS]; // column and the bits of the weight
};

// Building a table takes two steps, clear and fill, with a barrier after each. Threads first, first + step,
// ... take part.
__device__ __forceinline__ void clear_table(TermTable& table, u32 first, u32 step) {
#pragma unroll 1
    for (u32 at = first; at < WORDS / 4; at += step) ((uint4*)table.bits)[at] = make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ void fill_table(TermTable& table, const Queries& queries, u32 shift, u32 begin,
                                           u32 terms, u32 first, u32 step) {
#pragma unroll 1
    for (u32 number = first; number < terms; number += step) {
        const u32 col = queries.col(begin + number), place = col >> shift;
        const u32 before = number ? queries.col(begin + number - 1) >> shift : NO_ROW;
        if (before / 32 != place / 32) table.first[place / 32] = (u16)number;
        atomicOr(&table.bits[place / 32], 1u << place % 32);
        if (number < SHORT_TERMS) {
            table.terms[number] = make_uint2(col, __float_as_uint(queries.vals[begin + number]));
        }
    }
}

// Weight of a term in the query, by bisection in global memory; 0 if the query lacks the term.
__device__ __forceinline__ float weight_of(const Queries& queries, u32 begin, u32 terms, u32 col) {
    u32 low = begin, high = begin + terms;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (queries.col(middle) < col) low = middle + 1; else high = middle;
    }
    return low < begin + terms && queries.col(low) == col ? queries.vals[low] : 0.0f;
}

// Sum of a row's products with the query in term order.
__device__ __forceinline__ double sum_in_order(const Tile& tile, u64 from, u64 to, const Queries& queries,
                                               u32 begin, u32 terms) {
    double sum = 0.0;
    for (u64 entry = from; entry < to; entry++) {
        float weight = weight_of(queries, begin, terms, tile.cols[entry]);
        if (weight != 0.0f) sum = fma((double)tile.vals[entry], (double)weight, sum);
    }
    return sum;
}

// Four columns of a row.
struct WideCols {
    const uint4* cols;
    __device__ __forceinline__ uint4 load(u32 at) const { return __ldg(cols + at); }
    static __device__ __forceinline__ uint4 four(uint4 loaded) { return loaded; }
};

struct NarrowCols {
    const uint2* cols;
    __device__ __forceinline__ uint2 load(u32 at) const { return __ldg(cols + at); }
    static __device__ __forceinline__ uint4 four(uint2 loaded) {
        return make_uint4(loaded.x & 0xffff, loaded.x >> 16, loaded.y & 0xffff, loaded.y >> 16);
    }
};

// Returns whether rows have 32-bit columns; then a bit may represent several columns.
__device__ __forceinline__ constexpr bool is_wide(const WideCols&) { return true; }
__device__ __forceinline__ constexpr bool is_wide(const NarrowCols&) { return false; }

// Products of a row with the query, for every eighth vector of four entries. `LONG`: the query has more
// than SHORT_TERMS terms.
template <bool LONG, class Cols>
__device__ __forceinline__ double products_of(const Cols& cols, const float4* vals, u32 fours, u32 lane,
                                              const TermTable& table, const Queries& queries, u32 shift,
                                              u32 begin, u32 terms) {
    double sum = 0.0;
#pragma unroll 1
    for (u32 four = lane; four < fours; four += 8) {
        const uint4 col = Cols::four(cols.load(four));
        const float4 val = __ldg(vals + four);
        auto product = [&](u32 col, float val) {
            const u32 place = is_wide(cols) ? (col >> shift) % PLACES : col; // NO_ROW has a bit, too
            // Moves the bit of the place to the top, and drops the bits above it.
            const u32 bits = __funnelshift_l(0, table.bits[place / 32], ~place);
            u32 weight = 0;
            if ((int)bits < 0) {
                u32 number = table.first[place / 32] + __popc(bits) - 1;
                auto term = [&]() {
                    return LONG ? make_uint2(queries.col(begin + number),
                                             __float_as_uint(queries.vals[begin + number]))
                                : table.terms[number];
                };
                uint2 found = term();
                if (is_wide(cols)) {
                    while (found.x < col && ++number < terms) found = term();
                    weight = found.x == col ? found.y : 0;
                } else {
                    weight = found.y;
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

// Sum of the products of the entries from .. to of a row with a query. The query's `terms` from `begin` on
// are in the table. Eight lanes of a warp call it, and all get the sum. Entries between rows have weight 0.
__device__ __forceinline__ double row_sum(const Tile& tile, u64 from, u64 to, const TermTable& table,
                                          const Queries& queries, u32 begin, u32 terms) {
    const u32 lane = threadIdx.x & 7, eight = 0xffu << (threadIdx.x & 24), shift = tile.shift;
    const float4* vals = (const float4*)(tile.vals + from);
    const u32 fours = (u32)(to - from + 3) / 4;
    const bool is_long = terms > SHORT_TERMS;
    double sum;
    if (tile.narrow_cols) {
        const NarrowCols cols = {(const uint2*)(tile.narrow_cols + from)};
        sum = is_long ? products_of<true>(cols, vals, fours, lane, table, queries, shift, begin, terms)
                      : products_of<false>(cols, vals, fours, lane, table, queries, shift, begin, terms);
    } else {
        const WideCols cols = {(const uint4*)(tile.cols + from)};
        sum = is_long ? products_of<true>(cols, vals, fours, lane, table, queries, shift, begin, terms)
                      : products_of<false>(cols, vals, fours, lane, table, queries, shift, begin, terms);
    }
#pragma unroll
    for (u32 step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(eight, sum, step);
    return sum;
}

// Similarity of a row by the formula, from its sum with the query's `terms` from `begin` on. The additions
// were not in term order. If that can change the rounding to f32, they are repeated in term order.
__device__ __forceinline__ float settled(double sum, const Tile& tile, u64 from, u64 to,
                                         const Queries& queries, u32 begin, u32 terms) {
    double doubt = sum * ((2.0 * terms + 8.0) * 1.1102230246251565e-16);
    float similarity = rounded(sum - doubt);
    if (similarity != rounded(sum + doubt)) {
        similarity = rounded(sum_in_order(tile, from, to, queries, begin, terms));
    }
    return similarity;
}

// Writes the k greatest of `total` keys in shared memory to `best`; `valid` of them are not 0. Writes them
// as keys, or as neighbors in the `last` tile.
template <u32 THREADS>
__device__ __forceinline__ void rank_keys(u64* keys, u32 total, u32 valid, u32 k, u32 last,
                                          u64* best) {
    const u32 tid = threadIdx.x, lane = tid & 31;
    if (total <= 256) {
        const u32 four = 0xfu << (lane & 28);
        for (u32 place = tid / 4; place < total; place += THREADS / 4) {
            u64 key = keys[place];
            u32 better = 0;
            for (u32 other = lane & 3; other < total; other += 4) better += keys[other] > key;
            better += __shfl_xor_sync(four, better, 1);
            better += __shfl_xor_sync(four, better, 2);
            if ((lane & 3) == 0 && key != 0 && better < k) best[better] = last ? neighbor_of(key) : key;
        }
        return;
    }
    u32 size = 512;
    while (size < total) size *= 2;
    for (u32 place = total + tid; place < size; place += THREADS) keys[place] = 0;
    __syncthreads();
    sort_descending(keys, size);
    for (u32 place = tid; place < min(k, valid); place += THREADS) {
        best[place] = last ? neighbor_of(keys[place]) : keys[place];
    }
}
