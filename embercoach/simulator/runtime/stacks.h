#pragma once
#include "state.h"

EMBER_HIDDEN bool reserve_stacks();
EMBER_HIDDEN int take_stack();
EMBER_HIDDEN void give_stack_back(int stack);
EMBER_HIDDEN void* stack_top(int stack);
constexpr u64 CLEARANCE = 512, SOILED = 4096;
EMBER_HIDDEN void soil_stack(u32 pattern, u64 bytes);
EMBER_HIDDEN u64 used_stack(u32 pattern, u64 bytes);
