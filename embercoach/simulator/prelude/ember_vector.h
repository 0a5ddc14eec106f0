// metal::vec. A class, since clang's vectors know neither Metal's constructors nor its vectors of bool.
#pragma once

#include "ember_swizzle.h"
#include "ember_traits.h"

namespace metal {
template <class T, int N>
struct vec;
template <class T, int N>
struct packed_vec;
}  // namespace metal

namespace ember {
using metal::enable_if_t;
using metal::packed_vec;
using metal::vec;

// How many components a constructor's argument gives; 0: it is none.
template <class A>
inline constexpr int width = metal::is_arithmetic_v<A> || __is_enum(A) ? 1 : 0;
template <class T, int N>
inline constexpr int width<vec<T, N>> = N;
template <class T, int N>
inline constexpr int width<packed_vec<T, N>> = N;

// A scalar becomes a vector by itself unless it would lose its fraction.
template <class T, class S>
inline constexpr bool spreads =
    (metal::is_arithmetic_v<S> || (__is_enum(S) && __is_convertible(S, int))) &&
    (metal::is_floating_point_v<T> || !metal::is_floating_point_v<S>);

// clang converts between half and bfloat by way of float alone.
template <class T, class S>
EMBER_CFN T number(S value) {
  if constexpr (metal::is_floating_point_v<T> && metal::is_floating_point_v<S>) {
    return T(float(value));
  } else {
    return T(value);
  }
}

template <class T, class S>
EMBER_CFN void append(T* to, int& at, S value) {
  if constexpr (width<S> == 1) {
    to[at++] = number<T>(value);
  } else if constexpr (width<S> > 4) {
    for (int i = 0; i < width<S>; ++i) to[at++] = number<T>(value.ember_at[i]);
  } else {
    to[at++] = number<T>(value.x);
    to[at++] = number<T>(value.y);
    if constexpr (width<S> > 2) to[at++] = number<T>(value.z);
    if constexpr (width<S> > 3) to[at++] = number<T>(value.w);
  }
}

template <class T, int N>
struct flat {
  T at[N] = {};
  template <class... A>
  explicit EMBER_CFN flat(A... parts) {
    int i = 0;
    (append(at, i, parts), ...);
  }
  static EMBER_CFN flat of(T one) {
    flat all;
    for (T& each : all.at) each = one;
    return all;
  }
};

template <int N, class... A>
inline constexpr bool builds =
    sizeof...(A) > 1 && ((width<A> > 0) && ...) && (width<A> + ...) == N;
}  // namespace ember

#define EMBER_ONE2(v) v, v
#define EMBER_ONE3(v) v, v, v
#define EMBER_ONE4(v) v, v, v, v
#define EMBER_ONEN(v) ember::flat<T, N>::of(v)

// On a GPU by component: what the compiler reads or writes at once, a copy of bytes would not be.
#if defined(__NVPTX__)
#define EMBER_COPIED(...)                                   \
  EMBER_CFN vec(const vec& v) : vec(__VA_ARGS__) {}         \
  EMBER_CFN vec& operator=(const vec& v) {                  \
    put(__VA_ARGS__);                                       \
    return *this;                                           \
  }
#else
#define EMBER_COPIED(...)
#endif

#define EMBER_EACH_OPERATOR(M) M(+) M(-) M(*) M(/) M(%) M(&) M(|) M(^) M(<<) M(>>)
#define EMBER_ASSIGN(op) \
  EMBER_CFN vec& operator op##=(vec b) { return *this = *this op b; }

#define EMBER_VECTOR(N)                                                                       \
  EMBER_MEMBERS(N, EMBER_ONE##N)                                                              \
  EMBER_CFN T& operator[](int i) { return reinterpret_cast<T(&)[N]>(x)[i]; }                  \
  EMBER_CFN T operator[](int i) const {                                                       \
    if (__builtin_is_constant_evaluated()) return ember::flat<T, N>(*this).at[i];             \
    return reinterpret_cast<const T(&)[N]>(x)[i];                                             \
  }                                                                                           \
  EMBER_SWIZZLES_##N

#define EMBER_MEMBERS(N, one)                                                                 \
  using value_type = T;                                                                       \
  static constexpr int ember_size = N;                                                        \
  vec() = default;                                                                            \
  template <class S, ember::enable_if_t<ember::spreads<T, S>, int> = 0>                       \
  EMBER_CFN vec(S s) : vec(one(ember::number<T>(s))) {}                                       \
  template <class S,                                                                          \
            ember::enable_if_t<metal::is_floating_point_v<S> && !ember::spreads<T, S>, int> = 0> \
  explicit EMBER_CFN vec(S s) : vec(one(ember::number<T>(s))) {}                              \
  template <class U, ember::enable_if_t<!__is_same(U, T), int> = 0>                           \
  explicit EMBER_CFN vec(vec<U, N> v) : vec(ember::flat<T, N>(v)) {}                          \
  template <class U, ember::enable_if_t<!__is_same(U, T), int> = 0>                           \
  explicit EMBER_CFN vec(packed_vec<U, N> v) : vec(ember::flat<T, N>(v)) {}                   \
  template <class... A, ember::enable_if_t<ember::builds<N, A...>, int> = 0>                  \
  EMBER_CFN vec(A... parts) : vec(ember::flat<T, N>(parts...)) {}                             \
  EMBER_EACH_OPERATOR(EMBER_ASSIGN)                                                           \
  EMBER_CFN vec& operator++() { return *this += vec(T(1)); }                                  \
  EMBER_CFN vec& operator--() { return *this -= vec(T(1)); }                                  \
  EMBER_CFN vec operator++(int) {                                                             \
    vec old = *this;                                                                          \
    *this += vec(T(1));                                                                       \
    return old;                                                                               \
  }                                                                                           \
  EMBER_CFN vec operator--(int) {                                                             \
    vec old = *this;                                                                          \
    *this -= vec(T(1));                                                                       \
    return old;                                                                               \
  }

namespace metal {
// Of more than 4 components: Metal's have no names, and its functions take none of them.
template <class T, int N>
struct alignas((N > 8 ? 16 : 8) * sizeof(T)) vec {
  static_assert(N > 1 && N <= 16, "a vector has 2 to 16 components");
  T ember_at[N];
  EMBER_CFN vec(ember::flat<T, N> f) : ember_at{} {
    for (int i = 0; i < N; ++i) ember_at[i] = f.at[i];
  }
  EMBER_CFN vec(std::initializer_list<T> l) : ember_at{} {
    for (int i = 0; i < N && i < int(l.size()); ++i) ember_at[i] = l.begin()[i];
  }
  EMBER_MEMBERS(N, EMBER_ONEN)
  EMBER_CFN T& operator[](int i) { return ember_at[i]; }
  EMBER_CFN T operator[](int i) const { return ember_at[i]; }
};

template <class T>
struct alignas(2 * sizeof(T)) vec<T, 2> {
  T x, y;
  EMBER_CFN vec(T x_, T y_) : x(x_), y(y_) {}
  EMBER_CFN void put(T x_, T y_) { x = x_; y = y_; }
  EMBER_COPIED(v.x, v.y)
  EMBER_CFN vec(ember::flat<T, 2> f) : x(f.at[0]), y(f.at[1]) {}
  EMBER_CFN vec(std::initializer_list<T> l)
      : x(l.size() > 0 ? l.begin()[0] : T(0)), y(l.size() > 1 ? l.begin()[1] : T(0)) {}
  EMBER_VECTOR(2)
};

template <class T>
struct alignas(4 * sizeof(T)) vec<T, 3> {
  T x, y, z;
  EMBER_CFN vec(T x_, T y_, T z_) : x(x_), y(y_), z(z_) {}
  EMBER_CFN void put(T x_, T y_, T z_) { x = x_; y = y_; z = z_; }
  EMBER_COPIED(v.x, v.y, v.z)
  EMBER_CFN vec(ember::flat<T, 3> f) : x(f.at[0]), y(f.at[1]), z(f.at[2]) {}
  EMBER_CFN vec(std::initializer_list<T> l)
      : x(l.size() > 0 ? l.begin()[0] : T(0)),
        y(l.size() > 1 ? l.begin()[1] : T(0)),
        z(l.size() > 2 ? l.begin()[2] : T(0)) {}
  EMBER_VECTOR(3)
};

template <class T>
struct alignas(4 * sizeof(T)) vec<T, 4> {
  T x, y, z, w;
  EMBER_CFN vec(T x_, T y_, T z_, T w_) : x(x_), y(y_), z(z_), w(w_) {}
  EMBER_CFN void put(T x_, T y_, T z_, T w_) { x = x_; y = y_; z = z_; w = w_; }
  EMBER_COPIED(v.x, v.y, v.z, v.w)
  EMBER_CFN vec(ember::flat<T, 4> f) : x(f.at[0]), y(f.at[1]), z(f.at[2]), w(f.at[3]) {}
  EMBER_CFN vec(std::initializer_list<T> l)
      : x(l.size() > 0 ? l.begin()[0] : T(0)),
        y(l.size() > 1 ? l.begin()[1] : T(0)),
        z(l.size() > 2 ? l.begin()[2] : T(0)),
        w(l.size() > 3 ? l.begin()[3] : T(0)) {}
  EMBER_VECTOR(4)
};

#define EMBER_PACKED(N)                                                                  \
  EMBER_CFN operator vec<T, N>() const { return vec<T, N>(ember::flat<T, N>(*this)); }   \
  packed_vec() = default;                                                                \
  template <class S, ember::enable_if_t<ember::spreads<T, S>, int> = 0>                  \
  EMBER_CFN packed_vec(S s) : packed_vec(vec<T, N>(s)) {}                                \
  template <class U, ember::enable_if_t<!__is_same(U, T), int> = 0>                      \
  explicit EMBER_CFN packed_vec(vec<U, N> v) : packed_vec(vec<T, N>(v)) {}               \
  template <class U, ember::enable_if_t<!__is_same(U, T), int> = 0>                      \
  explicit EMBER_CFN packed_vec(packed_vec<U, N> v)                                      \
      : packed_vec(vec<T, N>(ember::flat<T, N>(v))) {}                                   \
  template <class... A, ember::enable_if_t<ember::builds<N, A...>, int> = 0>             \
  EMBER_CFN packed_vec(A... parts) : packed_vec(vec<T, N>(parts...)) {}                  \
  EMBER_CFN packed_vec(std::initializer_list<T> l) : packed_vec(vec<T, N>(l)) {}         \
  EMBER_CFN T& operator[](int i) { return reinterpret_cast<T(&)[N]>(x)[i]; }             \
  EMBER_CFN T operator[](int i) const { return reinterpret_cast<const T(&)[N]>(x)[i]; }  \
  EMBER_CFN packed_vec& operator+=(vec<T, N> b) { return *this = *this + b; }            \
  EMBER_CFN packed_vec& operator-=(vec<T, N> b) { return *this = *this - b; }            \
  EMBER_CFN packed_vec& operator*=(vec<T, N> b) { return *this = *this * b; }            \
  EMBER_CFN packed_vec& operator/=(vec<T, N> b) { return *this = *this / b; }            \
  EMBER_SWIZZLES_##N

// Without alignment; every operation gives the plain vector.
template <class T>
struct packed_vec<T, 2> {
  T x, y;
  EMBER_CFN packed_vec(vec<T, 2> v) : x(v.x), y(v.y) {}
  EMBER_PACKED(2)
};
template <class T>
struct packed_vec<T, 3> {
  T x, y, z;
  EMBER_CFN packed_vec(vec<T, 3> v) : x(v.x), y(v.y), z(v.z) {}
  EMBER_PACKED(3)
};
template <class T>
struct packed_vec<T, 4> {
  T x, y, z, w;
  EMBER_CFN packed_vec(vec<T, 4> v) : x(v.x), y(v.y), z(v.z), w(v.w) {}
  EMBER_PACKED(4)
};

#define EMBER_NAMES(T)                \
  using T##2 = vec<T, 2>;             \
  using T##3 = vec<T, 3>;             \
  using T##4 = vec<T, 4>;             \
  using packed_##T##2 = packed_vec<T, 2>; \
  using packed_##T##3 = packed_vec<T, 3>; \
  using packed_##T##4 = packed_vec<T, 4>;
EMBER_EACH_SCALAR(EMBER_NAMES)
#undef EMBER_NAMES

template <class T>
struct is_vector : false_type {};
template <class T, int N>
struct is_vector<vec<T, N>> : true_type {};
template <class T, int N>
struct is_vector<packed_vec<T, N>> : true_type {};
template <class T>
inline constexpr bool is_vector_v = is_vector<__remove_cv(T)>::value;
}  // namespace metal

namespace ember {
// The one vector type among the arguments of a function, where the others are scalars that spread:
// `clamp(v, 0.0f, 1.0f)`. Nothing where there is none, or two.
template <class A>
struct plain {
  using type = A;
};
template <class T, int N>
struct plain<packed_vec<T, N>> {
  using type = vec<T, N>;
};
template <class A>
using plain_t = typename plain<A>::type;

template <class V, class... A>
struct among {};
template <class V>
struct among<V> {
  using type = V;
};
template <class V, class A, class... R>
struct among<V, A, R...> : metal::conditional_t<(width<A> > 1), among<A, R...>, among<V, R...>> {};

template <class V, class A>
inline constexpr bool joins = __is_same(V, A);
template <class T, int N, class A>
inline constexpr bool joins<vec<T, N>, A> = __is_same(vec<T, N>, A) || spreads<T, A>;

template <bool Good, class V>
struct vector_if {};
template <class V>
struct vector_if<true, V> {
  using type = V;
};
template <class V, class... A>
struct checked_vector : vector_if<(width<V> > 1) && (joins<V, plain_t<A>> && ...), V> {};
template <class... A>
using vector_of_t =
    typename checked_vector<typename among<void, plain_t<A>...>::type, A...>::type;

template <class V>
struct mask {};
template <class T, int N>
struct mask<vec<T, N>> {
  using type = vec<bool, N>;
};
template <class V>
using mask_t = typename mask<V>::type;

template <class V>
inline constexpr bool floats = false;
template <class T, int N>
inline constexpr bool floats<vec<T, N>> = metal::is_floating_point_v<T>;
template <class... A>
using float_vector_of_t = enable_if_t<floats<vector_of_t<A...>>, vector_of_t<A...>>;
}  // namespace ember

// V of as many values as it has components, at most 4.
#define EMBER_OF_COMPONENTS(V, x, y, z, w)              \
  if constexpr (V::ember_size == 2) return V(x, y);     \
  if constexpr (V::ember_size == 3) return V(x, y, z);  \
  if constexpr (V::ember_size == 4) return V(x, y, z, w);

namespace metal {
// Operators of one vector type and of scalars that spread; packed vectors take part as plain ones.
#define EMBER_L(V, E, op)                                                                        \
  using T = typename V::value_type;                                                              \
  using R = vec<E, V::ember_size>;                                                               \
  V p(a), q(b);                                                                                  \
  EMBER_OF_COMPONENTS(R, E(p.x op q.x), E(p.y op q.y), E(p.z op q.z), E(p.w op q.w))             \
  if constexpr (V::ember_size > 4) {                                                             \
    ember::flat<E, V::ember_size> r;                                                             \
    for (int i = 0; i < V::ember_size; ++i) r.at[i] = E(p.ember_at[i] op q.ember_at[i]);         \
    return R(r);                                                                                 \
  }
#define EMBER_BINARY(op)                                                                         \
  template <class A, class B, class V = ember::vector_of_t<A, B>>                                \
  EMBER_CFN V operator op(A a, B b) {                                                            \
    EMBER_L(V, T, op)                                                                            \
  }
#define EMBER_COMPARE(op)                                                                        \
  template <class A, class B, class V = ember::vector_of_t<A, B>, class M = ember::mask_t<V>>    \
  EMBER_CFN M operator op(A a, B b) {                                                            \
    EMBER_L(V, bool, op)                                                                         \
  }
#define EMBER_UNARY(op)                                                                          \
  template <class A, class V = ember::vector_of_t<A>>                                            \
  EMBER_CFN V operator op(A a) {                                                                 \
    using T = typename V::value_type;                                                            \
    V p(a);                                                                                      \
    EMBER_OF_COMPONENTS(V, T(op p.x), T(op p.y), T(op p.z), T(op p.w))                           \
    if constexpr (V::ember_size > 4) {                                                           \
      for (int i = 0; i < V::ember_size; ++i) p.ember_at[i] = T(op p.ember_at[i]);               \
      return p;                                                                                  \
    }                                                                                            \
  }
EMBER_EACH_OPERATOR(EMBER_BINARY)
EMBER_COMPARE(==)
EMBER_COMPARE(!=)
EMBER_COMPARE(<)
EMBER_COMPARE(<=)
EMBER_COMPARE(>)
EMBER_COMPARE(>=)
EMBER_COMPARE(&&)
EMBER_COMPARE(||)
EMBER_UNARY(-)
EMBER_UNARY(+)
EMBER_UNARY(~)
#undef EMBER_UNARY
#undef EMBER_COMPARE
#undef EMBER_BINARY
#undef EMBER_L
template <class A, class V = ember::vector_of_t<A>, class M = ember::mask_t<V>>
EMBER_CFN M operator!(A a) {
  return V(a) == V(typename V::value_type(0));
}
}  // namespace metal

// V from a function of one to three vectors' components.
#define EMBER_MAP(V, ...)                                                                         \
  static_assert(V::ember_size <= 4, "functions take vectors of at most 4 components");            \
  EMBER_OF_COMPONENTS(V, __VA_ARGS__)
#define EMBER_MAP1(V, f, a) EMBER_MAP(V, f(a.x), f(a.y), f(a.z), f(a.w))
#define EMBER_MAP2(V, f, a, b) EMBER_MAP(V, f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w))
#define EMBER_MAP3(V, f, a, b, c) \
  EMBER_MAP(V, f(a.x, b.x, c.x), f(a.y, b.y, c.y), f(a.z, b.z, c.z), f(a.w, b.w, c.w))

// A function of vectors from that of scalars; `of` gives the vectors' type.
#define EMBER_LIFT1(name, of)        \
  template <class A>                 \
  EMBER_FN ember::of<A> name(A a) {  \
    using V = ember::of<A>;          \
    V p(a);                          \
    EMBER_MAP1(V, name, p)           \
  }
#define EMBER_LIFT2(name, of)                \
  template <class A, class B>                \
  EMBER_FN ember::of<A, B> name(A a, B b) {  \
    using V = ember::of<A, B>;               \
    V p(a), q(b);                            \
    EMBER_MAP2(V, name, p, q)                \
  }
#define EMBER_LIFT3(name, of)                        \
  template <class A, class B, class C>               \
  EMBER_FN ember::of<A, B, C> name(A a, B b, C c) {  \
    using V = ember::of<A, B, C>;                    \
    V p(a), q(b), r(c);                              \
    EMBER_MAP3(V, name, p, q, r)                     \
  }
