// The part of Metal's library that kernel bodies use, in CUDA C++. The text that
// `xlstm_kernels.executors.cuda` hands to MLX includes it, after MLX's own headers.

#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#define XLSTM_INLINE __device__ __forceinline__

namespace metal {

// --- vectors -----------------------------------------------------------------------------------

// swizzle<1, 0>() is what Metal writes v.yx, by value: an assignment to it does not compile.
#define XLSTM_VECTOR                                                                 \
    vec() = default;                                                                 \
    XLSTM_INLINE T& operator[](int i) { return (&x)[i]; }                            \
    XLSTM_INLINE const T& operator[](int i) const { return (&x)[i]; }                \
    template <int... I>                                                              \
    XLSTM_INLINE const vec<T, sizeof...(I)> swizzle() const { return {(&x)[I]...}; }

template <typename T, int N>
struct vec;

template <typename T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
    T x, y;
    XLSTM_VECTOR
    XLSTM_INLINE vec(T a) : x(a), y(a) {}
    XLSTM_INLINE vec(T a, T b) : x(a), y(b) {}
    template <typename U>
    XLSTM_INLINE explicit vec(const vec<U, 2>& v) : vec(T(v.x), T(v.y)) {}
};

template <typename T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
    T x, y, z;
    XLSTM_VECTOR
    XLSTM_INLINE vec(T a) : x(a), y(a), z(a) {}
    XLSTM_INLINE vec(T a, T b, T c) : x(a), y(b), z(c) {}
    XLSTM_INLINE vec(vec<T, 2> a, T b) : x(a.x), y(a.y), z(b) {}
    template <typename U>
    XLSTM_INLINE explicit vec(const vec<U, 3>& v) : vec(T(v.x), T(v.y), T(v.z)) {}
};

template <typename T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
    T x, y, z, w;
    XLSTM_VECTOR
    XLSTM_INLINE vec(T a) : x(a), y(a), z(a), w(a) {}
    XLSTM_INLINE vec(T a, T b, T c, T d) : x(a), y(b), z(c), w(d) {}
    XLSTM_INLINE vec(vec<T, 2> a, vec<T, 2> b) : x(a.x), y(a.y), z(b.x), w(b.y) {}
    XLSTM_INLINE vec(vec<T, 2> a, T b, T c) : x(a.x), y(a.y), z(b), w(c) {}
    XLSTM_INLINE vec(vec<T, 3> a, T b) : x(a.x), y(a.y), z(a.z), w(b) {}
    template <typename U>
    XLSTM_INLINE explicit vec(const vec<U, 4>& v) : vec(T(v.x), T(v.y), T(v.z), T(v.w)) {}
};

#define XLSTM_VECTORS(name, T)      \
    using name##2 = vec<T, 2>;      \
    using name##3 = vec<T, 3>;      \
    using name##4 = vec<T, 4>;
XLSTM_VECTORS(bool, bool)
XLSTM_VECTORS(char, int8_t)
XLSTM_VECTORS(uchar, uint8_t)
XLSTM_VECTORS(short, int16_t)
XLSTM_VECTORS(ushort, uint16_t)
XLSTM_VECTORS(int, int32_t)
XLSTM_VECTORS(uint, uint32_t)
XLSTM_VECTORS(long, int64_t)
XLSTM_VECTORS(ulong, uint64_t)
XLSTM_VECTORS(half, __half)
XLSTM_VECTORS(bfloat, __nv_bfloat16)
XLSTM_VECTORS(float, float)

// The scalar of an operation with a vector: converted, never deduced.
template <typename T>
struct same_type {
    using type = T;
};

#define XLSTM_OPERATOR(op, Result)                                                              \
    template <typename T, int N>                                                                \
    XLSTM_INLINE vec<Result, N> operator op(const vec<T, N>& a, const vec<T, N>& b) {           \
        vec<Result, N> result;                                                                  \
        _Pragma("unroll") for (int i = 0; i < N; ++i) {                                         \
            result[i] = static_cast<Result>(a[i] op b[i]);                                      \
        }                                                                                       \
        return result;                                                                          \
    }                                                                                           \
    template <typename T, int N>                                                                \
    XLSTM_INLINE vec<Result, N> operator op(const vec<T, N>& a, typename same_type<T>::type b) { \
        return a op vec<T, N>(b);                                                               \
    }                                                                                           \
    template <typename T, int N>                                                                \
    XLSTM_INLINE vec<Result, N> operator op(typename same_type<T>::type a, const vec<T, N>& b) { \
        return vec<T, N>(a) op b;                                                               \
    }
#define XLSTM_ARITHMETIC(op)                                                                    \
    XLSTM_OPERATOR(op, T)                                                                       \
    template <typename T, int N, typename Other>                                                \
    XLSTM_INLINE vec<T, N>& operator op##=(vec<T, N>& a, const Other& b) {                      \
        return a = a op b;                                                                      \
    }
XLSTM_ARITHMETIC(+)
XLSTM_ARITHMETIC(-)
XLSTM_ARITHMETIC(*)
XLSTM_ARITHMETIC(/)
XLSTM_ARITHMETIC(&)
XLSTM_ARITHMETIC(|)
XLSTM_ARITHMETIC(^)
XLSTM_ARITHMETIC(<<)
XLSTM_ARITHMETIC(>>)
XLSTM_OPERATOR(<, bool)
XLSTM_OPERATOR(<=, bool)
XLSTM_OPERATOR(>, bool)
XLSTM_OPERATOR(>=, bool)
XLSTM_OPERATOR(==, bool)
XLSTM_OPERATOR(!=, bool)

template <typename T, int N>
XLSTM_INLINE vec<T, N> operator-(const vec<T, N>& a) {
    return vec<T, N>(static_cast<T>(0)) - a;
}

template <typename To, typename From>
XLSTM_INLINE To as_type(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
    To to;
    memcpy(&to, &from, sizeof(To));
    return to;
}

// --- functions of numbers, and of vectors element by element -----------------------------------

#define XLSTM_EACH(parameters, expression)                                            \
    template <typename T, int N>                                                      \
    XLSTM_INLINE vec<T, N> parameters {                                               \
        vec<T, N> result;                                                             \
        _Pragma("unroll") for (int i = 0; i < N; ++i) { result[i] = expression; }     \
        return result;                                                                \
    }
#define XLSTM_FUNCTION(name, expression)                    \
    XLSTM_INLINE float name(float x) { return expression; } \
    XLSTM_EACH(name(const vec<T, N>& a), name(a[i]))
#define XLSTM_EXACT                       \
    XLSTM_FUNCTION(exp, ::expf(x))        \
    XLSTM_FUNCTION(exp2, ::exp2f(x))      \
    XLSTM_FUNCTION(log, ::logf(x))        \
    XLSTM_FUNCTION(log2, ::log2f(x))      \
    XLSTM_FUNCTION(sqrt, __fsqrt_rn(x))   \
    XLSTM_FUNCTION(rsqrt, __frsqrt_rn(x)) \
    XLSTM_FUNCTION(sin, ::sinf(x))        \
    XLSTM_FUNCTION(cos, ::cosf(x))        \
    XLSTM_FUNCTION(tanh, ::tanhf(x))

XLSTM_EXACT
namespace precise {
XLSTM_EXACT
}
namespace fast {
XLSTM_FUNCTION(exp, __expf(x))
XLSTM_FUNCTION(log, __logf(x))
XLSTM_FUNCTION(rsqrt, ::rsqrtf(x))
XLSTM_INLINE float divide(float a, float b) { return __fdividef(a, b); }
}  // namespace fast

XLSTM_FUNCTION(floor, ::floorf(x))
XLSTM_FUNCTION(ceil, ::ceilf(x))
XLSTM_FUNCTION(rint, ::rintf(x))
XLSTM_FUNCTION(round, ::roundf(x))
XLSTM_FUNCTION(trunc, ::truncf(x))
XLSTM_INLINE bool isfinite(float x) { return (__float_as_uint(x) & 0x7fffffffu) < 0x7f800000u; }
XLSTM_INLINE bool isinf(float x) { return (__float_as_uint(x) & 0x7fffffffu) == 0x7f800000u; }
XLSTM_INLINE bool isnan(float x) { return (__float_as_uint(x) & 0x7fffffffu) > 0x7f800000u; }
XLSTM_INLINE float copysign(float size, float sign) { return ::copysignf(size, sign); }
XLSTM_INLINE float fmod(float a, float b) { return ::fmodf(a, b); }
XLSTM_INLINE float pow(float a, float b) { return ::powf(a, b); }
XLSTM_INLINE float fma(float a, float b, float c) { return ::fmaf(a, b, c); }

template <typename T>
XLSTM_INLINE T min(T a, T b) { return b < a ? b : a; }
template <typename T>
XLSTM_INLINE T max(T a, T b) { return a < b ? b : a; }
template <typename T>
XLSTM_INLINE T abs(T x) { return x < static_cast<T>(0) ? -x : x; }
// Of a NaN and a number they give the number, as Metal's do.
XLSTM_INLINE float min(float a, float b) { return ::fminf(a, b); }
XLSTM_INLINE float max(float a, float b) { return ::fmaxf(a, b); }
XLSTM_INLINE float abs(float x) { return ::fabsf(x); }
template <typename T>
XLSTM_INLINE T clamp(T x, T low, T high) { return min(max(x, low), high); }
template <typename T>
XLSTM_INLINE T select(T a, T b, bool second) { return second ? b : a; }

XLSTM_EACH(abs(const vec<T, N>& a), abs(a[i]))
XLSTM_EACH(min(const vec<T, N>& a, const vec<T, N>& b), min(a[i], b[i]))
XLSTM_EACH(max(const vec<T, N>& a, const vec<T, N>& b), max(a[i], b[i]))
XLSTM_EACH(
    fma(const vec<T, N>& a, const vec<T, N>& b, const vec<T, N>& c), fma(a[i], b[i], c[i]))
XLSTM_EACH(
    select(const vec<T, N>& a, const vec<T, N>& b, const vec<bool, N>& second),
    second[i] ? b[i] : a[i])

template <typename T, int N>
XLSTM_INLINE T dot(const vec<T, N>& a, const vec<T, N>& b) {
    T sum = a[0] * b[0];
    _Pragma("unroll") for (int i = 1; i < N; ++i) { sum += a[i] * b[i]; }
    return sum;
}

// --- barriers, and functions of a simdgroup, which is a whole warp -----------------------------

enum class mem_flags { mem_none, mem_device, mem_threadgroup };
XLSTM_INLINE mem_flags operator|(mem_flags, mem_flags b) { return b; }
XLSTM_INLINE void threadgroup_barrier(mem_flags) { __syncthreads(); }
XLSTM_INLINE void simdgroup_barrier(mem_flags) { __syncwarp(); }

XLSTM_INLINE uint32_t lane_index() {
    uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// The value in another lane, which each lane names.
template <typename T>
XLSTM_INLINE T simd_shuffle(T value, uint32_t lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
XLSTM_INLINE bool simd_shuffle(bool value, uint32_t lane) {
    return __shfl_sync(0xffffffffu, static_cast<int>(value), lane) != 0;
}
template <typename T, int N>
XLSTM_INLINE vec<T, N> simd_shuffle(vec<T, N> value, uint32_t lane) {
    _Pragma("unroll") for (int i = 0; i < N; ++i) { value[i] = simd_shuffle(value[i], lane); }
    return value;
}
template <typename T>
XLSTM_INLINE T simd_broadcast(T value, uint32_t lane) { return simd_shuffle(value, lane); }
template <typename T>
XLSTM_INLINE T simd_broadcast_first(T value) { return simd_shuffle(value, 0); }
template <typename T>
XLSTM_INLINE T simd_shuffle_xor(T value, uint32_t mask) {
    return simd_shuffle(value, lane_index() ^ mask);
}
// Lanes without a source keep their value.
template <typename T>
XLSTM_INLINE T simd_shuffle_up(T value, uint32_t delta) {
    const uint32_t lane = lane_index();
    return simd_shuffle(value, lane < delta ? lane : lane - delta);
}
template <typename T>
XLSTM_INLINE T simd_shuffle_down(T value, uint32_t delta) {
    const uint32_t lane = lane_index();
    return simd_shuffle(value, lane + delta > 31 ? lane : lane + delta);
}
template <typename T>
XLSTM_INLINE T simd_shuffle_rotate_up(T value, uint32_t delta) {
    return simd_shuffle(value, (lane_index() - delta) & 31);
}
template <typename T>
XLSTM_INLINE T simd_shuffle_rotate_down(T value, uint32_t delta) {
    return simd_shuffle(value, (lane_index() + delta) & 31);
}

#define XLSTM_REDUCTION(name, expression)                                   \
    template <typename T>                                                   \
    XLSTM_INLINE T name(T a) {                                              \
        _Pragma("unroll") for (int distance = 16; distance > 0; distance /= 2) { \
            const T b = simd_shuffle_xor(a, distance);                      \
            a = expression;                                                 \
        }                                                                   \
        return a;                                                           \
    }
XLSTM_REDUCTION(simd_sum, a + b)
XLSTM_REDUCTION(simd_product, a* b)
XLSTM_REDUCTION(simd_max, max(a, b))
XLSTM_REDUCTION(simd_min, min(a, b))
XLSTM_INLINE bool simd_all(bool value) { return __all_sync(0xffffffffu, value); }
XLSTM_INLINE bool simd_any(bool value) { return __any_sync(0xffffffffu, value); }

class simd_vote {
 public:
    using vote_t = uint64_t;
    XLSTM_INLINE explicit simd_vote(vote_t bits) : bits_(bits) {}
    XLSTM_INLINE explicit operator vote_t() const { return bits_; }

 private:
    vote_t bits_;
};
XLSTM_INLINE simd_vote simd_ballot(bool value) {
    return simd_vote(__ballot_sync(0xffffffffu, value));
}

template <typename T>
XLSTM_INLINE T simd_prefix_inclusive_sum(T value) {
    const uint32_t lane = lane_index();
    _Pragma("unroll") for (uint32_t distance = 1; distance < 32; distance *= 2) {
        const T before = simd_shuffle_up(value, distance);
        value = lane < distance ? value : value + before;
    }
    return value;
}
template <typename T>
XLSTM_INLINE T simd_prefix_exclusive_sum(T value) {
    const T before = simd_shuffle_up(simd_prefix_inclusive_sum(value), 1);
    return lane_index() == 0 ? static_cast<T>(0) : before;
}

}  // namespace metal
