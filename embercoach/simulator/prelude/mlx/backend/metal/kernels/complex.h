// In place of MLX's: complex_t with its interface. MLX writes every method once per address space, which
// the default space covers here.
#pragma once

#include "ember_complex.h"
