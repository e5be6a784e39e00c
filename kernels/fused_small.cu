// fused_small, fused_medium, and their `_filtered` variants: the k best neighbors of each query among the
// rows of one tile, in one kernel. For few queries, its latency is lower than that of `prepare`,
// `accumulate` and `rescore`.
//
// One block per query of the batch. fused.cuh proves the bound that makes it exact; found, counts, status,
// fresh and last are as in fused.cu. Dynamic shared memory: ceil(rows / 8) * 16 + 24576 + 8 * room bytes;
// `room` keys, a power of two, at least 3 k. Reference: src/search/exhaustive.rs. Launcher: `fused_small`.
const u32 LARGE_TASKS = 1024;
const u32 SMALL_TASKS = 2048;

template <u32 THREADS, bool FILTERED>
__device__ __forceinline__ void fused_block(const Tile& tile, const Queries& queries, const Allow& allow,
                                            u32 k, u32 rank, u32 room, u32 fresh, u32 last, u64* found,
                                            u32* counts, u32* status) {
    const u32 WARPS = THREADS / 32;
    extern __shared__ uint4 memory[];
    __shared__ float squares[WARPS], products[WARPS];
    __shared__ u32 task_sums[WARPS];
    __shared__ u32 maxima[GROUPS];
    __shared__ u32 groups[THREADS];
    __shared__ u16 hot[THREADS];
    __shared__ u32 hots, larges, smalls, threshold, candidates, valid;

    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const u32 vectors = (tile.rows + 7) / 8;
    u32* sums = (u32*)memory;
    uint2* large = (uint2*)(memory + vectors);
    uint2* small = large + LARGE_TASKS;
    u64* keys = (u64*)(small + SMALL_TASKS);
    TermTable& table = *(TermTable*)large; // the query's terms, after its tasks are done
    for (u32 vector = tid; vector < vectors; vector += THREADS) memory[vector] = make_uint4(0, 0, 0, 0);

    const u32 query = blockIdx.x;
    if (!fresh && status[query]) return;
    const u32 begin = queries.ptr[query], end = queries.ptr[query + 1], terms = end - begin;
    const u32 active_warps = min(WARPS, (terms + 31) / 32);

    // Bound of the sums.
    Term term = term_of(tile, queries, begin + tid, end);
    float square = term.square, product = term.product;
    for (u32 further = begin + tid + THREADS; further < end; further += THREADS) {
        Term other = term_of(tile, queries, further, end);
        square = __fadd_ru(square, other.square);
        product = __fadd_ru(product, other.product);
    }
    if (warp < active_warps) {
        square = warp_sum_up(square);
        product = warp_sum_up(product);
    }
    if (lane == 0) {
        squares[warp] = square;
        products[warp] = product;
    }

    // Take as many tasks as fit, until all terms are processed.
    Scale scale = {0.0f, 0, true};
    u32 chunk = 0;
    do {
        if (chunk) term = term_of(tile, queries, begin + chunk + tid, end);
        const u32 own = large_tasks(term.length) << 16 | small_tasks(term.length);
        u32 until = own;
        if (chunk + warp * 32 < terms) {
            for (u32 step = 1; step < 32; step *= 2) {
                u32 other = __shfl_up_sync(FULL, until, step);
                if (lane >= step) until += other;
            }
        }
        if (lane == 31) task_sums[warp] = until;
        if (tid == 0) larges = smalls = 0;
        __syncthreads();
        if (chunk == 0) {
            square = product = 0.0f;
            for (u32 other = 0; other < active_warps; other++) {
                square = __fadd_ru(square, squares[other]);
                product = __fadd_ru(product, products[other]);
            }
            scale = scale_of(square, product, terms, tile.longest);
            if (!scale.holds) break;
        }
        for (u32 other = 0; other < min(warp, active_warps); other++) until += task_sums[other];
        // Tiles have at most 32,000 rows. 1,024 terms have at most 63 large and 4 small tasks each,
        // and both counts fit into 16 bits.
        bool fits = (until >> 16) <= LARGE_TASKS && (until & 0xffff) <= SMALL_TASKS;
        if (fits && own) {
            u32 before = until - own;
            write_tasks(term, mult_of(term.product, scale.scale), large + (before >> 16),
                        small + (before & 0xffff));
            atomicMax(&larges, until >> 16);
            atomicMax(&smalls, until & 0xffff);
        }
        chunk += __syncthreads_count(fits);
        add_tasks(sums, tile.postings, large, larges, small, smalls, warp, WARPS, lane);
        __syncthreads();
    } while (chunk < terms);
    if (!scale.holds) {
        if (tid == 0) {
            status[query] = 1;
            counts[query] = 0;
        }
        return;
    }

    // Greatest sums of groups of rows.
    const u32 earlier = fresh ? 0 : counts[query];
    u64* best = found + (u64)k * query;
    if (FILTERED) clear_denied<THREADS>(memory, tile, allow, query);
    const u32 greatest = greatest_of<THREADS>(memory, vectors);
    write_maxima<THREADS>(greatest, maxima);
    clear_table(table, tid, THREADS);
    for (u32 known = tid; known < earlier; known += THREADS) keys[known] = best[known];
    if (tid == 0) {
        hots = candidates = 0;
        valid = earlier;
    }
    __syncthreads();

    // The threshold. Meanwhile, other warps build the table of the query.
    u32 kth = 0;
    if (k > GROUPED_K) {
        kth = reached_sum<THREADS>(memory, vectors, greatest, k, rank, groups);
    } else if (warp == 0) {
        kth = kth_maximum(maxima, k, lane);
    }
    if (tid == 0) {
        float worst = earlier == k ? __uint_as_float((u32)(best[k - 1] >> 32)) : 0.0f;
        threshold = cut_of(kth, scale.error, scale.scale, worst);
    } else if (warp > 0) {
        fill_table(table, queries, tile.shift, begin, terms, tid - 32, THREADS - 32);
    }
    __syncthreads();

    const u32 cut = threshold;
    clear_or_mark<THREADS>(memory, vectors, greatest, cut, hot, &hots);
    __syncthreads();
    take_hot<THREADS>(memory, vectors, cut, hot, hots, [&](u32 row, u32 rows) {
        u32 place = earlier + atomicAdd(&candidates, __popc(rows));
        for (; rows && place < room; rows &= rows - 1) keys[place++] = row + __ffs(rows) - 1;
    });
    __syncthreads();
    const u32 total = earlier + candidates;
    if (total > room) {
        if (tid == 0) {
            status[query] = 1;
            counts[query] = 0;
        }
        return;
    }
    for (u32 place = earlier + tid / 8; place < total; place += THREADS / 8) {
        const u32 row = (u32)keys[place];
        const u64 from = tile.row_ptr[row], to = tile.row_end[row];
        const double sum = row_sum(tile, from, to, table, queries, begin, terms);
        const float similarity = settled(sum, tile, from, to, queries, begin, terms);
        __syncwarp(0xffu << (lane & 24)); // all eight lanes have read the row that one lane replaces
        if ((lane & 7) == 0) {
            bool counts_too = similarity > 0.0f;
            keys[place] = counts_too ? neighbor_key(similarity, tile.first_row + row) : 0;
            if (counts_too) atomicAdd(&valid, 1);
        }
    }
    __syncthreads();
    const u32 kept = valid;
    rank_keys<THREADS>(keys, total, kept, k, last, best);
    if (tid == 0) {
        counts[query] = min(k, kept);
        if (fresh) status[query] = 0;
    }
}

// One query uses the whole multiprocessor.
extern "C" __global__ void __launch_bounds__(1024, 1)
    fused_small(Tile tile, Queries queries, u32 k, u32 rank, u32 room, u32 fresh, u32 last, u64* found,
                u32* counts, u32* status) {
    fused_block<1024, false>(tile, queries, Allow(), k, rank, room, fresh, last, found, counts, status);
}

extern "C" __global__ void __launch_bounds__(1024, 1)
    fused_small_filtered(Tile tile, Queries queries, Allow allow, u32 k, u32 rank, u32 room, u32 fresh, u32 last, u64* found,
                         u32* counts, u32* status) {
    fused_block<1024, true>(tile, queries, allow, k, rank, room, fresh, last, found, counts, status);
}

// Two queries share a multiprocessor.
extern "C" __global__ void __launch_bounds__(512, 2)
    fused_medium(Tile tile, Queries queries, u32 k, u32 rank, u32 room, u32 fresh, u32 last, u64* found,
                 u32* counts, u32* status) {
    fused_block<512, false>(tile, queries, Allow(), k, rank, room, fresh, last, found, counts, status);
}

extern "C" __global__ void __launch_bounds__(512, 2)
    fused_medium_filtered(Tile tile, Queries queries, Allow allow, u32 k, u32 rank, u32 room, u32 fresh, u32 last, u64* found,
                          u32* counts, u32* status) {
    fused_block<512, true>(tile, queries, allow, k, rank, room, fresh, last, found, counts, status);
}
