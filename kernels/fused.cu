// The fused engine for many queries. Three kernels run one after the other for each tile of rows:
//
//   prepare     one warp per query: computes the scale of its sums and splits its lists into tasks
//   accumulate  one block per query: computes the sums, the threshold and the candidates. Blocks
//               are persistent and load the tasks of the next query early
//   rescore     one block per query: computes the exact similarities of the candidates and ranks
//               them with the neighbors of earlier tiles. rescore_many has larger blocks, for
//               large k
//
// fused.cuh proves that no neighbor is lost. Reference: src/search/exhaustive.rs.
//
// All arrays are indexed by q, the number of a query in the batch; query q of the batch is row
// first + q of `queries`. If `fresh` is set, the tile is the first one, and there are no neighbors
// of earlier tiles. If `last` is set, the tile is the last one.
//
// status[q] = 1 means that the host must compute all similarities of the query. It has too many
// candidates, terms or tasks, or its numbers are out of range.

// A record holds the state of a query between the kernels: its first task, its task counts
// (`large << 16 | small`), the bits of its scale, and the maximum error of its sums.

// prepare: writes records[q] and the tasks of each query q < count. Blocks must consist of whole
// warps. `next_task` counts the assigned tasks; `tasks` has space for `capacity`. Launcher:
// `fused`.
extern "C" __global__ void prepare(Tile tile, Queries queries, u32 first, u32 count, u32 fresh,
                                   uint4* records, uint2* tasks, u32* next_task, u32 capacity,
                                   u32* status) {
    const u32 local_query = (blockDim.x * blockIdx.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (local_query >= count) return;
    const u32 begin = queries.ptr[first + local_query], end = queries.ptr[first + local_query + 1];
    // Each lane keeps its first terms for the second pass.
    const u32 KEPT_TERMS = 3;
    Term kept_terms[KEPT_TERMS];
    float square = 0.0f, product = 0.0f;
    u32 large = 0, small = 0;
    auto add_term = [&](const Term& term) {
        square = __fadd_ru(square, term.square);
        product = __fadd_ru(product, term.product);
        large += large_task_count(term.length);
        small += small_task_count(term.length);
    };
#pragma unroll
    for (u32 number = 0; number < KEPT_TERMS; number++) {
        kept_terms[number] = load_term(tile, queries, begin + 32 * number + lane, end);
    }
#pragma unroll
    for (u32 number = 0; number < KEPT_TERMS; number++) add_term(kept_terms[number]);
    for (u32 entry = begin + 32 * KEPT_TERMS + lane; entry < end; entry += 32) {
        add_term(load_term(tile, queries, entry, end));
    }
    for (u32 offset = 16; offset > 0; offset /= 2) {
        large += __shfl_xor_sync(FULL_MASK, large, offset);
        small += __shfl_xor_sync(FULL_MASK, small, offset);
    }
    Scale scale = compute_scale(warp_sum_rounded_up(square), warp_sum_rounded_up(product),
                                end - begin, tile.longest);
    bool is_valid =
        scale.is_valid && (fresh || !status[local_query]) && large < 65536 && small < 65536;
    u32 position = 0;
    if (lane == 0 && is_valid) position = atomicAdd(next_task, large + small);
    position = __shfl_sync(FULL_MASK, position, 0);
    is_valid = is_valid && position <= capacity && large + small <= capacity - position;
    if (lane == 0) {
        u32 sizes = is_valid ? large << 16 | small : 0;
        records[local_query] =
            make_uint4(position, sizes, __float_as_uint(scale.scale), scale.error);
        status[local_query] = is_valid ? 0 : 1;
    }
    if (!is_valid) return;
    uint2* large_tasks = tasks + position;
    uint2* small_tasks = large_tasks + large;
    auto write_term_tasks = [&](const Term& term) {
        u32 own_counts = large_task_count(term.length) << 16 | small_task_count(term.length),
            inclusive = own_counts;
        for (u32 offset = 1; offset < 32; offset *= 2) {
            u32 other = __shfl_up_sync(FULL_MASK, inclusive, offset);
            if (lane >= offset) inclusive += other;
        }
        u32 exclusive = inclusive - own_counts;
        write_tasks(term, compute_mult(term.product, scale.scale), large_tasks + (exclusive >> 16),
                    small_tasks + (exclusive & 0xffff));
        u32 total = __shfl_sync(FULL_MASK, inclusive, 31);
        large_tasks += total >> 16;
        small_tasks += total & 0xffff;
    };
#pragma unroll
    for (u32 number = 0; number < KEPT_TERMS; number++) {
        if (begin + 32 * number < end) write_term_tasks(kept_terms[number]);
    }
    for (u32 start = begin + 32 * KEPT_TERMS; start < end; start += 32) {
        write_term_tasks(load_term(tile, queries, start + lane, end));
    }
}

// accumulate, accumulate_filtered: candidates[q * capacity ..] = the rows of the tile that can be
// neighbors of query q, in any order. candidate_counts[q] is their number; it exceeds `capacity` if
// they do not fit. Blocks have 512 threads, and four blocks fit on a multiprocessor. Dynamic shared
// memory: ceil(rows / 8) * 16 bytes. `neighbors` and `counts` hold the neighbors of earlier tiles.
// For `rank`, see `reached_sum`. Launcher: `fused`.
const u32 ACCUMULATE_THREADS = 512;

// If `FILTERED` is set, `allow` excludes some rows. A separate kernel is compiled for this case,
// because the filter needs more registers.
template <bool FILTERED>
__device__ __forceinline__ void accumulate_block(const Tile& tile, u32 first, u32 count,
                                                 const Allow& allow, u32 k, u32 rank, u32 capacity,
                                                 u32 fresh, const uint4* records,
                                                 const uint2* tasks, const u64* neighbors,
                                                 const u32* counts, u32* candidates,
                                                 u32* candidate_counts) {
    extern __shared__ uint4 memory[];
    __shared__ uint2 own_tasks[ACCUMULATE_THREADS];
    __shared__ u32 maxima[GROUPS];
    __shared__ u16 hot[ACCUMULATE_THREADS];
    __shared__ uint4 record;
    __shared__ float
        scale; // scale of the current query; `record` may already describe the next one
    __shared__ u32 error, hot_count, threshold, candidate_count;
    const u32 tid = threadIdx.x, lane = tid & 31, warp = tid >> 5;
    const u32 vectors = (tile.rows + 7) / 8;
    for (u32 vector = tid; vector < vectors; vector += ACCUMULATE_THREADS) {
        memory[vector] = make_uint4(0, 0, 0, 0);
    }
    u32 local_query = blockIdx.x;
    if (local_query >= count) return;
    if (tid == 0) record = records[local_query];
    __syncthreads();
    if (tid < (record.y >> 16) + (record.y & 0xffff)) own_tasks[tid] = tasks[record.x + tid];
    __syncthreads();
    while (true) {
        {
            const u32 large = record.y >> 16, total = large + (record.y & 0xffff);
            for (u32 start = 0; start < total; start += ACCUMULATE_THREADS) {
                if (start > 0) {
                    // The query is long and has more tasks than the block has threads.
                    __syncthreads();
                    if (start + tid < total) own_tasks[tid] = tasks[record.x + start + tid];
                    __syncthreads();
                }
                const u32 large_count = min(max(large, start) - start, ACCUMULATE_THREADS);
                const u32 small_count = min(total - start, ACCUMULATE_THREADS) - large_count;
                add_tasks((u32*)memory, tile.postings, own_tasks, large_count,
                          own_tasks + large_count, small_count, warp, ACCUMULATE_THREADS / 32,
                          lane);
            }
        }
        __syncthreads();

        if (FILTERED) clear_excluded<ACCUMULATE_THREADS>(memory, tile, allow, first + local_query);
        const u32 own_greatest = greatest_sum<ACCUMULATE_THREADS>(memory, vectors);
        write_maxima<ACCUMULATE_THREADS>(own_greatest, maxima);
        const u32 next_query = local_query + gridDim.x;
        if (tid == 0) {
            hot_count = candidate_count = 0;
            scale = __uint_as_float(record.z);
            error = record.w;
            record = next_query < count ? records[next_query] : make_uint4(0, 0, 0, 0);
        }
        __syncthreads();

        u32 kth = 0;
        if (k > MAX_GROUPED_K) {
            kth = reached_sum<ACCUMULATE_THREADS>(memory, vectors, own_greatest, k, rank,
                                                  (u32*)own_tasks);
        } else if (warp == 0) {
            kth = kth_maximum(maxima, k, lane);
        }
        if (tid == 0) {
            float kth_similarity = 0.0f;
            if (!fresh && counts[local_query] == k) {
                kth_similarity =
                    __uint_as_float((u32)(neighbors[(u64)k * local_query + k - 1] >> 32));
            }
            threshold = compute_cutoff(kth, error, scale, kth_similarity);
        }
        __syncthreads();

        // Load the next query's tasks while this query's candidates are collected.
        uint2 task = make_uint2(0, 0);
        if (tid < (record.y >> 16) + (record.y & 0xffff)) task = __ldg(tasks + record.x + tid);
        const u32 cutoff = threshold;
        mark_or_clear<ACCUMULATE_THREADS>(memory, vectors, own_greatest, cutoff, hot, &hot_count);
        __syncthreads();
        u32* own_candidates = candidates + (u64)capacity * local_query;
        collect_hot<ACCUMULATE_THREADS>(
            memory, vectors, cutoff, hot, hot_count, [&](u32 row, u32 rows) {
                u32 position = atomicAdd(&candidate_count, __popc(rows));
                for (; rows && position < capacity; rows &= rows - 1) {
                    own_candidates[position++] = row + __ffs(rows) - 1;
                }
            });
        own_tasks[tid] = task;
        __syncthreads();
        if (tid == 0) candidate_counts[local_query] = candidate_count;
        if (next_query >= count) return;
        local_query = next_query;
    }
}

extern "C" __global__ void __launch_bounds__(ACCUMULATE_THREADS, 4)
    accumulate(Tile tile, u32 first, u32 count, u32 k, u32 rank, u32 capacity, u32 fresh,
               const uint4* records, const uint2* tasks, const u64* neighbors, const u32* counts,
               u32* candidates, u32* candidate_counts) {
    accumulate_block<false>(tile, first, count, Allow(), k, rank, capacity, fresh, records, tasks,
                            neighbors, counts, candidates, candidate_counts);
}

extern "C" __global__ void __launch_bounds__(ACCUMULATE_THREADS, 4)
    accumulate_filtered(Tile tile, u32 first, u32 count, Allow allow, u32 k, u32 rank, u32 capacity,
                        u32 fresh, const uint4* records, const uint2* tasks, const u64* neighbors,
                        const u32* counts, u32* candidates, u32* candidate_counts) {
    accumulate_block<true>(tile, first, count, allow, k, rank, capacity, fresh, records, tasks,
                           neighbors, counts, candidates, candidate_counts);
}

// rescore, rescore_many: neighbors[q * k ..] = the best neighbors of query q, best first, among the
// candidates and the neighbors of earlier tiles. counts[q] is their number. Neighbors are written
// as keys, or in the format of the host if `last` is set. One block per query. Dynamic shared
// memory: a power of two of keys of 8 bytes, at least capacity + k. Launcher: `fused`.
template <u32 THREADS>
__device__ __forceinline__ void rescore_block(const Tile& tile, const Queries& queries, u32 first,
                                              u32 k, u32 capacity, u32 fresh, u32 last,
                                              const u32* candidates, const u32* candidate_counts,
                                              u64* neighbors, u32* counts, u32* status) {
    extern __shared__ u64 keys[];
    __shared__ __align__(16) TermTable table;
    __shared__ u32 valid;
    const u32 tid = threadIdx.x, local_query = blockIdx.x, query = first + local_query;
    // These loads, and the loads that depend on them, overlap with building the table.
    const u32* own_candidates = candidates + (u64)capacity * local_query;
    const u32 has_failed = status[local_query], new_count = candidate_counts[local_query],
              earlier_count = fresh ? 0 : counts[local_query];
    const u32 begin = queries.ptr[query], terms = queries.ptr[query + 1] - begin;
    if (has_failed) {
        if (tid == 0) counts[local_query] = 0;
        return;
    }
    if (new_count > capacity) {
        __syncthreads();
        if (tid == 0) {
            status[local_query] = 1;
            counts[local_query] = 0;
        }
        return;
    }
    if (new_count == 0 && (fresh || !last)) {
        if (fresh && tid == 0) counts[local_query] = 0;
        return;
    }
    u32 position = tid / 8;
    u32 row = position < new_count ? own_candidates[position] : 0;
    u64 from = tile.row_ptr[row], to = tile.row_end[row];
    u64* best = neighbors + (u64)k * local_query;
#pragma unroll 1
    for (u32 position = tid; position < earlier_count; position += THREADS) {
        keys[position] = best[position];
    }
    if (tid == 0) valid = earlier_count;
    const u32 total = earlier_count + new_count;
    clear_table(table, tid, THREADS);
    __syncthreads();
    fill_table(table, queries, tile.shift, begin, terms, tid, THREADS);
    __syncthreads();
    while (position < new_count) {
        const u32 next_position = position + THREADS / 8;
        const u32 next_row = next_position < new_count ? own_candidates[next_position] : 0;
        const double sum = row_sum(tile, from, to, table, queries, begin, terms);
        const float similarity = exact_similarity(sum, tile, from, to, queries, begin, terms);
        if ((tid & 7) == 0) {
            bool is_neighbor = similarity > 0.0f;
            keys[earlier_count + position] =
                is_neighbor ? neighbor_key(similarity, tile.first_row + row) : 0;
            if (is_neighbor) atomicAdd(&valid, 1);
        }
        position = next_position;
        row = next_row;
        from = tile.row_ptr[row];
        to = tile.row_end[row];
    }
    __syncthreads();
    const u32 valid_count = valid;
    rank_keys<THREADS>(keys, total, valid_count, k, last, best);
    if (tid == 0) counts[local_query] = min(k, valid_count);
}

// Processes 12 candidates per pass.
extern "C" __global__ void __launch_bounds__(96, 13)
    rescore(Tile tile, Queries queries, u32 first, u32 k, u32 capacity, u32 fresh, u32 last,
            const u32* candidates, const u32* candidate_counts, u64* neighbors, u32* counts,
            u32* status) {
    rescore_block<96>(tile, queries, first, k, capacity, fresh, last, candidates, candidate_counts,
                      neighbors, counts, status);
}

// Processes 32 candidates per pass.
extern "C" __global__ void __launch_bounds__(256, 5)
    rescore_many(Tile tile, Queries queries, u32 first, u32 k, u32 capacity, u32 fresh, u32 last,
                 const u32* candidates, const u32* candidate_counts, u64* neighbors, u32* counts,
                 u32* status) {
    rescore_block<256>(tile, queries, first, k, capacity, fresh, last, candidates, candidate_counts,
                       neighbors, counts, status);
}
