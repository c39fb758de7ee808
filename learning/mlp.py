"""A multilayer perceptron with two hidden layers, for many clients' parameters at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from learning.data import ClientData
from learning.mlr import softmax_error


class MLP:
    """Dense layers with ReLU between; parameters are one vector [d]: each layer's weights row by row, then its bias."""

    def __init__(self, features: int, classes: int, hidden: tuple[int, ...] = (100, 100)) -> None:
        self.widths = (features, *hidden, classes)
        sizes = [(inputs + 1) * outputs for inputs, outputs in pairwise(self.widths)]
        self.layers = {f"layer {i + 1}": size for i, size in enumerate(sizes)}
        self.parameters = sum(sizes)

    def start(self, generator: np.random.Generator) -> Tensor:
        """A random model [d]: uniform within ±1/√inputs, layer by layer."""
        parts = [
            generator.uniform(-(inputs**-0.5), inputs**-0.5, (inputs + 1) * outputs)
            for inputs, outputs in pairwise(self.widths)
        ]
        return torch.from_numpy(np.concatenate(parts).astype(np.float32))

    def gradient(self, x: Tensor, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients [S,d] and losses [S] of S models x [S,d], each on its own batch [S,B,f], [S,B]."""
        layers = self._layers(x)
        inputs = [features]  # of each layer [S,B,·]
        for weights, bias in layers[:-1]:
            inputs.append(torch.baddbmm(bias.unsqueeze(1), inputs[-1], weights).relu_())
        weights, bias = layers[-1]
        error, loss = softmax_error(torch.baddbmm(bias.unsqueeze(1), inputs[-1], weights), labels)
        gradient = torch.empty_like(x)
        to_layers = self._layers(gradient)
        for depth in range(len(layers) - 1, -1, -1):
            to_weights, to_bias = to_layers[depth]
            torch.bmm(inputs[depth].transpose(1, 2), error, out=to_weights)
            torch.sum(error, dim=1, out=to_bias)
            if depth:
                error = torch.bmm(error, layers[depth][0].transpose(1, 2))
                error.mul_(inputs[depth] > 0)
        return gradient, loss

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        """Class scores [N,c] of one model x [d] on samples [N,f]."""
        *hidden, (weights, bias) = [(w[0], b[0]) for w, b in self._layers(x.unsqueeze(0))]
        for hidden_weights, hidden_bias in hidden:
            features = torch.addmm(hidden_bias, features, hidden_weights).relu_()
        return torch.addmm(bias, features, weights)

    def flops(self, samples: int) -> float:
        """Floating-point operations of one gradient: forward, to the weights, and back to all inputs but the first."""
        products = [inputs * outputs for inputs, outputs in pairwise(self.widths)]
        return float(2 * samples * (3 * sum(products) - products[0]))

    def smoothness(self, data: ClientData) -> float | None:
        return None  # not known for a network with hidden layers

    def _layers(self, x: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Weights [S,in,out] and biases [S,out] of each layer, as views of x [S,d]."""
        layers, at = [], 0
        for inputs, outputs in pairwise(self.widths):
            middle, end = at + inputs * outputs, at + (inputs + 1) * outputs
            layers.append((x[:, at:middle].view(len(x), inputs, outputs), x[:, middle:end]))
            at = end
        return layers
