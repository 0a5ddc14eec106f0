"""The scalar LSTM with exponential gates and a recurrence within each head."""
