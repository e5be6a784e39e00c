// The fused engine for many queries: three kernels run one after the other for each tile of rows.
//
//   prepare     one warp per query: computes the scale of its sums, and splits its lists into tasks
//   accumulate  one block per query: sums, threshold and candidates. Blocks are persistent and read
//               the next query's tasks in the meantime
//   rescore     one block per query: scores candidates by the formula, and ranks them with the
//               neighbors of earlier tiles. rescore_many has larger blocks for large k
//
// fused.cuh proves the bound that makes them exact. Reference: src/search/exhaustive.rs.
//
// status[q] = 1: the host must compute all similarities of the query, because there are too many
// candidates, terms or tasks, or because numbers are out of range.

// A record holds the state of a query between the kernels: its first task, large tasks << 16 | small
// tasks, the bits of its scale, and its error.

// prepare: writes records[q] and the tasks of queries first + q, q < count.
// Blocks consist of warps of 32; any block size. `next` counts the assigned tasks, of `room`.
// Launcher: `fused`.
extern "C" __global__ void prepare(Tile tile, Queries queries, u32 first, u32 count, u32 fresh,
                                   uint4* records, uint2* tasks, u32* next, u32 room, u32* status) {
    const u32 at = (blockDim.x * blockIdx.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (at >= count) return;
    const u32 begin = queries.ptr[first + at], end = queries.ptr[first + at + 1];
    // Each lane keeps its first terms for the second pass.
    const u32 KEPT = 3;
    Term kept[KEPT];
    float square = 0.0f, product = 0.0f;
    u32 large = 0, small = 0;
    auto count_in = [&](const Term& term) {
        square = __fadd_ru(square, term.square);
        product = __fadd_ru(product, term.product);
        large += large_tasks(term.length);
        small += small_tasks(term.length);
    };
#pragma unroll
    for (u32 number = 0; number < KEPT; number++) {
        kept[number] = term_of(tile, queries, begin + 32 * number + lane, end);
    }
#pragma unroll
    for (u32 number = 0; number < KEPT; number++) count_in(kept[number]);
    for (u32 entry = begin + 32 * KEPT + lane; entry < end; entry += 32) {
        count_in(term_of(tile, queries, entry, end));
    }
    for (u32 step = 16; step > 0; step /= 2) {
        large += __shfl_xor_sync(FULL, large, step);
        small += __shfl_xor_sync(FULL, small, step);
    }
    Scale scale = scale_of(warp_sum_up(square), warp_sum_up(product), end - begin, tile.longest);
    bool holds = scale.holds && (fresh || !status[at]) && large < 65536 && small < 65536;
    u32 place = 0;
    if (lane == 0 && holds) place = atomicAdd(next, large + small);
    place = __shfl_sync(FULL, place, 0);
    holds = holds && place <= room && large + small <= room - place;
    if (lane == 0) {
        u32 sizes = holds ? large << 16 | small : 0;
        records[at] = make_uint4(place, sizes, __float_as_uint(scale.scale), scale.error);
        status[at] = holds ? 0 : 1;
    }
    if (!holds) return;
    uint2* larges = tasks + place;
    uint2* smalls = larges + large;
    auto write_out = [&](const Term& term) {
        u32 own = large_tasks(term.length) << 16 | small_tasks(term.length), until = own;
        for (u32 step = 1; step < 32; step *= 2) {
            u32 other = __shfl_up_sync(FULL, until, step);
            if (lane >= step) until += other;
        }
        u32 before = until - own;
        write_tasks(term, mult_of(term.product, scale.scale), larges + (before >> 16),
                    smalls + (before & 0xffff));
        u32 all = __shfl_sync(FULL, until, 31);
        larges += all >> 16;
        smalls += all & 0xffff;
    };
#pragma unroll
    for (u32 number = 0; number < KEPT; number++) {
        if (begin + 32 * number < end) write_out(kept[number]);
    }
    for (u32 start = begin + 32 * KEPT; start < end; start += 32) {
        write_out(term_of(tile, queries, start + lane, end));
    }
}

// accumulate, accumulate_filtered: candidates[q * room ..] = rows of the tile that can be neighbors of
// query q, unordered. candidate_counts[q] is their number; it exceeds `room` if they do not fit.
// Blocks of 512 threads, four per multiprocessor; dynamic shared memory: ceil(rows / 8) * 16 bytes.
// found and counts: neighbors of earlier tiles, unless `fresh`. rank: see `reached_sum`. Launcher: `fused`.
const u32 ACCUMULATE_THREADS = 512;

// `FILTERED`: the request excludes some rows. A separate kernel, because the filter needs more registers.
template <bool FILTERED>
__device__ __forceinline__ void
accumulate_block(const Tile& tile, u32 first, u32 count, const Allow& allow, u32 k, u32 rank, u32 room,
                 u32 fresh, const uint4* records, const uint2* tasks, const u64* found, const u32* counts,
                 u32* candidates, u32* candidate_counts) {
    extern __shared__ uint4 memory[];
    __shared__ uint2 own_tasks[ACCUMULATE_THREADS];
    __shared__ u32 maxima[GROUPS];
    __shared__ u16 hot[ACCUMULATE_THREADS];
    __shared__ uint4 record;
    __shared__ float scale; // of the query; `record` may already belong to the next query
    __shared__ u32 error, hots, threshold, collected;
    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const u32 vectors = (tile.rows + 7) / 8;
    for (u32 vector = tid; vector < vectors; vector += ACCUMULATE_THREADS) memory[vector] = make_uint4(0, 0, 0, 0);
    u32 at = blockIdx.x;
    if (at >= count) return;
    if (tid == 0) record = records[at];
    __syncthreads();
    if (tid < (record.y >> 16) + (record.y & 0xffff)) own_tasks[tid] = tasks[record.x + tid];
    __syncthreads();
    while (true) {
        {
            const u32 large = record.y >> 16, all = large + (record.y & 0xffff);
            for (u32 start = 0; start < all; start += ACCUMULATE_THREADS) {
                if (start > 0) {
                    // The query is long and has more tasks than the block has threads.
                    __syncthreads();
                    if (start + tid < all) own_tasks[tid] = tasks[record.x + start + tid];
                    __syncthreads();
                }
                const u32 larges = min(max(large, start) - start, ACCUMULATE_THREADS);
                const u32 smalls = min(all - start, ACCUMULATE_THREADS) - larges;
                add_tasks((u32*)memory, tile.postings, own_tasks, larges, own_tasks + larges,
                                 smalls, warp, ACCUMULATE_THREADS / 32, lane);
            }
        }
        __syncthreads();

        if (FILTERED) clear_denied<ACCUMULATE_THREADS>(memory, tile, allow, first + at);
        const u32 greatest = greatest_of<ACCUMULATE_THREADS>(memory, vectors);
        write_maxima<ACCUMULATE_THREADS>(greatest, maxima);
        const u32 later = at + gridDim.x;
        if (tid == 0) {
            hots = collected = 0;
            scale = __uint_as_float(record.z);
            error = record.w;
            record = later < count ? records[later] : make_uint4(0, 0, 0, 0);
        }
        __syncthreads();

        u32 kth = 0;
        if (k > GROUPED_K) {
            kth = reached_sum<ACCUMULATE_THREADS>(memory, vectors, greatest, k, rank, (u32*)own_tasks);
        } else if (warp == 0) {
            kth = kth_maximum(maxima, k, lane);
        }
        if (tid == 0) {
            float worst = 0.0f;
            if (!fresh && counts[at] == k) {
                worst = __uint_as_float((u32)(found[(u64)k * at + k - 1] >> 32));
            }
            threshold = cut_of(kth, error, scale, worst);
        }
        __syncthreads();

        // Load the next query's tasks while this query's candidates are collected.
        uint2 task = make_uint2(0, 0);
        if (tid < (record.y >> 16) + (record.y & 0xffff)) task = __ldg(tasks + record.x + tid);
        const u32 cut = threshold;
        clear_or_mark<ACCUMULATE_THREADS>(memory, vectors, greatest, cut, hot, &hots);
        __syncthreads();
        u32* mine = candidates + (u64)room * at;
        take_hot<ACCUMULATE_THREADS>(memory, vectors, cut, hot, hots, [&](u32 row, u32 rows) {
            u32 place = atomicAdd(&collected, __popc(rows));
            for (; rows && place < room; rows &= rows - 1) mine[place++] = row + __ffs(rows) - 1;
        });
        own_tasks[tid] = task;
        __syncthreads();
        if (tid == 0) candidate_counts[at] = collected;
        if (later >= count) return;
        at = later;
    }
}

extern "C" __global__ void __launch_bounds__(ACCUMULATE_THREADS, 4)
    accumulate(Tile tile, u32 first, u32 count, u32 k, u32 rank, u32 room, u32 fresh, const uint4* records,
               const uint2* tasks, const u64* found, const u32* counts, u32* candidates,
               u32* candidate_counts) {
    accumulate_block<false>(tile, first, count, Allow(), k, rank, room, fresh, records, tasks, found, counts,
                            candidates, candidate_counts);
}

extern "C" __global__ void __launch_bounds__(ACCUMULATE_THREADS, 4)
    accumulate_filtered(Tile tile, u32 first, u32 count, Allow allow, u32 k, u32 rank, u32 room, u32 fresh,
                        const uint4* records, const uint2* tasks, const u64* found, const u32* counts,
                        u32* candidates, u32* candidate_counts) {
    accumulate_block<true>(tile, first, count, allow, k, rank, room, fresh, records, tasks, found, counts,
                           candidates, candidate_counts);
}

// rescore, rescore_many: found[q * k ..] = the best neighbors of query first + q, best first, among the
// candidates and the neighbors found earlier (unless `fresh`). counts[q] is their number.
// `last`: writes neighbors instead of keys. One block per query; dynamic shared memory: a power of two of
// keys of 8 bytes, at least room + k.
// Launcher: `fused`.
template <u32 THREADS>
__device__ __forceinline__ void
rescore_block(const Tile& tile, const Queries& queries, u32 first, u32 k, u32 room,
              u32 fresh, u32 last, const u32* candidates, const u32* candidate_counts, u64* found, u32* counts,
              u32* status) {
    extern __shared__ u64 keys[];
    __shared__ __align__(16) TermTable table;
    __shared__ u32 valid;
    const u32 tid = threadIdx.x, at = blockIdx.x, query = first + at;
    // These loads and the loads that depend on them run while the table is built.
    const u32* mine = candidates + (u64)room * at;
    const u32 refused = status[at], fresh_ones = candidate_counts[at], earlier = fresh ? 0 : counts[at];
    const u32 begin = queries.ptr[query], terms = queries.ptr[query + 1] - begin;
    if (refused) {
        if (tid == 0) counts[at] = 0;
        return;
    }
    if (fresh_ones > room) {
        __syncthreads();
        if (tid == 0) {
            status[at] = 1;
            counts[at] = 0;
        }
        return;
    }
    if (fresh_ones == 0 && (fresh || !last)) {
        if (fresh && tid == 0) counts[at] = 0;
        return;
    }
    u32 place = tid / 8;
    u32 row = place < fresh_ones ? mine[place] : 0;
    u64 from = tile.row_ptr[row], to = tile.row_end[row];
    u64* best = found + (u64)k * at;
#pragma unroll 1
    for (u32 known = tid; known < earlier; known += THREADS) keys[known] = best[known];
    if (tid == 0) valid = earlier;
    const u32 total = earlier + fresh_ones;
    clear_table(table, tid, THREADS);
    __syncthreads();
    fill_table(table, queries, tile.shift, begin, terms, tid, THREADS);
    __syncthreads();
    while (place < fresh_ones) {
        const u32 later = place + THREADS / 8, next = later < fresh_ones ? mine[later] : 0;
        const double sum = row_sum(tile, from, to, table, queries, begin, terms);
        const float similarity = settled(sum, tile, from, to, queries, begin, terms);
        if ((tid & 7) == 0) {
            bool counts_too = similarity > 0.0f;
            keys[earlier + place] = counts_too ? neighbor_key(similarity, tile.first_row + row) : 0;
            if (counts_too) atomicAdd(&valid, 1);
        }
        place = later;
        row = next;
        from = tile.row_ptr[row];
        to = tile.row_end[row];
    }
    __syncthreads();
    const u32 kept = valid;
    rank_keys<THREADS>(keys, total, kept, k, last, best);
    if (tid == 0) counts[at] = min(k, kept);
}

// Twelve candidates per pass.
extern "C" __global__ void __launch_bounds__(96, 13)
    rescore(Tile tile, Queries queries, u32 first, u32 k, u32 room, u32 fresh,
            u32 last, const u32* candidates, const u32* candidate_counts, u64* found, u32* counts,
            u32* status) {
    rescore_block<96>(tile, queries, first, k, room, fresh, last, candidates, candidate_counts,
                      found, counts, status);
}

// 32 candidates per pass.
extern "C" __global__ void __launch_bounds__(256, 5)
    rescore_many(Tile tile, Queries queries, u32 first, u32 k, u32 room, u32 fresh,
                 u32 last, const u32* candidates, const u32* candidate_counts, u64* found, u32* counts,
                 u32* status) {
    rescore_block<256>(tile, queries, first, k, room, fresh, last, candidates, candidate_counts,
                       found, counts, status);
}
