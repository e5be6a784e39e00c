// Candidates of a query: the points that a filter could not exclude.
//
// A filter computes a value v of each point and query that orders the points by distance up to a known error. A query keeps
// the points with v at most its threshold. After each part of the points `select` lowers the threshold, to the k-th smallest value
// found so far and twice the error above it: the k nearest points are always among the candidates.

struct Candidate {
    float value;
    unsigned place;
};

// What the kernels know of a query.
struct Query {
    // The greatest value of a candidate; -infinity if the query is not answered here.
    float threshold;
    // |computed value - true value| <= slack + slope |true value|, twice and a bit: see `select`.
    float slack;
    float slope;
    // Why the query is not answered here: 0 if it is.
    unsigned status;
};

constexpr unsigned ANSWERED = 0;
// More candidates than there is room for: ties.
constexpr unsigned TOO_MANY = 1;
// Coordinates too large for the filter, or not finite.
constexpr unsigned UNFIT = 2;
// Too close to the middle between two f32: the CPU decides.
constexpr unsigned UNSURE = 3;

// Unsigned integers in the order of floats.
__device__ inline unsigned ordered(float value) {
    const unsigned bits = __float_as_uint(value);
    return bits ^ (bits >> 31 ? 0xFFFFFFFFu : 0x80000000u);
}

__device__ inline float unordered(unsigned key) {
    return __uint_as_float(key ^ (key >> 31 ? 0x80000000u : 0xFFFFFFFFu));
}
