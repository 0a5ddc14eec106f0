// In place of MLX's.
#pragma once

#include <metal_logging>

namespace mlx {
using os_log = metal::os_log;
}
