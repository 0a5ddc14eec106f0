// Metal's keywords, and how this library spells its own functions.
//
// In clang's SYCL device mode the default address space is a superset of the others. So a struct can
// be copied from and to every space and its methods called there, as in Metal, while pointers to
// different spaces stay incompatible. `thread` is the default space: locals live there.
#pragma once

#define device __attribute__((opencl_global_device))
// Read-only, as in Metal; and tables of constants stay out of the section that threadgroup arrays are in.
// On a GPU it may be anywhere: shapes are a kernel's parameters.
#if defined(__NVPTX__)
#define constant const __attribute__((opencl_generic))
#else
#define constant const __attribute__((opencl_global_host))
#endif
#define threadgroup __attribute__((opencl_local))
#define thread
#define kernel

// A call is reported at the user's line: inlined, and without its own lines.
#define EMBER_FN inline __attribute__((always_inline, nodebug))
#define EMBER_CFN constexpr EMBER_FN
#if !defined(__NVPTX__)
// Work on memory that is not the user's, hidden from the checks, and from the counts of a profile. It
// must not call the runtime, which takes the place of an operation from its return address.
#define EMBER_HIDDEN_FROM_COUNTS __attribute__((no_sanitize("coverage")))
#define EMBER_OWN                                                                           \
  __attribute__((noinline, nodebug, no_sanitize("thread"), no_sanitize("array-bounds"))) \
  EMBER_HIDDEN_FROM_COUNTS
#endif

#define METAL_FUNC inline __attribute__((__always_inline__))
#define METAL_CONST const
#define METAL_PURE __attribute__((pure))
#define METAL_ALIGN(n) __attribute__((aligned(n)))
#define METAL_NORETURN __attribute__((noreturn))
#define METAL_DEPRECATED(text) __attribute__((deprecated(text)))
#define METAL_INTERNAL_FUNC METAL_FUNC

#define __METAL__ 1
#define __METAL_VERSION__ 320
#define __METAL_MACOS__ 1
#define __HAVE_BFLOAT__ 1
#define __HAVE_SIMDGROUP_REDUCTION__ 1
#define __HAVE_SIMDGROUP_MATRIX__ 1
