// Points and queries for the filters.
//
// Place p of the filters' copy holds point p * step modulo count, where step has no factor in common with count: points that stand
// together in the data do not in the copy, so that each part of the places is a sample of all.
//
// For Euclidean distances a vector becomes s (x - c), with the center c and a power of two s, rounded to 16 bits. Angles become
// distances of unit vectors. The errors of rounding are measured, not estimated.

__device__ inline unsigned short half_of(double value) {
    unsigned short half;
    // Rounded twice; what that changes is measured with the rest.
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(static_cast<float>(value)));
    return half;
}

__device__ inline double double_of(unsigned short half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

__device__ inline double warp_sum(double value) {
    for (int apart = 16; apart > 0; apart /= 2) {
        value += __shfl_xor_sync(~0u, value, apart);
    }
    return value;
}

// For values of at least 0.
__device__ inline void raise(float* greatest, double value) {
    atomicMax(reinterpret_cast<int*>(greatest), __float_as_int(__double2float_ru(value)));
}

__device__ inline double inverse_length(const float* vector, unsigned dimension, unsigned is_angular) {
    double square = 0;
    for (unsigned i = threadIdx.x % 32; is_angular && i < dimension; i += 32) {
        square += static_cast<double>(vector[i]) * vector[i];
    }
    return is_angular ? 1 / sqrt(warp_sum(square)) : 1;
}

// The greatest |x - c| of a coordinate. A warp a point.
extern "C" __global__ void __launch_bounds__(256)
    spread(const float* points, unsigned count, unsigned dimension, const float* center, unsigned is_angular, float* greatest) {
    const unsigned lane = threadIdx.x % 32;
    double most = 0;
    for (unsigned point = blockIdx.x * 8 + threadIdx.x / 32; point < count; point += gridDim.x * 8) {
        const float* vector = points + size_t(point) * dimension;
        const double inverse = inverse_length(vector, dimension, is_angular);
        for (unsigned i = lane; i < dimension; i += 32) {
            most = fmax(most, fabs(vector[i] * inverse - center[i]));
        }
    }
    for (int apart = 16; apart > 0; apart /= 2) {
        most = fmax(most, __shfl_xor_sync(~0u, most, apart));
    }
    if (lane == 0) {
        raise(greatest, most);
    }
}

// places: 16-bit floats as `filter.cu` wants them, of `steps` times 32 coordinates; halves: |x|^2/2; greatest: the error of rounding, the
// length. A warp a place.
extern "C" __global__ void __launch_bounds__(256)
    prepare_points(const float* points, unsigned count, unsigned dimension, unsigned step, const float* center, double scale,
                   unsigned is_angular, unsigned short* places, float* halves, unsigned steps, float* greatest) {
    const unsigned lane = threadIdx.x % 32;
    double most_error = 0, most_square = 0;
    for (unsigned place = blockIdx.x * 8 + threadIdx.x / 32; place < count; place += gridDim.x * 8) {
        const unsigned point = static_cast<unsigned>(static_cast<unsigned long long>(place) * step % count);
        const float* vector = points + size_t(point) * dimension;
        const double inverse = inverse_length(vector, dimension, is_angular);
        double square = 0, error = 0;
        for (unsigned step = 0; step < steps; step++) {
            const unsigned i = step * 32 + lane;
            const double value = i < dimension ? (vector[i] * inverse - center[i]) * scale : 0;
            const unsigned short half = half_of(value);
            places[((size_t(place / 64) * steps + step) * 64 + place % 64) * 32 + lane] = half;
            square += value * value;
            error += (value - double_of(half)) * (value - double_of(half));
        }
        square = warp_sum(square);
        most_error = fmax(most_error, warp_sum(error));
        most_square = fmax(most_square, square);
        if (lane == 0) {
            halves[place] = static_cast<float>(square / 2);
        }
    }
    if (lane == 0) {
        raise(&greatest[0], sqrt(most_error) * (1 + 1e-9));
        raise(&greatest[1], sqrt(most_square) * (1 + 1e-9));
    }
}

// The same for the other distances: vectors as they are, in places.
extern "C" __global__ void __launch_bounds__(256)
    place_points(const float* points, unsigned count, unsigned dimension, unsigned step, float* places) {
    const unsigned lane = threadIdx.x % 32;
    for (unsigned place = blockIdx.x * 8 + threadIdx.x / 32; place < count; place += gridDim.x * 8) {
        const unsigned point = static_cast<unsigned>(static_cast<unsigned long long>(place) * step % count);
        for (unsigned i = lane; i < dimension; i += 32) {
            places[size_t(place) * dimension + i] = points[size_t(point) * dimension + i];
        }
    }
}

// The lengths of vectors as `angle` needs them. A thread a vector.
extern "C" __global__ void __launch_bounds__(256)
    measure_lengths(const float* vectors, unsigned count, unsigned dimension, double* lengths) {
    for (unsigned vector = blockIdx.x * 256 + threadIdx.x; vector < count; vector += gridDim.x * 256) {
        lengths[vector] = length_of(vectors + size_t(vector) * dimension, dimension);
    }
}

// Queries for `filter.cu`; a block each, up to a multiple of what a block there has: the rest are zeros that find nothing.
// With v = |x|^2/2 - q.x of vectors moved and scaled, E the greatest error of a point's rounding and N the greatest length,
//
//   |q.x - q'.x'| <= e_q N + (|q| + e_q) E              rounding to 16 bits (Cauchy-Schwarz)
//   |sum - v| <= (d + 32) 2^-22 ((|q| + e_q)(N + E) + N^2/2)  sums of exact products and |x|^2/2 in 32 bits, each addition cut off at
//                                                       2^-23 of the greatest of 17
//   2^-23 (N^2 + |q| N)                                 |x|^2/2 and the difference, rounded
//   2^-22 (|q| + N)^2 / 2                               distances that are the same f32
//   r (|q| + N + r), r = 2^-48 scale                    unit vectors, rounded in f64 here and where distances are measured
//
// which together bound the difference of the computed v of two points that must not change places. 2^-130 covers what underflows.
extern "C" __global__ void __launch_bounds__(128)
    prepare_queries(const float* queries, unsigned count, unsigned dimension, const float* center, double scale, unsigned is_angular,
                    const float* greatest, float radius, unsigned short* halves, unsigned steps, Query* states, unsigned* counts) {
    __shared__ double sums[3][4];
    const unsigned query = blockIdx.x;
    const float* vector = queries + size_t(query) * dimension;
    const double inverse = query < count ? inverse_length(vector, dimension, is_angular) : 0;
    double square = 0, error = 0, unfit = 0;
#pragma unroll 4
    for (unsigned i = threadIdx.x; i < 32 * steps; i += 128) {
        const double value = query < count && i < dimension ? (vector[i] * inverse - center[i]) * scale : 0;
        // What is not finite is not below.
        const bool fits = fabs(value) < 60000;
        const unsigned short half = fits ? half_of(value) : 0;
        halves[size_t(query) * steps * 32 + i] = half;
        square += value * value;
        error += (value - double_of(half)) * (value - double_of(half));
        unfit = fits ? unfit : 1;
    }
    square = warp_sum(square);
    error = warp_sum(error);
    unfit = warp_sum(unfit);
    if (threadIdx.x % 32 == 0) {
        sums[0][threadIdx.x / 32] = square;
        sums[1][threadIdx.x / 32] = error;
        sums[2][threadIdx.x / 32] = unfit;
    }
    __syncthreads();
    if (threadIdx.x != 0 || query >= count) {
        return;
    }
    counts[query] = 0;
    const auto total = [&](unsigned of) { return sums[of][0] + sums[of][1] + sums[of][2] + sums[of][3]; };
    square = total(0);
    error = sqrt(total(1)) * (1 + 1e-9);
    unfit = total(2);
    const double length = sqrt(square) * (1 + 1e-9), of_points = greatest[1], of_rounding = greatest[0];
    const double wide = (length + error) * (of_points + of_rounding) + of_points * of_points / 2;
    const double of_units = is_angular ? 0x1p-48 * scale : 0;
    const double slack = error * of_points + (length + error) * of_rounding + (dimension + 32) * 0x1p-22 * wide +
                         0x1p-23 * (of_points * of_points + length * of_points) +
                         0x1p-23 * (length + of_points) * (length + of_points) + of_units * (length + of_points + of_units) +
                         0x1p-130;
    Query state = {__int_as_float(0x7F800000), __double2float_ru(2 * slack * (1 + 1e-6)), 0, ANSWERED};
    if (radius >= 0) {
        double reach = radius * (1 + 1e-6) + 1e-8 * is_angular;
        if (is_angular) {
            reach = reach >= 3.14159265358979 ? 2.1 : 2 * sin(reach / 2) * (1 + 1e-9);
        }
        reach *= scale;
        state.threshold = __double2float_ru((reach * reach - square) / 2 + slack);
    }
    if (unfit > 0 || !(length < 1e18)) {
        state = {-__int_as_float(0x7F800000), 0, 0, UNFIT};
    }
    states[query] = state;
}

// Queries for `scan.cu`: their values are distances in f32, wrong by at most (d + 8) 2^-23 of the distance.
extern "C" __global__ void __launch_bounds__(128)
    prepare_scan(const float* queries, unsigned count, unsigned dimension, float radius, Query* states, unsigned* counts) {
    const unsigned query = blockIdx.x * 128 + threadIdx.x;
    if (query >= count) {
        return;
    }
    counts[query] = 0;
    bool fits = true;
    for (unsigned i = 0; i < dimension; i++) {
        // What is not a number is not below.
        fits = fits && fabsf(queries[size_t(query) * dimension + i]) < 1e30f;
    }
    const float slope = (dimension + 8) * 0x1p-22f;
    Query state = {__int_as_float(0x7F800000), 0x1p-120f, slope, ANSWERED};
    if (radius >= 0) {
        state.threshold = __fadd_ru(__fmul_ru(radius, 1 + slope), 0x1p-120f);
    }
    if (!fits) {
        state = {-__int_as_float(0x7F800000), 0, 0, UNFIT};
    }
    states[query] = state;
}
