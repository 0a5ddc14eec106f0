// What MLX puts in front of every custom kernel: the installed wheel's utils.h, or our own version of
// what it offers, where the wheel is not on the include path or EMBER_OWN_UTILS is defined.
#pragma once

#if !defined(EMBER_OWN_UTILS) && __has_include("mlx/backend/metal/kernels/utils.h")
// Two functions there have array parameters with an address space, which Metal takes and clang does
// not: they are declared with pointers.
#define elem_to_loc_2(index, strides_) elem_to_loc_2(uint2 elem, constant const int64_t* strides)
#define elem_to_loc_3(index, strides_) elem_to_loc_3(uint3 elem, constant const int64_t* strides)
#include "mlx/backend/metal/kernels/utils.h"
#undef elem_to_loc_2
#undef elem_to_loc_3
#else
#include "ember_mlx_utils.h"
#endif
