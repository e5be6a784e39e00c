// The spaces of the papers' kernels: a query in shared memory, and points in columns, so that
// neighboring threads read neighboring values.

struct VectorSpace {
    // Coordinate i of point p is at i * count + p.
    const float* columns;
    const float* queries;
    unsigned count;
    unsigned dimension;
};

struct WordSpace {
    // Character i of word p is at i * count + p.
    const unsigned char* columns;
    const unsigned char* lengths;
    // The length and the 64 characters of each query.
    const unsigned char* queries;
    unsigned count;
    unsigned longest;
};

constexpr unsigned WORD_BYTES = 65;

// The query of a block.
struct VectorQuery {
    const float* values;
};

struct WordQuery {
    const unsigned long long* places;
    unsigned length;
};

// Returns the number of bytes of shared memory for a query.
__device__ inline unsigned query_bytes(const VectorSpace& space) {
    return (space.dimension * 4 + 15) / 16 * 16;
}

__device__ inline unsigned query_bytes(const WordSpace&) {
    return 256 * 8;
}

// Loads the query into shared memory, with all threads of the block.
__device__ inline VectorQuery load(const VectorSpace& space, unsigned query, unsigned char* shared) {
    float* values = reinterpret_cast<float*>(shared);
    for (unsigned i = threadIdx.x; i < space.dimension; i += blockDim.x) {
        values[i] = space.queries[size_t(query) * space.dimension + i];
    }
    __syncthreads();
    return {values};
}

__device__ inline WordQuery load(const WordSpace& space, unsigned query, unsigned char* shared) {
    unsigned long long* places = reinterpret_cast<unsigned long long*>(shared);
    for (unsigned i = threadIdx.x; i < 256; i += blockDim.x) {
        places[i] = 0;
    }
    __syncthreads();
    const unsigned char* own = space.queries + size_t(query) * WORD_BYTES;
    if (threadIdx.x == 0) {
        for (unsigned i = 0; i < own[0]; i++) {
            places[own[1 + i]] |= 1ull << i;
        }
        // No word contains this character.
        places[255] = 0;
    }
    __syncthreads();
    return {places, own[0]};
}

// Computes the distance between a point and the query, with one thread.
template <unsigned METRIC>
__device__ inline float distance(const VectorSpace& space, const VectorQuery& query, unsigned point) {
    return distance_of_one(METRIC, query.values, 1, space.columns + point, space.count, space.dimension);
}

template <unsigned METRIC>
__device__ inline float distance(const WordSpace& space, const WordQuery& query, unsigned point) {
    const unsigned length = space.lengths[point];
    if (query.length == 0) {
        return static_cast<float>(length);
    }
    unsigned long long rises = ~0ull, falls = 0;
    const unsigned long long last = 1ull << (query.length - 1);
    unsigned distance = query.length;
    for (unsigned i = 0; i < length; i++) {
        const unsigned long long equal = query.places[space.columns[size_t(i) * space.count + point]];
        const unsigned long long zero = (((equal & rises) + rises) ^ rises) | equal | falls;
        unsigned long long up = falls | ~(zero | rises);
        const unsigned long long down = rises & zero;
        distance += (up & last) != 0;
        distance -= (down & last) != 0;
        up = up << 1 | 1;
        rises = down << 1 | ~(zero | up);
        falls = up & zero;
    }
    return static_cast<float>(distance);
}

// The triangle inequality for rounded distances, as in `prune.rs`.
struct Bounds {
    double relative;
    double absolute;
};

// Returns a lower bound of the distance between two points: one is at least `far` from a third
// point, and the other at most `near`.
__device__ inline float gap(const Bounds& bounds, float far, float near) {
    const double apart =
        (far - bounds.absolute) * (1 - bounds.relative) - (near + bounds.absolute) * (1 + 2 * bounds.relative);
    const double least = apart * (1 - bounds.relative) - bounds.absolute;
    return least <= 0 ? 0 : __double2float_rd(least);
}

__device__ inline unsigned long long key_of(float distance, unsigned point) {
    return static_cast<unsigned long long>(__float_as_uint(distance)) << 32 | point;
}

__device__ inline float distance_in(unsigned long long key) {
    return __uint_as_float(static_cast<unsigned>(key >> 32));
}

constexpr unsigned long long NO_KEY = ~0ull;
