"""Network parts for learning from few steps."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["NormalizedReLU"]


class NormalizedReLU(nn.Module):
    """Layer normalisation without weights, then ReLU; for `policy_kwargs={"activation_fn": NormalizedReLU}`.

    It keeps a critic from extrapolating to actions that it has not seen, which off-policy learning beside
    demonstrations needs (Ball et al. 2023, "Efficient online reinforcement learning with offline data", section 4.2).
    """

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Normalise over the last dimension and cut off what is negative."""
        return torch.relu(nn.functional.layer_norm(inputs, inputs.shape[-1:]))
