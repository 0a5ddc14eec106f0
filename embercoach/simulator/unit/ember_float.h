// The functions of one float that the rest is built from, by their names in Metal.
#pragma once

#include "ember_limits.h"

namespace ember {
#define EMBER_BUILTIN(name) \
  EMBER_FN float name(float x) { return __builtin_##name##f(x); }
EMBER_BUILTIN(acos)
EMBER_BUILTIN(acosh)
EMBER_BUILTIN(asin)
EMBER_BUILTIN(asinh)
EMBER_BUILTIN(atan)
EMBER_BUILTIN(atanh)
EMBER_BUILTIN(cos)
EMBER_BUILTIN(cosh)
EMBER_BUILTIN(exp)
EMBER_BUILTIN(exp2)
EMBER_BUILTIN(log)
EMBER_BUILTIN(log2)
EMBER_BUILTIN(log10)
EMBER_BUILTIN(sin)
EMBER_BUILTIN(sinh)
EMBER_BUILTIN(sqrt)
EMBER_BUILTIN(tan)
EMBER_BUILTIN(tanh)
EMBER_BUILTIN(ceil)
EMBER_BUILTIN(floor)
EMBER_BUILTIN(rint)
EMBER_BUILTIN(round)
EMBER_BUILTIN(trunc)
#undef EMBER_BUILTIN
EMBER_CFN float fabs(float x) { return __builtin_fabsf(x); }
EMBER_FN float exp10(float x) { return float(__builtin_pow(10.0L, ember_double(x))); }
EMBER_FN float rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }

// sin(pi x) and cos(pi x): the turn is taken off before pi comes in, so that quarters are exact.
EMBER_OWN inline float turned(float x, long quarters, float far) {
  if (!(__builtin_fabsf(x) < 0x1p31f)) return __builtin_isfinite(x) ? far : __builtin_nanf("");
  ember_double nearest = __builtin_rint(ember_double(x) * 2.0L);
  ember_double rest = (ember_double(x) - nearest * 0.5L) * 3.14159265358979323846L;
  long quarter = (long(nearest) + quarters) & 3;
  ember_double value = quarter & 1 ? __builtin_cos(rest) : __builtin_sin(rest);
  return float(quarter & 2 ? -value : value);
}
EMBER_FN float sinpi(float x) { return turned(x, 0, 0.0f); }
EMBER_FN float cospi(float x) { return turned(x, 1, 1.0f); }

EMBER_FN float atan2(float y, float x) { return __builtin_atan2f(y, x); }
EMBER_CFN float copysign(float x, float y) { return __builtin_copysignf(x, y); }
EMBER_CFN float divide(float x, float y) { return x / y; }
EMBER_FN float fdim(float x, float y) { return __builtin_fdimf(x, y); }
EMBER_FN float fmax(float x, float y) { return __builtin_fmaxf(x, y); }
EMBER_FN float fmin(float x, float y) { return __builtin_fminf(x, y); }
EMBER_FN float fmod(float x, float y) { return __builtin_fmodf(x, y); }
EMBER_FN float pow(float x, float y) { return __builtin_powf(x, y); }
EMBER_FN float powr(float x, float y) {
  return x < 0.0f ? __builtin_nanf("") : __builtin_powf(x, y);
}
EMBER_FN float nextafter(float x, float y) { return __builtin_nextafterf(x, y); }
EMBER_FN int ilogb(float x) { return __builtin_ilogbf(x); }
EMBER_FN float ldexp(float x, int k) { return __builtin_ldexpf(x, k); }
EMBER_FN float frexp(float x, int* exponent) { return __builtin_frexpf(x, exponent); }
EMBER_FN float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
// metal::fast is as fast as the rest here.
namespace quick {
using namespace ember;
}
}  // namespace ember
