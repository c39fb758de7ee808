"""Any torch.nn.Module as a model: the CNN, and your own networks."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call
from torch.utils.flop_counter import FlopCounterMode

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import DataError
from fedmule.learning.steps import Pull, noise_seeds


class ModuleModel:
    """A module with its parameters as one vector [d]; gradients are computed by autograd, one client at a time.

    Dropout is reproducible per client: `seeds` holds a seed for each client's batch, which determines the masks.
    """

    def __init__(self, module: torch.nn.Module, shape: tuple[int, ...]) -> None:
        buffers = [name for name, _ in module.named_buffers()]
        if buffers:
            raise DataError(
                f"{type(module).__name__} keeps {buffers[0]} outside its parameters, as batch norm does: such buffers "
                "are neither exchanged nor trained per client; use layer or group norm instead"
            )
        self.module = module
        self._shape = shape
        self._names = [name for name, _ in module.named_parameters()]
        self._sizes = [p.shape for p in module.parameters()]
        self.shapes = {name: tuple(size) for name, size in zip(self._names, self._sizes, strict=True)}
        self._start = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
        self.parameters = len(self._start)
        self.layers: dict[str, int] = {}  # parameters of each submodule: weight and bias of a layer
        for name, size in zip(self._names, self._sizes, strict=True):
            part = name.rpartition(".")[0]
            self.layers[part] = self.layers.get(part, 0) + size.numel()
        self.random = any(isinstance(part, torch.nn.modules.dropout._DropoutNd) for part in module.modules())
        self._flops_per_sample = self._count_flops()
        self._format = self._find_format()

    def start(self, generator: np.random.Generator) -> Tensor:
        """Return the module's own initial parameters [d]."""
        return self._start.clone()

    def gradient(
        self,
        x: Tensor,
        features: Tensor,
        labels: Tensor,
        seeds: list[int] | None = None,
        prior: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return gradients [S,d] and losses [S] of models x [S,d], each on its own batch [S,B,f], [S,B].

        A prior [S,c] is added to their scores.
        """
        self.module.train()
        gradients, losses = [], []
        devices = [x.device.index or 0] if x.is_cuda else []
        for i in range(len(x)):
            parts = self._parts(x[i].detach().requires_grad_())
            with torch.random.fork_rng(devices=devices, enabled=seeds is not None):
                if seeds is not None:
                    torch.manual_seed(seeds[i])
                scores = self._scores(self._arranged(parts), features[i], self._format)
                scores = scores if prior is None else scores + prior[i]
                loss = torch.nn.functional.cross_entropy(scores, labels[i])
            found = torch.autograd.grad(loss, list(parts.values()))
            gradients.append(torch.cat([g.reshape(-1) for g in found]))
            losses.append(loss.detach())
        return torch.stack(gradients), torch.stack(losses)

    def scores(self, x: Tensor, features: Tensor) -> Tensor:
        """Return class scores [N,c] of one model x [d] on samples [N,f], without dropout."""
        self.module.eval()
        with torch.no_grad():
            parts = self._arranged(self._parts(x))
            return torch.cat([self._scores(parts, part, self._format) for part in torch.split(features, 128)])

    def descend(
        self,
        x: Tensor,
        data: ClientData,
        batches: Tensor,
        eta: float,
        pull: Pull | None,
        prior: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Take all steps of a visit in place on a copy of x [S,d], in the memory format that is fastest."""
        self.module.train()
        x, losses = x.clone(), x.new_zeros(())
        seeds = [noise_seeds(rows) for rows in batches] if self.random else None
        with torch.random.fork_rng(devices=[x.device.index or 0] if x.is_cuda else [], enabled=self.random):
            for i, model in enumerate(x):
                apply_pull = pull.on(model, i) if pull else lambda: None
                leaves = {name: part.detach().requires_grad_() for name, part in self._parts(model).items()}
                for step, rows in enumerate(batches[:, i]):
                    if seeds:
                        torch.manual_seed(seeds[step][i])
                    scores = self._scores(self._arranged(leaves), data.features[rows], self._format)
                    scores = scores if prior is None else scores + prior[i]
                    loss = torch.nn.functional.cross_entropy(scores, data.labels[rows])
                    found = torch.autograd.grad(loss, list(leaves.values()))
                    with torch.no_grad():
                        if pull and pull.first:
                            apply_pull()
                        for leaf, g in zip(leaves.values(), found, strict=True):
                            leaf.sub_(g, alpha=eta)
                        if pull and not pull.first:
                            apply_pull()
                        losses += loss
        return x, losses / (len(x) * len(batches))

    def flops(self, samples: int) -> float:
        """Return the floating-point operations of one gradient, as counted by torch."""
        return samples * self._flops_per_sample

    def smoothness(self, data: ClientData) -> float | None:
        """Return None: L is not known for a general module."""
        return None

    def _scores(
        self, parts: dict[str, Tensor], features: Tensor, arranged: torch.memory_format = torch.contiguous_format
    ) -> Tensor:
        inputs = features.view(-1, *self._shape).clone(memory_format=arranged)
        scores: Tensor = functional_call(self.module, parts, (inputs,))
        return scores

    def _arranged(self, parts: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the parts in the memory format that is fastest."""
        return {n: p.clone(memory_format=self._format) if p.dim() == 4 else p for n, p in parts.items()}

    def _parts(self, x: Tensor) -> dict[str, Tensor]:
        parts = torch.split(x, [size.numel() for size in self._sizes])
        return {n: part.view(size) for n, part, size in zip(self._names, parts, self._sizes, strict=True)}

    def _find_format(self) -> torch.memory_format:
        """Return channels-last for images, where convolutions are faster, unless the module cannot handle it."""
        self._format = torch.channels_last
        try:
            if len(self._shape) == 3:
                self.scores(self._start, torch.zeros(2, int(np.prod(self._shape))))
                return torch.channels_last
        except RuntimeError:  # such as a view of a tensor in another memory format
            pass
        return torch.contiguous_format

    def _count_flops(self) -> float:
        features = torch.zeros(2, int(np.prod(self._shape)))
        with torch.enable_grad(), FlopCounterMode(display=False) as counter, torch.random.fork_rng(devices=[]):
            parts = self._parts(self._start.clone().requires_grad_())
            torch.autograd.grad(self._scores(parts, features).sum(), list(parts.values()))
        return float(counter.get_total_flops()) / 2


def cnn(features: int, classes: int, shape: tuple[int, ...]) -> torch.nn.Module:
    """Build the CNN: 5×5 convolutions of 32 and 64 channels, each halved by pooling, 512 units, dropout 25 and 50 %."""
    if len(shape) != 3:
        raise DataError("needs images; these data have plain features")
    channels, height, width = shape
    rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
    if min(rows, columns) < 1:
        raise DataError(f"images of {height} × {width} are too small; it needs 16 × 16")
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, 32, 5),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(32, 64, 5),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Dropout(0.25),
        torch.nn.Flatten(),
        torch.nn.Linear(64 * rows * columns, 512),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(512, classes),
    )
