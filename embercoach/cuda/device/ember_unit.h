// The prefix of every rewritten kernel on an NVIDIA GPU: the Metal library, and the words that the
// rewriter puts in.
#pragma once

#include "ember_prelude.h"

namespace ember {
// Raw bytes, so that no constructor runs.
template <class T>
struct storage {
  alignas(T) unsigned char bytes[sizeof(T)];
};
template <class T>
EMBER_FN threadgroup T& placed(threadgroup storage<T>* where) {
  return *(threadgroup T*)where;
}

// Clang casts neither half to bfloat nor back; the rewriter puts the operand in here. Others pass.
EMBER_CFN float widened(_Float16 value) { return value; }
EMBER_CFN float widened(__bf16 value) { return value; }
template <class T>
EMBER_CFN T&& widened(T&& value) {
  return static_cast<T&&>(value);
}
template <class T>
EMBER_CFN T&& aligned(T&& value) {
  return static_cast<T&&>(value);
}
}  // namespace ember

#define EMBER_SPIN
#define EMBER_FILL(name)

// A threadgroup variable: one for all threads of the threadgroup.
#define EMBER_STORAGE(name, attributes, ...)                                         \
  threadgroup auto& name = ember::placed(__extension__({                             \
    attributes static threadgroup __attribute__((loader_uninitialized))              \
        ember::storage<__typeof__(__VA_ARGS__)> name;                                \
    &name;                                                                           \
  }));
