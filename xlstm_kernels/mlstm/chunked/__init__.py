"""The chunked form of the mLSTM: its operation, both passes, and the kernels between products."""
