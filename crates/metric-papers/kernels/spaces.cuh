// The metric spaces of the kernels. A query is in shared memory. The coordinates of points are
// stored in columns, so that adjacent threads read adjacent values.

// A space of vectors.
struct VectorSpace {
    // Coordinate i of point p is at i * count + p.
    const float* columns;
    const float* queries;
    unsigned count;
    unsigned dimension;
};

// A space of words with the edit distance.
struct WordSpace {
    // Character i of word p is at i * count + p.
    const unsigned char* columns;
    const unsigned char* lengths;
    // For each query, its length followed by 64 characters.
    const unsigned char* queries;
    unsigned count;
    unsigned longest;
};

// Number of bytes per query in `WordSpace`.
constexpr unsigned WORD_BYTES = 65;

// The query of a block in shared memory.
struct VectorQuery {
    const float* values;
};

struct WordQuery {
    // The positions of each character in the query, as bits.
    const unsigned long long* positions;
    unsigned length;
};

// Returns the number of bytes of shared memory for a query.
__device__ inline unsigned query_bytes(const VectorSpace& space) {
    return (space.dimension * 4 + 15) / 16 * 16;
}

__device__ inline unsigned query_bytes(const WordSpace&) {
    return 256 * 8;
}

// Loads the query into shared memory. All threads of the block must call it.
__device__ inline VectorQuery load(const VectorSpace& space, unsigned query,
                                   unsigned char* shared) {
    float* values = reinterpret_cast<float*>(shared);
    for (unsigned i = threadIdx.x; i < space.dimension; i += blockDim.x) {
        values[i] = space.queries[size_t(query) * space.dimension + i];
    }
    __syncthreads();
    return {values};
}

__device__ inline WordQuery load(const WordSpace& space, unsigned query, unsigned char* shared) {
    unsigned long long* positions = reinterpret_cast<unsigned long long*>(shared);
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) {
        positions[i] = 0;
    }
    __syncthreads();
    const unsigned char* characters = space.queries + size_t(query) * WORD_BYTES;
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < characters[0]; i++) {
            positions[characters[1 + i]] |= 1ull << i;
        }
        // No word contains this character.
        positions[255] = 0;
    }
    __syncthreads();
    return {positions, characters[0]};
}

// Returns the distance between a point and the query. One thread computes it.
template <unsigned METRIC>
__device__ inline float distance(const VectorSpace& space, const VectorQuery& query,
                                 unsigned point) {
    return distance_of_one(METRIC, query.values, 1, space.columns + point, space.count,
                           space.dimension);
}

template <unsigned METRIC>
__device__ inline float distance(const WordSpace& space, const WordQuery& query, unsigned point) {
    const unsigned length = space.lengths[point];
    if (query.length == 0) {
        return static_cast<float>(length);
    }
    unsigned long long vertical_positive = ~0ull, vertical_negative = 0;
    const unsigned long long last_bit = 1ull << (query.length - 1);
    unsigned distance = query.length;
    for (unsigned i = 0; i < length; i++) {
        const unsigned long long equal =
            query.positions[space.columns[size_t(i) * space.count + point]];
        const unsigned long long diagonal_zero =
            (((equal & vertical_positive) + vertical_positive) ^ vertical_positive) | equal |
            vertical_negative;
        unsigned long long horizontal_positive =
            vertical_negative | ~(diagonal_zero | vertical_positive);
        const unsigned long long horizontal_negative = vertical_positive & diagonal_zero;
        distance += (horizontal_positive & last_bit) != 0;
        distance -= (horizontal_negative & last_bit) != 0;
        horizontal_positive = horizontal_positive << 1 | 1;
        vertical_positive = horizontal_negative << 1 | ~(diagonal_zero | horizontal_positive);
        vertical_negative = horizontal_positive & diagonal_zero;
    }
    return static_cast<float>(distance);
}

// Bounds for the rounding error of distances in the triangle inequality, as in `prune.rs`.
struct Bounds {
    double relative;
    double absolute;
};

// Returns a lower bound on the distance between two points, one at least `far` from a third point
// and the other at most `near`.
__device__ inline float min_distance(const Bounds& bounds, float far, float near) {
    const double difference = (far - bounds.absolute) * (1 - bounds.relative) -
                              (near + bounds.absolute) * (1 + 2 * bounds.relative);
    const double bound = difference * (1 - bounds.relative) - bounds.absolute;
    return bound <= 0 ? 0 : __double2float_rd(bound);
}

// Returns the key of a neighbor: the bits of its distance, then the point.
__device__ inline unsigned long long make_key(float distance, unsigned point) {
    return static_cast<unsigned long long>(__float_as_uint(distance)) << 32 | point;
}

// Returns the distance in a key.
__device__ inline float distance_of_key(unsigned long long key) {
    return __uint_as_float(static_cast<unsigned>(key >> 32));
}

// A key that marks an unused element. It is greater than all other keys.
constexpr unsigned long long NO_KEY = ~0ull;
