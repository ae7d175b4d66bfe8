"""How the built-in policy was trained: collecting scenes on LIBERO, training the network, writing its weights."""
