#pragma once
#include "state.h"

EMBER_HIDDEN bool reserve_stacks();
EMBER_HIDDEN int take_stack();
EMBER_HIDDEN void give_stack_back(int stack);
EMBER_HIDDEN void* stack_top(int stack);
EMBER_HIDDEN void soil_stack(u32 pattern);
