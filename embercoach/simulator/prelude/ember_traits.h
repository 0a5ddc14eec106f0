// metal_type_traits and metal_utility. Not is_empty and void_t, which Metal lacks: MLX's steel headers
// define them in namespace metal.
#pragma once

#include "ember_scalars.h"

namespace metal {
template <class T, T Value>
struct integral_constant {
  static constexpr T value = Value;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return Value; }
  constexpr T operator()() const { return Value; }
};
template <bool Value>
using bool_constant = integral_constant<bool, Value>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool Condition, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool Condition, class T = void>
using enable_if_t = typename enable_if<Condition, T>::type;

template <bool Condition, class T, class F>
struct conditional {
  using type = T;
};
template <class T, class F>
struct conditional<false, T, F> {
  using type = F;
};
template <bool Condition, class T, class F>
using conditional_t = typename conditional<Condition, T, F>::type;

#define EMBER_TRANSFORM(name, made)        \
  template <class T>                       \
  struct name {                            \
    using type = made;                     \
  };                                       \
  template <class T>                       \
  using name##_t = typename name<T>::type;
EMBER_TRANSFORM(type_identity, T)
EMBER_TRANSFORM(remove_const, __remove_const(T))
EMBER_TRANSFORM(remove_volatile, __remove_volatile(T))
EMBER_TRANSFORM(remove_cv, __remove_cv(T))
EMBER_TRANSFORM(remove_reference, __remove_reference_t(T))
EMBER_TRANSFORM(remove_cvref, __remove_cvref(T))
EMBER_TRANSFORM(remove_pointer, __remove_pointer(T))
EMBER_TRANSFORM(remove_extent, __remove_extent(T))
EMBER_TRANSFORM(remove_all_extents, __remove_all_extents(T))
EMBER_TRANSFORM(add_pointer, __add_pointer(T))
EMBER_TRANSFORM(add_lvalue_reference, __add_lvalue_reference(T))
EMBER_TRANSFORM(add_rvalue_reference, __add_rvalue_reference(T))
EMBER_TRANSFORM(make_signed, __make_signed(T))
EMBER_TRANSFORM(make_unsigned, __make_unsigned(T))
EMBER_TRANSFORM(underlying_type, __underlying_type(T))
EMBER_TRANSFORM(add_const, const T)
EMBER_TRANSFORM(add_volatile, volatile T)
EMBER_TRANSFORM(add_cv, const volatile T)

template <class T>
struct remove_addrspace {
  using type = T;
};
#define EMBER_SPACE(space)                       \
  template <class T>                             \
  struct remove_addrspace<space T> {             \
    using type = T;                              \
  };                                             \
  template <class T>                             \
  struct remove_addrspace<const space T> {       \
    using type = const T;                        \
  };
EMBER_SPACE(device)
EMBER_SPACE(threadgroup)
#undef EMBER_SPACE
template <class T>
struct remove_addrspace<constant T> {
  using type = const T;
};
template <class T>
using remove_addrspace_t = typename remove_addrspace<T>::type;
EMBER_TRANSFORM(remove_addrspace_and_cv, __remove_cv(remove_addrspace_t<__remove_cv(T)>))
EMBER_TRANSFORM(decay, remove_addrspace_and_cv_t<__decay(T)>)
#undef EMBER_TRANSFORM

template <class T>
__add_rvalue_reference(T) declval();

#define EMBER_TRAIT(name, condition)                        \
  template <class T>                                        \
  struct name : bool_constant<condition> {};                \
  template <class T>                                        \
  inline constexpr bool name##_v = name<T>::value;
#define EMBER_TRAIT2(name, condition)                       \
  template <class T, class U>                               \
  struct name : bool_constant<condition> {};                \
  template <class T, class U>                               \
  inline constexpr bool name##_v = name<T, U>::value;
EMBER_TRAIT2(is_same, __is_same(T, U))
EMBER_TRAIT2(is_base_of, __is_base_of(T, U))
EMBER_TRAIT2(is_convertible, __is_convertible(T, U))
EMBER_TRAIT2(is_assignable, __is_assignable(T, U))
EMBER_TRAIT(is_integral, __is_integral(T))
EMBER_TRAIT(is_floating_point,
            (__is_same(__remove_cv(T), float) || __is_same(__remove_cv(T), half) ||
             __is_same(__remove_cv(T), bfloat)))
EMBER_TRAIT(is_arithmetic, (__is_integral(T) || is_floating_point_v<T>))
EMBER_TRAIT(is_void, __is_void(T))
EMBER_TRAIT(is_array, __is_array(T))
EMBER_TRAIT(is_pointer, __is_pointer(T))
EMBER_TRAIT(is_reference, __is_reference(T))
EMBER_TRAIT(is_lvalue_reference, __is_lvalue_reference(T))
EMBER_TRAIT(is_rvalue_reference, __is_rvalue_reference(T))
EMBER_TRAIT(is_enum, __is_enum(T))
EMBER_TRAIT(is_class, __is_class(T))
EMBER_TRAIT(is_union, __is_union(T))
EMBER_TRAIT(is_function, __is_function(T))
EMBER_TRAIT(is_null_pointer, __is_same(__remove_cv(T), decltype(nullptr)))
EMBER_TRAIT(is_const, __is_const(T))
EMBER_TRAIT(is_volatile, __is_volatile(T))
EMBER_TRAIT(is_final, __is_final(T))
EMBER_TRAIT(is_pod, __is_pod(T))
EMBER_TRAIT(is_trivial, __is_trivial(T))
EMBER_TRAIT(is_standard_layout, __is_standard_layout(T))
EMBER_TRAIT(is_trivially_copyable, __is_trivially_copyable(T))
EMBER_TRAIT(is_destructible, __is_destructible(T))
EMBER_TRAIT(is_default_constructible, __is_constructible(T))
EMBER_TRAIT(is_copy_constructible, __is_constructible(T, const T&))
EMBER_TRAIT(is_move_constructible, __is_constructible(T, T&&))
EMBER_TRAIT(is_copy_assignable, __is_assignable(T&, const T&))
EMBER_TRAIT(is_move_assignable, __is_assignable(T&, T&&))
EMBER_TRAIT(is_fundamental, (is_arithmetic_v<T> || __is_void(T)))
EMBER_TRAIT(is_compound, (!is_arithmetic_v<T> && !__is_void(T)))
EMBER_TRAIT(is_object, __is_object(T))
EMBER_TRAIT(is_scalar, (is_arithmetic_v<T> || __is_enum(T) || __is_pointer(T)))
EMBER_TRAIT(is_signed, (is_floating_point_v<T> || __is_signed(T)))
EMBER_TRAIT(is_unsigned, __is_unsigned(T))
template <class T, class... A>
struct is_constructible : bool_constant<__is_constructible(T, A...)> {};
template <class T, class... A>
inline constexpr bool is_constructible_v = __is_constructible(T, A...);
template <class T>
struct rank : integral_constant<size_t, __array_rank(T)> {};
template <class T, unsigned I = 0>
struct extent : integral_constant<size_t, __array_extent(T, I)> {};
template <class T>
struct alignment_of : integral_constant<size_t, alignof(T)> {};

template <class...>
struct conjunction : true_type {};
template <class T, class... R>
struct conjunction<T, R...> : conditional_t<bool(T::value), conjunction<R...>, T> {};
template <class...>
struct disjunction : false_type {};
template <class T, class... R>
struct disjunction<T, R...> : conditional_t<bool(T::value), T, disjunction<R...>> {};
template <class T>
struct negation : bool_constant<!bool(T::value)> {};
// Apple's internal name, which MLX's atomic.h uses.
template <class... T>
using _disjunction = disjunction<T...>;
template <class... T>
inline constexpr bool conjunction_v = conjunction<T...>::value;
template <class... T>
inline constexpr bool disjunction_v = disjunction<T...>::value;
template <class T>
inline constexpr bool negation_v = !bool(T::value);

template <class... T>
struct common_type;
template <class T>
struct common_type<T> {
  using type = decay_t<T>;
};
template <class T, class U>
struct common_type<T, U> {
  using type = decay_t<decltype(true ? declval<T>() : declval<U>())>;
};
template <class T, class U, class... R>
struct common_type<T, U, R...> : common_type<typename common_type<T, U>::type, R...> {};
template <class... T>
using common_type_t = typename common_type<T...>::type;

template <class F, class... A>
struct invoke_result {
  using type = decltype(declval<F>()(declval<A>()...));
};
template <class F, class... A>
using invoke_result_t = typename invoke_result<F, A...>::type;

template <class T, T... I>
struct integer_sequence {
  using value_type = T;
  static constexpr size_t size() { return sizeof...(I); }
};
template <size_t... I>
using index_sequence = integer_sequence<size_t, I...>;
template <class T, T N>
using make_integer_sequence = __make_integer_seq<integer_sequence, T, N>;
template <size_t N>
using make_index_sequence = make_integer_sequence<size_t, N>;
template <class... T>
using index_sequence_for = make_index_sequence<sizeof...(T)>;

template <class T>
EMBER_CFN __remove_reference_t(T) && move(T&& value) {
  return static_cast<__remove_reference_t(T)&&>(value);
}
template <class T>
EMBER_CFN T&& forward(__remove_reference_t(T) & value) {
  return static_cast<T&&>(value);
}
template <class T>
EMBER_FN void swap(T& a, T& b) {
  T kept = a;
  a = b;
  b = kept;
}
// A value that is the same in all threads.
template <class T>
struct uniform {
  T ember_value;
  uniform() = default;
  EMBER_CFN uniform(T value) : ember_value(value) {}
  EMBER_CFN operator T() const { return ember_value; }
};
template <class T>
EMBER_CFN uniform<T> make_uniform(T value) {
  return uniform<T>(value);
}
template <class T>
EMBER_CFN T* addressof(T& value) {
  return __builtin_addressof(value);
}

}  // namespace metal
