// Nothing: ember_prelude.h, which is in front of every kernel, has it.
