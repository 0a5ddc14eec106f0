// What every rewritten kernel is compiled behind: the Metal library, and the words that the
// rewriter puts in.
#pragma once

#include "ember_prelude.h"

#if defined(__APPLE__)
#define EMBER_SECTION "__DATA,msltg"
#else
#define EMBER_SECTION "msltg"
#endif

namespace ember {

// Raw bytes, so that no constructor runs in an address space that has none.
template <class T>
struct storage {
  alignas(T) unsigned char bytes[sizeof(T)];
};

}  // namespace ember

// A threadgroup variable: one for all threads of the threadgroup. `used` keeps the optimizer from
// assuming that it sees every access. The inner variable bears the same name, for messages.
#define EMBER_STORAGE(name, attributes, ...)                                      \
  threadgroup auto& name = *(threadgroup __typeof__(__VA_ARGS__)*)__extension__({ \
    attributes static \
        __attribute__((section(EMBER_SECTION), used))                             \
        ember::storage<__typeof__(__VA_ARGS__)>                                   \
            name;                                                                 \
    &name;                                                                        \
  });

// In SYCL's device mode, code that no such function reaches is left out.
#define EMBER_ENTRY [[clang::sycl_external]] __attribute__((visibility("default"), no_sanitize("thread")))
