// The distances of `metric/minkowski.rs` and `metric/angular.rs`, to the bit: differences and sums in f64, each coordinate in the
// lane of its number modulo 8, the lanes joined two by two.

constexpr unsigned EUCLIDEAN = 0, MANHATTAN = 1, CHEBYSHEV = 2, ANGULAR = 3;

__device__ inline double term(unsigned metric, double a, double b) {
    const double difference = a - b;
    return metric == EUCLIDEAN ? difference * difference : fabs(difference);
}

__device__ inline double join(unsigned metric, double x, double y) {
    return metric == CHEBYSHEV ? (x >= y ? x : y) : x + y;
}

// The distance of two vectors, by eight neighboring threads; each gets it. All threads of the warp take part. `b` is read before it is
// used, since it may be in slow memory; `a`, f32 or the same values as f64, should be cached or in shared memory.
template <unsigned metric, typename A>
__device__ inline float distance_of_eight(const A* a, const float* b, unsigned dimension) {
    constexpr unsigned AHEAD = 16;
    const unsigned own = threadIdx.x % 8, terms = (dimension + 7 - own) / 8;
    float next[AHEAD];
    const auto fetch = [&](unsigned first) {
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++) {
            next[i] = first + i < terms ? b[own + 8 * (first + i)] : 0;
        }
    };
    double lane = 0;
    unsigned first = 0;
    fetch(0);
    while (first + AHEAD <= terms) {
        float now[AHEAD];
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++) {
            now[i] = next[i];
        }
        fetch(first + AHEAD);
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++) {
            lane = join(metric, lane, term(metric, a[own + 8 * (first + i)], now[i]));
        }
        first += AHEAD;
    }
#pragma unroll
    for (unsigned i = 0; i < AHEAD; i++) {
        if (first + i < terms) {
            lane = join(metric, lane, term(metric, a[own + 8 * (first + i)], next[i]));
        }
    }
    lane = join(metric, lane, __shfl_xor_sync(~0u, lane, 4));
    lane = join(metric, lane, __shfl_xor_sync(~0u, lane, 2));
    lane = join(metric, lane, __shfl_xor_sync(~0u, lane, 1));
    return static_cast<float>(metric == EUCLIDEAN ? sqrt(lane) : lane);
}

// The same by one thread; value i of a vector is at i * its step.
__device__ inline float distance_of_one(unsigned metric, const float* a, unsigned long long a_step, const float* b,
                                        unsigned long long b_step, unsigned dimension) {
    double lanes[8] = {};
    unsigned i = 0;
    for (; i + 8 <= dimension; i += 8) {
#pragma unroll
        for (unsigned l = 0; l < 8; l++) {
            lanes[l] = join(metric, lanes[l], term(metric, a[(i + l) * a_step], b[(i + l) * b_step]));
        }
    }
#pragma unroll
    for (unsigned l = 0; l < 8; l++) {
        if (i + l < dimension) {
            lanes[l] = join(metric, lanes[l], term(metric, a[(i + l) * a_step], b[(i + l) * b_step]));
        }
    }
    const double even = join(metric, join(metric, lanes[0], lanes[4]), join(metric, lanes[2], lanes[6]));
    const double odd = join(metric, join(metric, lanes[1], lanes[5]), join(metric, lanes[3], lanes[7]));
    const double sum = join(metric, even, odd);
    return static_cast<float>(metric == EUCLIDEAN ? sqrt(sum) : sum);
}

__device__ inline double length_of(const float* a, unsigned dimension) {
    double sum = 0;
    for (unsigned i = 0; i < dimension; i++) {
        sum += static_cast<double>(a[i]) * a[i];
    }
    return sqrt(sum);
}

// The angle of two vectors of known lengths. `sure` is cleared where another arctangent, right to a few places, could be rounded
// to another f32.
__device__ inline float angle(const float* a, double of_a, const float* b, double of_b, unsigned dimension, bool& sure) {
    double apart = 0, together = 0;
    for (unsigned i = 0; i < dimension; i++) {
        const double u = a[i] / of_a, v = b[i] / of_b;
        apart += (u - v) * (u - v);
        together += (u + v) * (u + v);
    }
    const double angle = 2 * atan2(sqrt(apart), sqrt(together));
    const double error = angle * 0x1p-49;
    const float low = static_cast<float>(angle - error), high = static_cast<float>(angle + error);
    sure = sure && low == high;
    return static_cast<float>(angle);
}
