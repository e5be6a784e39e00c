// The distances of `metric/minkowski.rs` and `metric/angular.rs`, bit for bit. Differences and sums
// are in f64. The term of coordinate i is added to sum i modulo 8, and the eight sums are combined
// in pairs.

constexpr unsigned EUCLIDEAN = 0, MANHATTAN = 1, CHEBYSHEV = 2, ANGULAR = 3;

// Returns the contribution of a coordinate to a distance.
__device__ inline double term(unsigned metric, double a, double b) {
    const double difference = a - b;
    return metric == EUCLIDEAN ? difference * difference : fabs(difference);
}

// Adds a term to a sum, or two sums.
__device__ inline double combine(unsigned metric, double x, double y) {
    return metric == CHEBYSHEV ? (x >= y ? x : y) : x + y;
}

// Computes the distance between two vectors with eight adjacent threads, and returns it to each of
// them. All threads of the warp must call it. `b` may be in slow memory and is loaded ahead of its
// use. `a` should be cached or in shared memory; its values are f32, or the same values as f64.
template <unsigned metric, typename A>
__device__ inline float distance_of_eight(const A* a, const float* b, unsigned dimension) {
    constexpr unsigned AHEAD = 16;
    const unsigned first_coordinate = threadIdx.x % 8,
                   terms = (dimension + 7 - first_coordinate) / 8;
    float next[AHEAD];
    const auto load_ahead = [&](unsigned first) {
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++) {
            next[i] = first + i < terms ? b[first_coordinate + 8 * (first + i)] : 0;
        }
    };
    double sum = 0;
    unsigned first = 0;
    load_ahead(0);
    while (first + AHEAD <= terms) {
        float current[AHEAD];
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++) {
            current[i] = next[i];
        }
        load_ahead(first + AHEAD);
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++) {
            sum = combine(metric, sum,
                          term(metric, a[first_coordinate + 8 * (first + i)], current[i]));
        }
        first += AHEAD;
    }
#pragma unroll
    for (unsigned i = 0; i < AHEAD; i++) {
        if (first + i < terms) {
            sum =
                combine(metric, sum, term(metric, a[first_coordinate + 8 * (first + i)], next[i]));
        }
    }
    sum = combine(metric, sum, __shfl_xor_sync(~0u, sum, 4));
    sum = combine(metric, sum, __shfl_xor_sync(~0u, sum, 2));
    sum = combine(metric, sum, __shfl_xor_sync(~0u, sum, 1));
    return static_cast<float>(metric == EUCLIDEAN ? sqrt(sum) : sum);
}

// Computes the same distance as `distance_of_eight`, with one thread. Value i of a vector is at i
// times its step.
__device__ inline float distance_of_one(unsigned metric, const float* a, unsigned long long a_step,
                                        const float* b, unsigned long long b_step,
                                        unsigned dimension) {
    double sums[8] = {};
    unsigned i = 0;
    for (; i + 8 <= dimension; i += 8) {
#pragma unroll
        for (unsigned lane = 0; lane < 8; lane++) {
            sums[lane] = combine(metric, sums[lane],
                                 term(metric, a[(i + lane) * a_step], b[(i + lane) * b_step]));
        }
    }
#pragma unroll
    for (unsigned lane = 0; lane < 8; lane++) {
        if (i + lane < dimension) {
            sums[lane] = combine(metric, sums[lane],
                                 term(metric, a[(i + lane) * a_step], b[(i + lane) * b_step]));
        }
    }
    const double even =
        combine(metric, combine(metric, sums[0], sums[4]), combine(metric, sums[2], sums[6]));
    const double odd =
        combine(metric, combine(metric, sums[1], sums[5]), combine(metric, sums[3], sums[7]));
    const double sum = combine(metric, even, odd);
    return static_cast<float>(metric == EUCLIDEAN ? sqrt(sum) : sum);
}

// Returns the Euclidean length of a vector.
__device__ inline double euclidean_length(const float* a, unsigned dimension) {
    double sum = 0;
    for (unsigned i = 0; i < dimension; i++) {
        sum += static_cast<double>(a[i]) * a[i];
    }
    return sqrt(sum);
}

// Returns the angle between two vectors of known lengths. Sets `is_certain` to false if an
// arctangent with a slightly different rounding error could round to another f32.
__device__ inline float angle(const float* a, double length_a, const float* b, double length_b,
                              unsigned dimension, bool& is_certain) {
    double square_of_difference = 0, square_of_sum = 0;
    for (unsigned i = 0; i < dimension; i++) {
        const double u = a[i] / length_a, v = b[i] / length_b;
        square_of_difference += (u - v) * (u - v);
        square_of_sum += (u + v) * (u + v);
    }
    const double angle = 2 * atan2(sqrt(square_of_difference), sqrt(square_of_sum));
    const double error = angle * 0x1p-49;
    const float low = static_cast<float>(angle - error), high = static_cast<float>(angle + error);
    is_certain = is_certain && low == high;
    return static_cast<float>(angle);
}
