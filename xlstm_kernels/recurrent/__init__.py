"""The LSTM, and the call of FlashRNN for it and the sLSTM."""
