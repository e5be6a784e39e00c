// fused, fused_small: the k best neighbors of each query among the rows of one tile, in one kernel.
//
// A block takes one query after the other (queries first + blockIdx.x, + gridDim.x, ...):
//   1. bound     how large a sum can become: that gives the scale, `scale` units for a similarity of 1
//   2. add       the posting lists of the query's terms, cut into tasks of at most 128 * 16 bytes,
//                are added in fixed point into 16-bit accumulators, one a row, two a word
//   3. maxima    128 groups of rows; the k-th greatest maximum is at most the k-th greatest sum
//   4. threshold lowered by the provable error; meanwhile the query becomes a hash table
//   5. collect   rows whose sum reaches it; the accumulators are cleared
//   6. score     the candidates by the formula of common.cuh
//   7. rank      with what earlier tiles found, and write
//
// Postings: `weight << 17 | (row / 2) << 2 | row % 2`, weight of 13 bits = ceil(w / max * 8191) of the
// term's greatest weight in the tile; lists begin at multiples of 4 postings and are padded with
// weight 0. Weights must not be negative (the host sends such queries and tiles elsewhere).
//
// Why no row is lost. A product w * q * scale is added as ceil(weight * mult / 65536) with
// mult > q * max * scale / 8191 * 65536: never less than the true product, and at most
// q * max * scale / 8191 + 1.125 above it. So a sum is at least scale * similarity and at most E above
// it, E = scale * (sum of q * max) / 8191 + 1.125 * terms. At least k rows have sums >= T, where T is
// at most the k-th greatest sum, so the k-th similarity is at least (T - E) / scale, and a row of the
// answer has a sum of at least T - E; one more unit is left for the rounding of similarities to f32,
// and one for that of T - E. A sum is 0 only where no product is above 0. `scale` is such that no sum
// exceeds 65535, by Cauchy and Schwarz or by the sum of q * max, whichever is less.
//
// status[q] = 1: the host must answer the query another way (too many candidates or terms).
//
// Dynamic shared memory: ceil(rows / 8) * 16 + 6144 + 8 * room bytes; `room` keys, a power of two, at least 2 k.
// k <= room / 2, rows <= 65536. Reference: src/search/exhaustive.rs. Launchers: `fused`, `fused_small`.

struct Tile {
    const u32* list_ptr;   // terms + 1: list t is postings[list_ptr[t] .. list_ptr[t + 1]]
    const float* list_max; // terms: the greatest weight of the list
    const uint4* postings;
    const u64* row_ptr; // rows + 1, of the tile's first row on
    const u32* cols;
    const float* vals;
    double longest; // at least the greatest Euclidean length of a row
    u32 rows;
    u32 first_row; // the number of the tile's first row
};

const u32 TASK_BYTES = 6144;
const u32 TASKS = TASK_BYTES / 8;
const u32 TASK_VECTORS = 128;
const u32 SLOTS = 512; // of the hash table, in the room of the tasks
const u32 HASHED_TERMS = 256;
const u32 GROUPS = 128;
const u32 MOST_TERMS = 8192;
const u32 GROUPED_K = 64; // beyond, group maxima would lie too far below the k-th sum

__device__ __forceinline__ u32 slot_of(u32 col) { return (col * 2654435761u) >> 23; }

__device__ __forceinline__ void add_posting(u32* sums, u32 posting, u32 mult) {
    u32 units = ((posting >> 17) * mult + 0xffff) >> 16;
    u32* word = (u32*)((char*)sums + (posting & 0x1fffc));
    atomicAdd(word, units << ((posting & 1) << 4));
}

struct Term {
    u32 start, length;
    double product; // query weight * greatest weight of the list
    double square;
};

__device__ __forceinline__ Term term_of(const Tile& tile, const Queries& queries, u32 at, u32 end) {
    Term term = {0, 0, 0.0, 0.0};
    if (at < end) {
        u32 col = queries.col(at);
        term.start = __ldg(tile.list_ptr + col);
        term.length = __ldg(tile.list_ptr + col + 1) - term.start;
        if (term.length) {
            double weight = queries.vals[at];
            term.product = weight * __ldg(tile.list_max + col);
            term.square = weight * weight;
        }
    }
    return term;
}

__device__ __forceinline__ double warp_sum(double value) {
    for (u32 step = 16; step > 0; step /= 2) value += __shfl_xor_sync(FULL, value, step);
    return value;
}

// The query's weight of a term: by the hash table, or, for long queries, by bisection.
__device__ __forceinline__ float weight_of(u32 col, u32 terms, const u32* slots, const float* weights,
                                           const Queries& queries, u32 begin) {
    if (terms <= HASHED_TERMS) {
        u32 slot = slot_of(col);
        while (true) {
            u32 found = slots[slot];
            if (found == col) return weights[slot];
            if (found == NO_ROW) return 0.0f;
            slot = (slot + 1) & (SLOTS - 1);
        }
    }
    u32 low = begin, high = begin + terms;
    while (low < high) {
        u32 middle = (low + high) / 2;
        if (queries.col(middle) < col) low = middle + 1; else high = middle;
    }
    return low < begin + terms && queries.col(low) == col ? queries.vals[low] : 0.0f;
}

template <u32 THREADS>
__device__ __forceinline__ void fused_block(const Tile& tile, const Queries& queries, u32 first,
                                            u32 count, const u32* excluded, u32 k, u32 room, u32 fresh,
                                            u64* found, u32* counts, u32* status) {
    extern __shared__ uint4 memory[];
    __shared__ double squares[THREADS / 32], products[THREADS / 32];
    __shared__ u32 task_sums[THREADS / 32];
    __shared__ u32 maxima[GROUPS];
    __shared__ u32 counters[16];
    __shared__ u32 task_count, threshold, candidates, valid;

    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const u32 vectors = (tile.rows + 7) / 8;
    u32* sums = (u32*)memory;
    uint2* tasks = (uint2*)(memory + vectors);
    u32* slots = (u32*)tasks;
    float* weights = (float*)(slots + SLOTS);
    u64* keys = (u64*)((char*)tasks + TASK_BYTES);

    for (u32 at = tid; at < vectors; at += THREADS) memory[at] = make_uint4(0, 0, 0, 0);

    for (u32 at = blockIdx.x; at < count; at += gridDim.x) {
        const u32 query = first + at;
        if (!fresh && status[at]) continue;
        const u32 begin = queries.ptr[query], end = queries.ptr[query + 1], terms = end - begin;
        if (terms > MOST_TERMS) {
            if (tid == 0) status[at] = 1;
            continue;
        }

        // 1. bound
        Term term = term_of(tile, queries, begin + tid, end);
        {
            double square = term.square, product = term.product;
            for (u32 further = begin + tid + THREADS; further < end; further += THREADS) {
                Term other = term_of(tile, queries, further, end);
                square += other.square;
                product += other.product;
            }
            if (warp * 32 < terms) {
                square = warp_sum(square);
                product = warp_sum(product);
            }
            if (lane == 0) {
                squares[warp] = square;
                products[warp] = product;
            }
        }
        double scale = 0.0;
        const u32 active_warps = min(THREADS / 32, (terms + 31) / 32);

        // 2. add
        u32 chunk = 0;
        do {
            if (chunk) term = term_of(tile, queries, begin + chunk + tid, end);
            u32 cuts = (term.length + TASK_VECTORS - 1) / TASK_VECTORS;
            u32 until = cuts;
            if (chunk + warp * 32 < terms) {
                for (u32 step = 1; step < 32; step *= 2) {
                    u32 other = __shfl_up_sync(FULL, until, step);
                    if (lane >= step) until += other;
                }
            }
            if (lane == 31) task_sums[warp] = until;
            if (tid == 0) task_count = 0;
            __syncthreads();
            if (chunk == 0) {
                double square = 0.0, product = 0.0;
                for (u32 other = 0; other < active_warps; other++) {
                    square += squares[other];
                    product += products[other];
                }
                double most = fmin(sqrt(square) * tile.longest, product) + product * (1.0 / 8191);
                scale = most > 0.0 ? (65530.0 - 1.25 * terms) / most * (1.0 - 1e-9) : 0.0;
            }
            for (u32 other = 0; other < min(warp, active_warps); other++) until += task_sums[other];
            bool fits = until <= TASKS;
            if (fits && cuts) {
                u32 mult = (u32)(term.product * scale * (65536.0 / 8191)) + 1;
                for (u32 cut = 0; cut < cuts; cut++) {
                    u32 length = min(TASK_VECTORS, term.length - cut * TASK_VECTORS);
                    tasks[until - cuts + cut] =
                        make_uint2(term.start + cut * TASK_VECTORS, mult << 8 | length);
                }
                atomicMax(&task_count, until);
            }
            chunk += __syncthreads_count(fits);
            for (u32 number = warp; number < task_count; number += THREADS / 32) {
                uint2 task = tasks[number];
                u32 length = task.y & 255, mult = task.y >> 8;
                const uint4* list = tile.postings + task.x + lane;
                uint4 part[4];
#pragma unroll
                for (u32 piece = 0; piece < 4; piece++) {
                    if (lane + 32 * piece < length) part[piece] = __ldcg(list + 32 * piece);
                }
#pragma unroll
                for (u32 piece = 0; piece < 4; piece++) {
                    if (lane + 32 * piece < length) {
                        add_posting(sums, part[piece].x, mult);
                        add_posting(sums, part[piece].y, mult);
                        add_posting(sums, part[piece].z, mult);
                        add_posting(sums, part[piece].w, mult);
                    }
                }
            }
            __syncthreads();
        } while (chunk < terms);

        // 3. maxima
        const u32 earlier = fresh ? 0 : counts[at];
        u64* mine = found + (u64)k * at;
        const u32 out_row = excluded ? excluded[query] : NO_ROW;
        if (out_row - tile.first_row < tile.rows) {
            u32 out = out_row - tile.first_row;
            if ((out / 8) % THREADS == tid) ((u16*)sums)[out] = 0;
        }
        u32 low = 0, high = 0;
        for (u32 vector = tid; vector < vectors; vector += THREADS) {
            uint4 words = memory[vector];
            low = max(max(max(low, words.x & 0xffff), max(words.y & 0xffff, words.z & 0xffff)),
                      words.w & 0xffff);
            high = max(max(max(high, words.x), max(words.y, words.z)), words.w);
        }
        const u32 greatest = max(low, high >> 16);
        u32 of_group = greatest;
#pragma unroll
        for (u32 step = 1; step < THREADS / GROUPS; step *= 2) {
            of_group = max(of_group, __shfl_xor_sync(FULL, of_group, step));
        }
        if (tid % (THREADS / GROUPS) == 0) maxima[tid / (THREADS / GROUPS)] = of_group;
        for (u32 slot = tid; slot < SLOTS; slot += THREADS) slots[slot] = NO_ROW;
        for (u32 known = tid; known < earlier; known += THREADS) keys[known] = mine[known];
        if (tid < 16) counters[tid] = 0;
        if (tid == 0) {
            candidates = 0;
            valid = earlier;
        }
        __syncthreads();

        // 4. threshold
        u32 kth = 0;
        if (k > GROUPED_K) {
            for (int bit = 15; bit >= 0; bit--) {
                u32 trial = kth | 1u << bit, reached = 0;
                if (greatest >= trial) {
                    for (u32 vector = tid; vector < vectors; vector += THREADS) {
                        uint4 words = memory[vector];
                        reached += ((words.x & 0xffff) >= trial) + ((words.x >> 16) >= trial) +
                                   ((words.y & 0xffff) >= trial) + ((words.y >> 16) >= trial) +
                                   ((words.z & 0xffff) >= trial) + ((words.z >> 16) >= trial) +
                                   ((words.w & 0xffff) >= trial) + ((words.w >> 16) >= trial);
                    }
                }
                for (u32 step = 16; step > 0; step /= 2) reached += __shfl_xor_sync(FULL, reached, step);
                if (lane == 0 && reached) atomicAdd(&counters[bit], reached);
                __syncthreads();
                if (counters[bit] >= k) kth = trial;
            }
        } else if (warp == 0) {
            u32 a = maxima[lane], b = maxima[lane + 32], c = maxima[lane + 64], d = maxima[lane + 96];
            // The four lowest bits would cost as much as the others and drop hardly a candidate.
#pragma unroll 1
            for (int bit = 15; bit >= 4; bit--) {
                u32 trial = kth | 1u << bit;
                u32 reached = __popc(__ballot_sync(FULL, a >= trial)) + __popc(__ballot_sync(FULL, b >= trial)) +
                              __popc(__ballot_sync(FULL, c >= trial)) + __popc(__ballot_sync(FULL, d >= trial));
                if (reached >= k) kth = trial;
            }
        }
        if (tid == 0) {
            double product = 0.0;
            for (u32 other = 0; other < active_warps; other++) product += products[other];
            double error = scale * product * (1.0 / 8191) + 1.125 * terms + 2.0;
            int cut = max((int)kth - (int)error, 1);
            if (earlier == k) {
                // Rows of this tile come after those of earlier ones: they must be better.
                double worst = __uint_as_float((u32)(mine[k - 1] >> 32));
                cut = max(cut, (int)fmin(worst * scale * (1.0 - 1e-6), 65535.0));
            }
            threshold = cut;
        } else if (warp > 0 && terms <= HASHED_TERMS) {
            for (u32 number = tid - 32; number < terms; number += THREADS - 32) {
                u32 col = queries.col(begin + number);
                u32 slot = slot_of(col);
                while (atomicCAS(&slots[slot], NO_ROW, col) != NO_ROW) slot = (slot + 1) & (SLOTS - 1);
                weights[slot] = queries.vals[begin + number];
            }
        }
        __syncthreads();

        // 5. collect
        {
            const u32 cut = threshold;
            const bool any = greatest >= cut;
            for (u32 vector = tid; vector < vectors; vector += THREADS) {
                if (any) {
#pragma unroll 1
                    for (u32 part = 0; part < 4; part++) {
                        u32 word = sums[4 * vector + part];
#pragma unroll
                        for (u32 half = 0; half < 2; half++) {
                            if (((word >> (16 * half)) & 0xffff) >= cut) {
                                u32 place = earlier + atomicAdd(&candidates, 1);
                                if (place < room) keys[place] = 8 * vector + 2 * part + half;
                            }
                        }
                    }
                }
                memory[vector] = make_uint4(0, 0, 0, 0);
            }
        }
        __syncthreads();
        const u32 total = earlier + candidates;
        if (total > room) {
            if (tid == 0) status[at] = 1;
            __syncthreads();
            continue;
        }

        // 6. score: eight lanes a candidate
        const u32 eight = 0xffu << (lane & 24);
        for (u32 place = earlier + tid / 8; place < total; place += THREADS / 8) {
            u32 row = (u32)keys[place];
            u64 from = tile.row_ptr[row], to = tile.row_ptr[row + 1];
            double sum = 0.0;
            for (u64 entry = from + (lane & 7); entry < to; entry += 32) {
                u32 cols[4];
                float vals[4];
#pragma unroll
                for (u32 part = 0; part < 4; part++) {
                    bool there = entry + 8 * part < to;
                    cols[part] = there ? __ldg(tile.cols + entry + 8 * part) : 0;
                    vals[part] = there ? __ldg(tile.vals + entry + 8 * part) : 0.0f;
                }
#pragma unroll
                for (u32 part = 0; part < 4; part++) {
                    float weight = weight_of(cols[part], terms, slots, weights, queries, begin);
                    if (weight != 0.0f) sum = fma((double)vals[part], (double)weight, sum);
                }
            }
#pragma unroll
            for (u32 step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(eight, sum, step);
            if ((lane & 7) == 0) {
                // The order of these additions is not that of the terms. Where that can change the
                // rounding to f32, the sum is made again in their order.
                double doubt = sum * ((2.0 * terms + 8.0) * 1.1102230246251565e-16);
                float similarity = rounded(sum - doubt);
                if (similarity != rounded(sum + doubt)) {
                    sum = 0.0;
                    for (u64 entry = from; entry < to; entry++) {
                        float weight = weight_of(tile.cols[entry], terms, slots, weights, queries, begin);
                        if (weight != 0.0f) sum = fma((double)tile.vals[entry], (double)weight, sum);
                    }
                    similarity = rounded(sum);
                }
                bool counts_too = similarity > 0.0f && tile.first_row + row != out_row;
                keys[place] = counts_too ? neighbor_key(similarity, tile.first_row + row) : 0;
                if (counts_too) atomicAdd(&valid, 1);
            }
        }
        __syncthreads();

        // 7. rank
        if (total <= 256) {
            const u32 four = 0xfu << (lane & 28);
            for (u32 place = tid / 4; place < total; place += THREADS / 4) {
                u64 key = keys[place];
                u32 better = 0;
                for (u32 other = lane & 3; other < total; other += 4) better += keys[other] > key;
                better += __shfl_xor_sync(four, better, 1);
                better += __shfl_xor_sync(four, better, 2);
                if ((lane & 3) == 0 && key != 0 && better < k) mine[better] = key;
            }
        } else {
            u32 size = 512;
            while (size < total) size *= 2;
            for (u32 place = total + tid; place < size; place += THREADS) keys[place] = 0;
            __syncthreads();
            sort_descending(keys, size);
            for (u32 place = tid; place < min(k, valid); place += THREADS) mine[place] = keys[place];
        }
        if (tid == 0) {
            counts[at] = min(k, valid);
            if (fresh) status[at] = 0;
        }
        __syncthreads();
    }
}

// Four blocks of 512 threads a multiprocessor: the accumulators of 23,000 rows fit four times.
extern "C" __global__ void __launch_bounds__(512, 4)
    fused(Tile tile, Queries queries, u32 first, u32 count, const u32* excluded, u32 k, u32 room,
          u32 fresh, u64* found, u32* counts, u32* status) {
    fused_block<512>(tile, queries, first, count, excluded, k, room, fresh, found, counts, status);
}

// One large block a query: less latency where there are fewer queries than places for blocks.
extern "C" __global__ void __launch_bounds__(1024, 1)
    fused_small(Tile tile, Queries queries, u32 first, u32 count, const u32* excluded, u32 k,
                u32 room, u32 fresh, u64* found, u32* counts, u32* status) {
    fused_block<1024>(tile, queries, first, count, excluded, k, room, fresh, found, counts, status);
}
