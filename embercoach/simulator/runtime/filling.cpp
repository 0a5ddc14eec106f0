// What a local variable that was declared without a value holds.
#include "state.h"

extern "C" EMBER_EXPORT unsigned char ember_fill(void) { return (unsigned char)launch->pattern; }
