"""A pretended device: its tensors compute on the CPU but, like those of a GPU, do not mix with tensors elsewhere.

Inside `with Pretend() as device`, `tensor.to(PRETEND)` moves a tensor there and `.cpu()` back; `device.read` lists how
many numbers each move back copied.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_setup_privateuseone_for_python_backend("pretend")
PRETEND = torch.device("pretend:0")
aten = torch.ops.aten


class There(torch.Tensor):
    """A tensor on the pretended device; its data are in `values`."""

    @staticmethod
    def __new__(cls, values: torch.Tensor) -> There:
        return cls._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            device=PRETEND,
        )

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{operation} on the pretended device outside of `with Pretend()`")


class Pretend(TorchDispatchMode):
    """Dispatcher that runs operations on the CPU and refuses those that a GPU would refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[int] = []

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        there = any(isinstance(tensor, There) for tensor in tensors)
        moves = operation in (aten._to_copy.default, aten.copy_.default)
        if there and not moves and any(t.dim() and not isinstance(t, There) for t in tensors):
            raise RuntimeError(f"{operation} mixes devices")
        here_args, here_kwargs = tree_map(lambda leaf: leaf.values if isinstance(leaf, There) else leaf, (args, kwargs))
        ends_there = isinstance(tensors[0], There) if tensors else False
        if kwargs.get("device") is not None:
            ends_there, here_kwargs["device"] = kwargs["device"].type == PRETEND.type, torch.device("cpu")
        if there and (operation is aten._local_scalar_dense.default or not ends_there):
            self.read.append(max(tensor.numel() for tensor in tensors))
        result = operation(*here_args, **here_kwargs)
        if not ends_there:
            return result
        wrapped = tree_map(lambda leaf: There(leaf) if isinstance(leaf, torch.Tensor) else leaf, result)
        return return_and_correct_aliasing(operation, args, kwargs, wrapped)
