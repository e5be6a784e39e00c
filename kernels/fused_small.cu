// fused_small, fused_medium, and their `_filtered` variants: one kernel finds the k best neighbors
// of each query among the rows of a tile. For few queries, its latency is lower than the sum of
// `prepare`, `accumulate` and `rescore`.
//
// One block per query of the batch. fused.cuh proves that no neighbor is lost. `neighbors`,
// `counts`, `status`, `fresh` and `last` are as in fused.cu. Dynamic shared memory: ceil(rows / 8)
// * 16 + 24576 + 8 * capacity bytes, where `capacity` is a number of keys, a power of two, at least
// 3 k. Reference: src/search/exhaustive.rs. Launcher: `fused_small`.
const u32 MAX_LARGE_TASKS = 1024;
const u32 MAX_SMALL_TASKS = 2048;

template <u32 THREADS, bool FILTERED>
__device__ __forceinline__ void fused_block(const Tile& tile, const Queries& queries,
                                            const Allow& allow, u32 k, u32 rank, u32 capacity,
                                            u32 fresh, u32 last, u64* neighbors, u32* counts,
                                            u32* status) {
    const u32 WARPS = THREADS / 32;
    extern __shared__ uint4 memory[];
    __shared__ float squares[WARPS], products[WARPS];
    __shared__ u32 task_sums[WARPS];
    __shared__ u32 maxima[GROUPS];
    __shared__ u32 groups[THREADS];
    __shared__ u16 hot[THREADS];
    __shared__ u32 hot_count, large_count, small_count, threshold, candidate_count, valid;

    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const u32 vectors = (tile.rows + 7) / 8;
    u32* sums = (u32*)memory;
    uint2* large = (uint2*)(memory + vectors);
    uint2* small = large + MAX_LARGE_TASKS;
    u64* keys = (u64*)(small + MAX_SMALL_TASKS);
    TermTable& table = *(TermTable*)large; // reuses the memory of the tasks after they are done
    for (u32 vector = tid; vector < vectors; vector += THREADS) {
        memory[vector] = make_uint4(0, 0, 0, 0);
    }

    const u32 query = blockIdx.x;
    if (!fresh && status[query]) return;
    const u32 begin = queries.ptr[query], end = queries.ptr[query + 1], terms = end - begin;
    const u32 active_warps = min(WARPS, (terms + 31) / 32);

    // Compute the bound on the sums.
    Term term = load_term(tile, queries, begin + tid, end);
    float square = term.square, product = term.product;
    for (u32 entry = begin + tid + THREADS; entry < end; entry += THREADS) {
        Term other = load_term(tile, queries, entry, end);
        square = __fadd_ru(square, other.square);
        product = __fadd_ru(product, other.product);
    }
    if (warp < active_warps) {
        square = warp_sum_rounded_up(square);
        product = warp_sum_rounded_up(product);
    }
    if (lane == 0) {
        squares[warp] = square;
        products[warp] = product;
    }

    // Add as many tasks as fit in shared memory, until all terms are processed.
    Scale scale = {0.0f, 0, true};
    u32 done_terms = 0;
    do {
        if (done_terms) term = load_term(tile, queries, begin + done_terms + tid, end);
        const u32 own_counts = large_task_count(term.length) << 16 | small_task_count(term.length);
        u32 inclusive = own_counts;
        if (done_terms + warp * 32 < terms) {
            for (u32 offset = 1; offset < 32; offset *= 2) {
                u32 other = __shfl_up_sync(FULL_MASK, inclusive, offset);
                if (lane >= offset) inclusive += other;
            }
        }
        if (lane == 31) task_sums[warp] = inclusive;
        if (tid == 0) large_count = small_count = 0;
        __syncthreads();
        if (done_terms == 0) {
            square = product = 0.0f;
            for (u32 other = 0; other < active_warps; other++) {
                square = __fadd_ru(square, squares[other]);
                product = __fadd_ru(product, products[other]);
            }
            scale = compute_scale(square, product, terms, tile.longest);
            if (!scale.is_valid) break;
        }
        for (u32 other = 0; other < min(warp, active_warps); other++) inclusive += task_sums[other];
        // Tiles have at most 32,000 rows. 1,024 terms have at most 63 large and 4 small tasks each,
        // so both counts fit in 16 bits.
        bool fits = (inclusive >> 16) <= MAX_LARGE_TASKS && (inclusive & 0xffff) <= MAX_SMALL_TASKS;
        if (fits && own_counts) {
            u32 exclusive = inclusive - own_counts;
            write_tasks(term, compute_mult(term.product, scale.scale), large + (exclusive >> 16),
                        small + (exclusive & 0xffff));
            atomicMax(&large_count, inclusive >> 16);
            atomicMax(&small_count, inclusive & 0xffff);
        }
        done_terms += __syncthreads_count(fits);
        add_tasks(sums, tile.postings, large, large_count, small, small_count, warp, WARPS, lane);
        __syncthreads();
    } while (done_terms < terms);
    if (!scale.is_valid) {
        if (tid == 0) {
            status[query] = 1;
            counts[query] = 0;
        }
        return;
    }

    // Compute the greatest sum of each group of rows.
    const u32 earlier_count = fresh ? 0 : counts[query];
    u64* best = neighbors + (u64)k * query;
    if (FILTERED) clear_excluded<THREADS>(memory, tile, allow, query);
    const u32 own_greatest = greatest_sum<THREADS>(memory, vectors);
    write_maxima<THREADS>(own_greatest, maxima);
    clear_table(table, tid, THREADS);
    for (u32 position = tid; position < earlier_count; position += THREADS) {
        keys[position] = best[position];
    }
    if (tid == 0) {
        hot_count = candidate_count = 0;
        valid = earlier_count;
    }
    __syncthreads();

    // Compute the threshold. At the same time, other warps build the term table.
    u32 kth = 0;
    if (k > MAX_GROUPED_K) {
        kth = reached_sum<THREADS>(memory, vectors, own_greatest, k, rank, groups);
    } else if (warp == 0) {
        kth = kth_maximum(maxima, k, lane);
    }
    if (tid == 0) {
        float kth_similarity =
            earlier_count == k ? __uint_as_float((u32)(best[k - 1] >> 32)) : 0.0f;
        threshold = compute_cutoff(kth, scale.error, scale.scale, kth_similarity);
    } else if (warp > 0) {
        fill_table(table, queries, tile.shift, begin, terms, tid - 32, THREADS - 32);
    }
    __syncthreads();

    const u32 cutoff = threshold;
    mark_or_clear<THREADS>(memory, vectors, own_greatest, cutoff, hot, &hot_count);
    __syncthreads();
    collect_hot<THREADS>(memory, vectors, cutoff, hot, hot_count, [&](u32 row, u32 rows) {
        u32 position = earlier_count + atomicAdd(&candidate_count, __popc(rows));
        for (; rows && position < capacity; rows &= rows - 1) {
            keys[position++] = row + __ffs(rows) - 1;
        }
    });
    __syncthreads();
    const u32 total = earlier_count + candidate_count;
    if (total > capacity) {
        if (tid == 0) {
            status[query] = 1;
            counts[query] = 0;
        }
        return;
    }
    for (u32 position = earlier_count + tid / 8; position < total; position += THREADS / 8) {
        const u32 row = (u32)keys[position];
        const u64 from = tile.row_ptr[row], to = tile.row_end[row];
        const double sum = row_sum(tile, from, to, table, queries, begin, terms);
        const float similarity = exact_similarity(sum, tile, from, to, queries, begin, terms);
        // All eight lanes must read the row before one lane overwrites it.
        __syncwarp(0xffu << (lane & 24));
        if ((lane & 7) == 0) {
            bool is_neighbor = similarity > 0.0f;
            keys[position] = is_neighbor ? neighbor_key(similarity, tile.first_row + row) : 0;
            if (is_neighbor) atomicAdd(&valid, 1);
        }
    }
    __syncthreads();
    const u32 valid_count = valid;
    rank_keys<THREADS>(keys, total, valid_count, k, last, best);
    if (tid == 0) {
        counts[query] = min(k, valid_count);
        if (fresh) status[query] = 0;
    }
}

// Each query uses a whole multiprocessor.
extern "C" __global__ void __launch_bounds__(1024, 1)
    fused_small(Tile tile, Queries queries, u32 k, u32 rank, u32 capacity, u32 fresh, u32 last,
                u64* neighbors, u32* counts, u32* status) {
    fused_block<1024, false>(tile, queries, Allow(), k, rank, capacity, fresh, last, neighbors,
                             counts, status);
}

extern "C" __global__ void __launch_bounds__(1024, 1)
    fused_small_filtered(Tile tile, Queries queries, Allow allow, u32 k, u32 rank, u32 capacity,
                         u32 fresh, u32 last, u64* neighbors, u32* counts, u32* status) {
    fused_block<1024, true>(tile, queries, allow, k, rank, capacity, fresh, last, neighbors, counts,
                            status);
}

// Two queries share a multiprocessor.
extern "C" __global__ void __launch_bounds__(512, 2)
    fused_medium(Tile tile, Queries queries, u32 k, u32 rank, u32 capacity, u32 fresh, u32 last,
                 u64* neighbors, u32* counts, u32* status) {
    fused_block<512, false>(tile, queries, Allow(), k, rank, capacity, fresh, last, neighbors,
                            counts, status);
}

extern "C" __global__ void __launch_bounds__(512, 2)
    fused_medium_filtered(Tile tile, Queries queries, Allow allow, u32 k, u32 rank, u32 capacity,
                          u32 fresh, u32 last, u64* neighbors, u32* counts, u32* status) {
    fused_block<512, true>(tile, queries, allow, k, rank, capacity, fresh, last, neighbors, counts,
                           status);
}
