// Candidates of a query: the points that a filter could not exclude.
//
// A filter computes a value for each point and query. The values order the points by distance, up
// to a known error. A query keeps the points whose value is at most its threshold. After each part
// of the points, `select` lowers the threshold to the k-th smallest value so far plus twice the
// error. The k nearest points are therefore always among the candidates.

struct Candidate {
    float value;
    unsigned position;
};

// The state of a query in the kernels.
struct Query {
    // The greatest value of a candidate; -infinity if the kernels cannot answer the query.
    float threshold;
    // Bounds the error of values: 2 |computed value - true value| <= slack + slope |value|. See
    // `select`.
    float slack;
    float slope;
    // One of the constants below.
    unsigned status;
};

// Values of `Query::status`. ANSWERED means that the kernels answer the query.
constexpr unsigned ANSWERED = 0;
// There are more candidates than fit in memory, because of ties.
constexpr unsigned TOO_MANY_CANDIDATES = 1;
// A coordinate is too large for the filter, or not finite.
constexpr unsigned OUT_OF_RANGE = 2;
// A distance is too close to the midpoint between two f32 values; the CPU must round it.
constexpr unsigned UNCERTAIN_ROUNDING = 3;

// Maps floats to unsigned integers in the same order.
__device__ inline unsigned float_to_ordered(float value) {
    const unsigned bits = __float_as_uint(value);
    return bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
}

// The inverse of `float_to_ordered`.
__device__ inline float ordered_to_float(unsigned key) {
    return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xFFFFFFFFu));
}
