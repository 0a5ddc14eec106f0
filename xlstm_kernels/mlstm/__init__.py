"""The matrix LSTM: one form of it a module, all of which compute the same."""
