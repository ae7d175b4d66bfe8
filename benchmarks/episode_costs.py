"""What an episode on LIBERO costs: reset, control step, frame, side by side with stock LIBERO in one run.

    python benchmarks/episode_costs.py [--tasks goal_stove object_bbq_sauce] [--repeats 5]

Ours and stock are measured in turn; the table gives medians and their ratio with its spread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from paired_ratio import HEADING, paired_ratio

from roep_gym import seeding
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.libero_simulation import SETTLE_ACTION
from roep_gym.envs.task_catalog import find_task, initial_states

SIZE = 128
CAMERAS = ["agentview", "robot0_eye_in_hand"]


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def measure(name: str, repeats: int) -> None:
    from libero.libero.envs import OffScreenRenderEnv

    task = find_task(None, name)
    states = initial_states(task)
    ours = LiberoEnv(name, cameras=CAMERAS, depth=True, image_size=SIZE)
    stock = OffScreenRenderEnv(
        bddl_file_name=str(task.bddl_file),
        camera_names=CAMERAS,
        camera_heights=SIZE,
        camera_widths=SIZE,
        camera_depths=True,
    )
    options = {"run_id": "bench", "seed_group": 0, "episode": 0, "init_state": 0, "scene_seed": 0}
    hold = np.array(SETTLE_ACTION)

    def steps_ours_seldom() -> None:
        for step in range(20):
            ours.request_frames(step % 8 == 7)
            ours.step(hold)
        ours.request_frames(True)

    def stock_current() -> None:
        # Stock frees and draws in whichever context is current.
        stock.env.sim._render_context_offscreen.gl_ctx.make_current()

    def place_ours() -> None:
        ours._simulation.reset(0, states[0])
        ours._simulation.refresh(frames=False)

    def place_stock() -> None:
        stock_current()
        with seeding.preserved_numpy_state():
            stock.seed(0)
            stock.reset()
        stock.set_init_state(states[0])

    def reset_stock() -> None:
        place_stock()
        for _ in range(10):
            stock.step(hold)

    def steps_ours(frames: bool) -> None:
        ours.request_frames(frames)
        for _ in range(20):
            ours.step(hold)
        ours.request_frames(True)

    def steps_stock() -> None:
        stock_current()
        for _ in range(20):
            stock.step(hold)

    works: dict[str, list[Callable[[], object]]] = {
        "seed, reset, settle, first frame": [lambda: ours.reset(options={"episode": options}), reset_stock],
        "seed, reset, set state": [place_ours, place_stock],
        "20 steps, every frame": [lambda: steps_ours(True), steps_stock],
        "20 steps, a frame in 8": [steps_ours_seldom, steps_stock],
        "20 steps, no frame": [lambda: steps_ours(False), steps_stock],
    }
    for pair in works.values():
        for once in pair:
            once()
    for label, pair in works.items():
        times = [[seconds(once) for once in pair] for _ in range(repeats)]
        own, theirs = zip(*times, strict=True)
        cells = [f"{1000 * median(own):.1f} ms", f"{1000 * median(theirs):.0f} ms", paired_ratio(theirs, own)]
        print(f"| {name} | {label} |", " | ".join(cells), "|", flush=True)
    ours.close()
    stock.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", nargs="+", default=["goal_stove", "object_bbq_sauce"])
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(f"Two RGB-D cameras, {SIZE} px; medians of {arguments.repeats}.\n")
    print(f"| task | work | roep-gym | stock LIBERO | {HEADING} |\n|---|---|---|---|---|")
    for name in arguments.tasks:
        measure(name, arguments.repeats)


if __name__ == "__main__":
    main()
