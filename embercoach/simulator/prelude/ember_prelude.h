// The Metal standard library, as far as compute kernels use it, for clang on a CPU; and what MLX puts
// in front of a custom kernel. See ember_spaces.h for how address spaces are kept.
//
// It is in front of every kernel, so the headers that a kernel may include besides, such as
// metal_math, are empty.
#pragma once

#include "ember_atomic.h"
#include "ember_geometric.h"
#include "ember_integer.h"
#include "ember_matrix.h"
#include "ember_simdgroup_matrix.h"
#include "ember_unsupported.h"

namespace simd {
using namespace metal;
}

using namespace metal;

#include "ember_mlx.h"

// The error names the problem: an unknown type of this name.
#define double double_is_not_supported_in_Metal
