"""A training with DistributedDataParallel whose ranks can be moved to other nodes while it goes on.

Start from this for a script of your own: lines marked with -> are all that differs from plain PyTorch. It
runs under torchrun, or as docs/training.md says. Without an agent it trains all the same, unmoved.

    torchrun --standalone --nproc-per-node 3 examples/training/ddp.py --steps 200
"""

from __future__ import annotations

import argparse
import logging

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from monkeytree.agent.pytorch.ddp import Batches, Place, ShardSampler, Training  # ->

BATCH, ACCUMULATE = 32, 2


def spirals(count: int = 3_000) -> TensorDataset:
    """Points of three arms of a spiral: the arm is the label."""
    arm = torch.arange(count) % 3
    along = torch.rand(count)
    angle = 2.1 * arm + 4 * along + 0.15 * torch.randn(count)
    return TensorDataset(torch.stack([along * angle.cos(), along * angle.sin()], dim=1), arm)


def network() -> nn.Sequential:
    """Small, but with all that is easily forgotten: running statistics and random numbers."""
    return nn.Sequential(
        nn.Linear(2, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, 256), nn.ReLU(),
        nn.Linear(256, 3),
    )  # fmt: skip


def main() -> None:
    """Train to the end, in this process or, where the rank is moved, in another one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000, help="updates of the weights (2000)")
    steps: int = parser.parse_args().steps
    logging.basicConfig(level=logging.INFO, format="%(message)s")

    torch.manual_seed(1)  # the same data and weights everywhere
    place = Place.of_environment()  # -> instead of dist.init_process_group("gloo")
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    dataset = spirals()
    sampler = ShardSampler(dataset, num_replicas=place.world_size, rank=place.rank, seed=1)
    # -> Batches goes through the loader epoch by epoch, and knows where it stands.
    batches = Batches(DataLoader(dataset, BATCH, sampler=sampler, drop_last=True))

    training = Training(  # -> instead of DistributedDataParallel(model, bucket_cap_mb=1)
        model,
        optimizer,
        place,
        carry={"batches": batches, "scheduler": scheduler},  # -> what goes with the rank besides
        bucket_cap_mb=1,
    )
    ddp = training.ddp
    torch.manual_seed(100 + place.rank)  # dropout of its own on each rank; the state of the generator moves

    for iteration in training.iterations(steps):  # -> instead of range(steps)
        with iteration:  # -> one update of the weights; done once more where a move is taken back
            with ddp.no_sync():  # gradients add up here, and are averaged with the last backward pass
                for _ in range(ACCUMULATE - 1):
                    loss_of(ddp, next(batches)).backward()
            loss = loss_of(ddp, next(batches))
            loss.backward()
            mean = training.mean(loss)  # -> over all ranks; before optimizer.step()
            optimizer.step()
            scheduler.step()
        if iteration.done and training.step % 100 == 0 and place.rank == 0:
            logging.info("step %d: loss %.6f", training.step, mean * ACCUMULATE)

    # Where the rank lives elsewhere by now, this process has left in iterations() with exit code 0.
    logging.info("rank %d: step %d, state %s", place.rank, training.step, training.digest())
    training.close()  # -> instead of dist.destroy_process_group()


def loss_of(ddp: nn.Module, batch: list[Tensor]) -> Tensor:
    """Cross entropy, as a share of the accumulated batch."""
    points, labels = batch
    return functional.cross_entropy(ddp(points), labels) / ACCUMULATE


if __name__ == "__main__":
    main()
