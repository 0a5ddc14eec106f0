#pragma once
#include "state.h"

// Set where a signal interrupts the scheduler itself.
extern EMBER_HIDDEN volatile u32 stop_requested;
