// Prepares points and queries for the filters.
//
// Position p of the filters' copy holds point p * step modulo count, where step and count have no
// common factor. Adjacent points of the data set are not adjacent in the copy, so that each part of
// the positions is a sample of all points.
//
// For Euclidean distances, a vector x becomes s (x - c), with the center c and a power of two s,
// rounded to 16 bits. Angles become distances between unit vectors. Rounding errors are measured,
// not estimated.

// Rounds a value to a 16-bit float.
__device__ inline unsigned short float_to_half(double value) {
    unsigned short half;
    // The value is rounded twice. The measured error includes both roundings.
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(static_cast<float>(value)));
    return half;
}

__device__ inline double half_to_double(unsigned short half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

__device__ inline double warp_sum(double value) {
    for (int offset = 16; offset > 0; offset /= 2) {
        value += __shfl_xor_sync(~0u, value, offset);
    }
    return value;
}

// Raises `greatest` to `value`, rounded up. `value` must be at least 0.
__device__ inline void atomic_max_rounded_up(float* greatest, double value) {
    atomicMax(reinterpret_cast<int*>(greatest), __float_as_int(__double2float_ru(value)));
}

// Returns 1 / |vector| for angular distances, and 1 for Euclidean distances. A warp must call it.
__device__ inline double inverse_length(const float* vector, unsigned dimension,
                                        unsigned is_angular) {
    double square = 0;
    for (unsigned i = threadIdx.x % 32; is_angular && i < dimension; i += 32) {
        square += static_cast<double>(vector[i]) * vector[i];
    }
    return is_angular ? 1 / sqrt(warp_sum(square)) : 1;
}

// Computes the greatest |x - c| of all coordinates. One warp per point.
extern "C" __global__ void __launch_bounds__(256)
    spread(const float* points, unsigned count, unsigned dimension, const float* center,
           unsigned is_angular, float* greatest) {
    const unsigned lane = threadIdx.x % 32;
    double max_distance = 0;
    for (unsigned point = blockIdx.x * 8 + threadIdx.x / 32; point < count;
         point += gridDim.x * 8) {
        const float* vector = points + size_t(point) * dimension;
        const double inverse = inverse_length(vector, dimension, is_angular);
        for (unsigned i = lane; i < dimension; i += 32) {
            max_distance = fmax(max_distance, fabs(vector[i] * inverse - center[i]));
        }
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        max_distance = fmax(max_distance, __shfl_xor_sync(~0u, max_distance, offset));
    }
    if (lane == 0) {
        atomic_max_rounded_up(greatest, max_distance);
    }
}

// Fills the filters' copy of the points. positions: 16-bit floats in the order that `filter.cu`
// describes, with 32 coordinates in each of `steps` steps. halves: |x|^2/2. greatest: the maximum
// rounding error of a vector, then the maximum length. One warp per position.
extern "C" __global__ void __launch_bounds__(256)
    prepare_points(const float* points, unsigned count, unsigned dimension, unsigned step,
                   const float* center, double scale, unsigned is_angular,
                   unsigned short* positions, float* halves, unsigned steps, float* greatest) {
    const unsigned lane = threadIdx.x % 32;
    double max_error = 0, max_square = 0;
    for (unsigned position = blockIdx.x * 8 + threadIdx.x / 32; position < count;
         position += gridDim.x * 8) {
        const unsigned point =
            static_cast<unsigned>(static_cast<unsigned long long>(position) * step % count);
        const float* vector = points + size_t(point) * dimension;
        const double inverse = inverse_length(vector, dimension, is_angular);
        double square = 0, error = 0;
        for (unsigned step = 0; step < steps; step++) {
            const unsigned i = step * 32 + lane;
            const double value = i < dimension ? (vector[i] * inverse - center[i]) * scale : 0;
            const unsigned short half = float_to_half(value);
            positions[((size_t(position / 64) * steps + step) * 64 + position % 64) * 32 + lane] =
                half;
            square += value * value;
            error += (value - half_to_double(half)) * (value - half_to_double(half));
        }
        square = warp_sum(square);
        max_error = fmax(max_error, warp_sum(error));
        max_square = fmax(max_square, square);
        if (lane == 0) {
            halves[position] = static_cast<float>(square / 2);
        }
    }
    if (lane == 0) {
        atomic_max_rounded_up(&greatest[0], sqrt(max_error) * (1 + 1e-9));
        atomic_max_rounded_up(&greatest[1], sqrt(max_square) * (1 + 1e-9));
    }
}

// Copies the points in the order of their positions, unmodified, for the other distances. One warp
// per position.
extern "C" __global__ void __launch_bounds__(256)
    place_points(const float* points, unsigned count, unsigned dimension, unsigned step,
                 float* positions) {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned position = blockIdx.x * 8 + threadIdx.x / 32; position < count;
         position += gridDim.x * 8) {
        const unsigned point =
            static_cast<unsigned>(static_cast<unsigned long long>(position) * step % count);
        for (unsigned i = lane; i < dimension; i += 32) {
            positions[size_t(position) * dimension + i] = points[size_t(point) * dimension + i];
        }
    }
}

// Computes the lengths of vectors, which `angle` needs. One thread per vector.
extern "C" __global__ void __launch_bounds__(256)
    measure_lengths(const float* vectors, unsigned count, unsigned dimension, double* lengths) {
    for (unsigned vector = blockIdx.x * 256 + threadIdx.x; vector < count;
         vector += gridDim.x * 256) {
        lengths[vector] = euclidean_length(vectors + size_t(vector) * dimension, dimension);
    }
}

// Prepares queries for `filter.cu`. One block per query. The number of queries is padded to a
// multiple of the queries per block of the filter. Padding queries are zeros and find no
// candidates.
//
// For shifted and scaled vectors, let v = |x|^2/2 - q.x, let E be the greatest rounding error of a
// point, and let N be the greatest length. Then
//
//   |q.x - q'.x'| <= e_q N + (|q| + e_q) E
//       rounding to 16 bits (Cauchy-Schwarz)
//   |sum - v| <= (d + 32) 2^-22 ((|q| + e_q)(N + E) + N^2/2)
//       sums of exact products and |x|^2/2 in 32 bits; each addition is truncated at 2^-23 of the
//       greatest of 17 terms
//   2^-23 (N^2 + |q| N)
//       |x|^2/2 and the difference, rounded
//   2^-22 (|q| + N)^2 / 2
//       distances that round to the same f32
//   r (|q| + N + r), r = 2^-48 scale
//       unit vectors, rounded in f64 here and in the exact distances
//
// Together, these terms bound the difference between the computed values of two points that must
// not change their order. 2^-130 allows for underflow.
extern "C" __global__ void __launch_bounds__(128)
    prepare_queries(const float* queries, unsigned count, unsigned dimension, const float* center,
                    double scale, unsigned is_angular, const float* greatest, float radius,
                    unsigned short* halves, unsigned steps, Query* states, unsigned* counts) {
    __shared__ double sums[3][4];
    const unsigned query = blockIdx.x;
    const float* vector = queries + size_t(query) * dimension;
    const double inverse = query < count ? inverse_length(vector, dimension, is_angular) : 0;
    double square = 0, error = 0, is_unfit = 0;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < 32 * steps; i += 128) {
        const double value =
            query < count && i < dimension ? (vector[i] * inverse - center[i]) * scale : 0;
        // This is false if the value is not finite.
        const bool fits = fabs(value) < 60000;
        const unsigned short half = fits ? float_to_half(value) : 0;
        halves[size_t(query) * steps * 32 + i] = half;
        square += value * value;
        error += (value - half_to_double(half)) * (value - half_to_double(half));
        is_unfit = fits ? is_unfit : 1;
    }
    square = warp_sum(square);
    error = warp_sum(error);
    is_unfit = warp_sum(is_unfit);
    if (threadIdx.x % 32 == 0) {
        sums[0][threadIdx.x / 32] = square;
        sums[1][threadIdx.x / 32] = error;
        sums[2][threadIdx.x / 32] = is_unfit;
    }
    __syncthreads();
    if (threadIdx.x != 0 || query >= count) {
        return;
    }
    counts[query] = 0;
    const auto total = [&](unsigned index) {
        return sums[index][0] + sums[index][1] + sums[index][2] + sums[index][3];
    };
    square = total(0);
    error = sqrt(total(1)) * (1 + 1e-9);
    is_unfit = total(2);
    const double length = sqrt(square) * (1 + 1e-9), max_length = greatest[1],
                 max_error = greatest[0];
    const double max_product =
        (length + error) * (max_length + max_error) + max_length * max_length / 2;
    const double unit_error = is_angular ? 0x1p-48 * scale : 0;
    const double slack = error * max_length + (length + error) * max_error +
                         (dimension + 32) * 0x1p-22 * max_product +
                         0x1p-23 * (max_length * max_length + length * max_length) +
                         0x1p-23 * (length + max_length) * (length + max_length) +
                         unit_error * (length + max_length + unit_error) + 0x1p-130;
    Query state = {__int_as_float(0x7F800000), __double2float_ru(2 * slack * (1 + 1e-6)), 0,
                   ANSWERED};
    if (radius >= 0) {
        double max_distance = radius * (1 + 1e-6) + 1e-8 * is_angular;
        if (is_angular) {
            max_distance =
                max_distance >= 3.14159265358979 ? 2.1 : 2 * sin(max_distance / 2) * (1 + 1e-9);
        }
        max_distance *= scale;
        state.threshold = __double2float_ru((max_distance * max_distance - square) / 2 + slack);
    }
    if (is_unfit > 0 || !(length < 1e18)) {
        state = {-__int_as_float(0x7F800000), 0, 0, OUT_OF_RANGE};
    }
    states[query] = state;
}

// Prepares queries for `scan.cu`. Its values are distances in f32, with a relative error of at most
// (d + 8) 2^-23. One thread per query.
extern "C" __global__ void __launch_bounds__(128)
    prepare_scan(const float* queries, unsigned count, unsigned dimension, float radius,
                 Query* states, unsigned* counts) {
    const unsigned query = blockIdx.x * 128 + threadIdx.x;
    if (query >= count) {
        return;
    }
    counts[query] = 0;
    bool fits = true;
    for (unsigned i = 0; i < dimension; i++) {
        // The comparison is false if the coordinate is not a number.
        fits = fits && fabsf(queries[size_t(query) * dimension + i]) < 1e30f;
    }
    const float slope = (dimension + 8) * 0x1p-22f;
    Query state = {__int_as_float(0x7F800000), 0x1p-120f, slope, ANSWERED};
    if (radius >= 0) {
        state.threshold = __fadd_ru(__fmul_ru(radius, 1 + slope), 0x1p-120f);
    }
    if (!fits) {
        state = {-__int_as_float(0x7F800000), 0, 0, OUT_OF_RANGE};
    }
    states[query] = state;
}
