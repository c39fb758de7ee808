"""A multilayer perceptron, for many clients' parameters at once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.steps import Pull, kernels_for


def softmax_error(scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradient [S,B,c] and value [S] of the mean cross-entropy of scores [S,B,c] and labels [S,B]."""
    log_p = torch.log_softmax(scores, dim=2)
    index = labels.unsqueeze(2)
    loss = -log_p.gather(2, index).mean(dim=(1, 2))
    error = log_p.exp_()
    error.scatter_add_(2, index, error.new_full((), -1.0).expand(index.shape))
    error /= labels.shape[1]
    return error, loss


class MLP:
    """Dense layers with ReLU between; the vector [d] holds each layer's weights [out,in], then its bias."""

    def __init__(self, features: int, classes: int, hidden: tuple[int, ...]) -> None:
        self.widths = (features, *hidden, classes)
        sizes = [(inputs + 1) * outputs for inputs, outputs in pairwise(self.widths)]
        self.layers = {f"layer {i + 1}": size for i, size in enumerate(sizes)}
        self.parameters = sum(sizes)
        self._workspaces: dict[tuple[int, Any], tuple[Any, Any]] = {}

    def start(self, generator: np.random.Generator) -> Tensor:
        """Return a random model [d], uniform within ±1/√inputs in each layer."""
        parts = [
            generator.uniform(-(inputs**-0.5), inputs**-0.5, (inputs + 1) * outputs)
            for inputs, outputs in pairwise(self.widths)
        ]
        return torch.from_numpy(np.concatenate(parts).astype(np.float32))

    def gradient(
        self, x: Tensor, features: Tensor, labels: Tensor, prior: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return gradients [S,d] and losses [S] of models x [S,d], each on its own batch [S,B,f], [S,B].

        A prior [S,c] is added to their scores.
        """
        layers = self._layers(x)
        inputs = [features]  # of each layer [S,B,·]
        for weights, bias in layers[:-1]:
            inputs.append(torch.baddbmm(bias.unsqueeze(1), inputs[-1], weights.mT).relu_())
        weights, bias = layers[-1]
        scores = torch.baddbmm(bias.unsqueeze(1), inputs[-1], weights.mT)
        error, loss = softmax_error(scores if prior is None else scores + prior.unsqueeze(1), labels)
        gradient = torch.empty_like(x)
        to_layers = self._layers(gradient)
        for depth in range(len(layers) - 1, -1, -1):
            to_weights, to_bias = to_layers[depth]
            torch.bmm(error.mT, inputs[depth], out=to_weights)
            torch.sum(error, dim=1, out=to_bias)
            if depth:
                error = torch.bmm(error, layers[depth][0])
                error.mul_(inputs[depth] > 0)
        return gradient, loss

    def descend(
        self,
        x: Tensor,
        data: ClientData,
        batches: Tensor,
        eta: float,
        pull: Pull | None,
        prior: Tensor | None = None,
    ) -> tuple[Tensor, float] | None:
        """Take all steps of a visit by compiled loops; None if they cannot or a subclass overrides `gradient`."""
        pull = pull or Pull(x, 0.0)
        kernels = kernels_for(x, data.features, pull.anchor, *(() if prior is None else (prior,)))
        if kernels is None or type(self).gradient is not MLP.gradient:
            return None
        starts, samples = x.numpy(), (data.features.numpy(), data.labels.numpy())
        priors = np.empty((len(starts), 0), starts.dtype) if prior is None else prior.numpy()  # [S,0]: nothing is added
        size, number = batches.shape[2], starts.dtype.type
        anchors, eps = pull.anchor.view(-1, self.parameters).numpy(), kernels.widths(pull.eps, starts[0])
        pulled = anchors, number(pull.strength), eps, pull.first
        (model, buffers), scale = self._workspace(kernels, size, starts.dtype), number(-eta / size)
        trained, loss = kernels.train(starts, *model, *samples, batches.numpy(), scale, *pulled, priors, *buffers)
        return torch.from_numpy(trained), loss

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        """Return class scores [N,c] of one model x [d] on samples [N,f]."""
        if not x.requires_grad and (kernels := kernels_for(x, features)):
            layers = self._one(x.numpy())
            return torch.from_numpy(kernels.scores(layers, features.numpy(), np.arange(len(features))))
        *hidden, (weights, bias) = [(w[0], b[0]) for w, b in self._layers(x.unsqueeze(0))]
        for hidden_weights, hidden_bias in hidden:
            features = torch.addmm(hidden_bias, features, hidden_weights.T).relu_()
        return torch.addmm(bias, features, weights.T)

    def represent(self, x: Tensor, features: Tensor) -> Tensor:
        """Return the inputs [S,B,k] of the last layer of models x [S,d] on batches [S,B,f], for autograd."""
        for weights, bias in self._layers(x)[:-1]:
            features = torch.baddbmm(bias.unsqueeze(1), features, weights.mT).relu()
        return features

    def flops(self, samples: int) -> float:
        """Return the FLOPs of one gradient: forward, to the weights, and back to all inputs except the features."""
        products = [inputs * outputs for inputs, outputs in pairwise(self.widths)]
        return float(2 * samples * (3 * sum(products) - products[0]))

    def smoothness(self, data: ClientData) -> float | None:
        """Return None: L is not known for a network with hidden layers."""
        return None

    def _workspace(self, kernels: Any, size: int, dtype: Any) -> tuple[Any, Any]:
        """Return the memory of the compiled loops, reused per batch size: a model [d] with its layers, and buffers."""
        if (size, dtype) not in self._workspaces:
            model = np.empty(self.parameters, dtype)
            self._workspaces[size, dtype] = (model, self._one(model)), kernels.workspace(self.widths, size, dtype)
        return self._workspaces[size, dtype]

    def _one(self, x: Any) -> tuple[tuple[Any, Any], ...]:
        """Return weights [out,in] and bias [out] of each layer as views of one model x [d]."""
        return tuple((weights[0], bias[0]) for weights, bias in self._layers(x[None]))

    def _layers(self, x: Any) -> list[tuple[Any, Any]]:
        """Return weights [S,out,in] and biases [S,out] of each layer as views of x [S,d], a tensor or an array."""
        layers, at = [], 0
        for inputs, outputs in pairwise(self.widths):
            middle, end = at + inputs * outputs, at + (inputs + 1) * outputs
            layers.append((x[:, at:middle].reshape(len(x), outputs, inputs), x[:, middle:end]))
            at = end
        return layers
