// Parts of Metal that the simulator does not have: to use one is an error that names it.
#pragma once

#include "ember_traits.h"

#define EMBER_UNSUPPORTED(name, what)                                                     \
  template <class... T>                                                                   \
  struct name {                                                                           \
    static_assert(sizeof...(T) == ~size_t(0), what " is not supported by the simulator"); \
  };

namespace metal {
enum class access { sample, read, write, read_write };
namespace ember_textures {
template <class T, access A>
struct texture {
  static_assert(sizeof(T) == 0,
                "textures are not supported by the simulator (nor by mx.fast.metal_kernel)");
};
}  // namespace ember_textures
#define EMBER_TEXTURE(name)                         \
  template <class T, access A = access::sample>     \
  using name = ember_textures::texture<T, A>;
EMBER_TEXTURE(texture1d)
EMBER_TEXTURE(texture1d_array)
EMBER_TEXTURE(texture2d)
EMBER_TEXTURE(texture2d_array)
EMBER_TEXTURE(texture2d_ms)
EMBER_TEXTURE(texture3d)
EMBER_TEXTURE(texturecube)
EMBER_TEXTURE(texturecube_array)
EMBER_TEXTURE(texture_buffer)
EMBER_TEXTURE(depth2d)
EMBER_TEXTURE(depth2d_array)
EMBER_TEXTURE(depthcube)
#undef EMBER_TEXTURE

struct sampler {
  template <class... A>
  constexpr sampler(A...) {
    static_assert(sizeof...(A) == ~size_t(0), "metal::sampler is not supported by the simulator");
  }
};

EMBER_UNSUPPORTED(imageblock, "metal::imageblock")
EMBER_UNSUPPORTED(visible_function_table, "metal::visible_function_table")
EMBER_UNSUPPORTED(tensor, "metal::tensor (Metal 4)")
EMBER_UNSUPPORTED(cooperative_tensor, "metal::cooperative_tensor (Metal 4)")
namespace raytracing {
EMBER_UNSUPPORTED(intersector, "metal::raytracing::intersector")
EMBER_UNSUPPORTED(intersection_query, "metal::raytracing::intersection_query")
EMBER_UNSUPPORTED(intersection_function_table, "metal::raytracing::intersection_function_table")
EMBER_UNSUPPORTED(acceleration_structure, "metal::raytracing::acceleration_structure")
}  // namespace raytracing
}  // namespace metal
#undef EMBER_UNSUPPORTED
