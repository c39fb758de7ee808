"""Memory of the clients' state and data, and whether it fits on the device."""

from __future__ import annotations

import torch

from fedmule.learning.data.client_data import ClientData
from fedmule.learning.errors import MemoryShortError
from fedmule.learning.free_memory import free_host_bytes, readable

BYTES_PER_NUMBER = 4  # float32


def estimate(clients: int, parameters: int, state_copies: int, data_bytes: int) -> int:
    """Estimate the bytes of `state_copies` tensors [n,d] and the data; everything else is small."""
    return BYTES_PER_NUMBER * clients * parameters * state_copies + data_bytes


def size_of(data: ClientData) -> int:
    """Return the bytes of the samples, their labels and the clients' priors."""
    tensors = [data.features, data.labels] + ([] if data.prior is None else [data.prior.log, data.prior.owner])
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def free_bytes(device: torch.device) -> int | None:
    """Return the free bytes of the device; None if unknown."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return free_host_bytes()


def require_memory(needed: int, device: torch.device) -> None:
    """Raise a MemoryShortError with advice unless this many more bytes fit on the device."""
    free = free_bytes(device)
    if free is not None and needed > free:
        elsewhere = ', or learning.device = "cpu"' if device.type != "cpu" else ""
        raise MemoryShortError(
            f"the clients' models and data need about {readable(needed)}, but {device} has {readable(free)} free: use "
            f"fewer clients (clients.count), a smaller model, fewer samples (learning.max_train_samples){elsewhere}"
        )
