"""The program of `distributed_training`, unchanged, on Ray, which places the tasks and restarts those that die.

    pip install 'aioexec[ray]'
    python -m examples.ray_training --ps 1 --workers 2 --directory DIRECTORY

runs it on this machine, or, with RAY_ADDRESS set, on that Ray cluster, whose nodes must have access to DIRECTORY and this
package.
"""

from __future__ import annotations

import argparse
import asyncio
import os

from aioexec.distributed.cluster.cluster_resolver import TFConfigClusterResolver
from aioexec.distributed.cluster.ray import RayCluster
from examples.distributed_training import accuracy, run_task


async def program(directory: str, steps: int, sync: bool) -> None:
    """What each task runs: TF_CONFIG says which task it is."""
    resolver = TFConfigClusterResolver()
    assert resolver.task_type is not None
    assert resolver.task_id is not None
    await run_task(resolver.task_type, resolver.task_id, directory, steps, sync)


async def train(ps: int, workers: int, directory: str, steps: int, sync: bool = False) -> float:
    """Train on Ray; the accuracy of what was trained."""
    async with RayCluster({"ps": ps, "worker": workers}) as cluster:
        await cluster.run(program, directory, steps, sync)
    return await accuracy(directory)


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on Ray.")
    parser.add_argument("--ps", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--sync", action="store_true", help="the workers' steps are of all of them together")
    given = parser.parse_args()
    directory = os.path.abspath(given.directory)  # tasks run elsewhere
    reached = asyncio.run(train(given.ps, given.workers, directory, given.steps, given.sync))
    print(f"accuracy {reached:.3f}")


if __name__ == "__main__":
    main()
