"""Compare the results of this checkout with those of another one, which shares the installed packages.

Judges the replay of the paper's counts and the published runs, evaluates a Tabletop and a LIBERO plan, and steps the
wrappers under fixed actions, in both checkouts; then compares claims, episode records, step records and hashes. Times
and what one of the two does not record are left out, and the latter is named.

    git worktree add /path/to/before REVISION
    python benchmarks/same_results.py /path/to/before
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import xarray as xr

HERE = Path(__file__).parents[1]
PUBLISHED = ("visuomotor", "blind", "shifted", "shifted_expert")
# The bootstrap conditions and what their shields do depend on how scenes are keyed, which versions may differ in.
CONDITIONS = "[baseline, baseline_clone, perturb, perturb_clone, mild, mild_clone, strong, strong_clone]"
PLANS = {
    "tabletop": f"""
name: same_tabletop
models:
  - {{name: scripted, policy: "evaluation_policies:Scripted", arguments: {{failure_rate: 0.4}}}}
  - {{name: sighted, policy: "tabletop_policy:SightedPolicy"}}
tasks: [tabletop/carry]
conditions: {CONDITIONS}
seed_groups: 5
episodes: 4
step_budget: 60
""",
    "libero": f"""
name: same_libero
models:
  - {{name: visuomotor, policy: visuomotor, arguments: {{chunk: 8}}}}
tasks: [goal_cream_cheese, object_salad_dressing]
conditions: {CONDITIONS}
seed_groups: 1
episodes: 2
step_budget: 280
""",
}
WRAPPERS = """
import hashlib
import gymnasium as gym
import numpy as np
import roep_gym
from roep_gym.wrappers import PerturbObservation, StepBudget
digest = hashlib.blake2b(digest_size=16)
for profile in ("clean", "mild", "medium", "strong"):
    env = gym.make("roep_gym/Tabletop-v0", depth=True)
    env = gym.make(StepBudget(PerturbObservation(env, profile=profile), max_steps=40).spec)
    for seed in range(5):
        observation, info = env.reset(seed=seed)
        draw = np.random.default_rng(seed)
        over = False
        while not over:
            for key in sorted(observation):
                digest.update(np.ascontiguousarray(observation[key]).tobytes())
            action = draw.uniform(-1, 1, 7).astype(np.float32)
            observation, reward, terminated, truncated, info = env.step(action)
            digest.update(np.float64(reward).tobytes())
            over = terminated or truncated
print(digest.hexdigest())
"""


def run(checkout: Path, *command: str) -> str:
    """Run Python in a checkout and return what it printed."""
    path = os.pathsep.join(str(checkout / folder) for folder in ("", "tests", "examples"))
    done = subprocess.run(
        [sys.executable, *command],
        cwd=checkout, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed in {checkout}:\n{done.stdout}{done.stderr}")
    return done.stdout


def claims(checkout: Path, folder: Path) -> list[dict[str, str]]:
    """Return the rows of the claims of a run, by column."""
    text = run(checkout, "-m", "roep_gym", "gate", str(folder), "--format", "csv")
    return list(csv.DictReader(text.splitlines()))


def compare_claims(name: str, before: list[dict[str, str]], after: list[dict[str, str]]) -> int:
    """Print how many cells differ in the columns that both have; return their number."""
    shared = [column for column in before[0] if column in after[0]]
    differing = [
        (row["model"], row["task"], column, row[column], other[column])
        for row, other in zip(before, after, strict=True)
        for column in shared
        if row[column] != other[column]
    ]
    extra = sorted(set(after[0]) ^ set(before[0]))
    print(f"{name}: {len(after)} rows, {len(differing)} of {len(shared) * len(after)} cells differ", *extra)
    for line in differing[:20]:
        print("   ", *line)
    return len(differing)


def compare_records(name: str, before: Path, after: Path) -> int:
    """Print the variables of two runs' files that differ; return their number."""
    count = 0
    files = sorted(path.relative_to(before) for path in before.rglob("*.nc"))
    missing = [file for file in files if not (after / file).exists()]
    only: set[str] = set()
    for file in (file for file in files if file not in missing):
        with xr.open_dataset(before / file) as one, xr.open_dataset(after / file) as two:
            only |= {str(v) for v in set(one.variables) ^ set(two.variables)}
            for variable in sorted(set(one.variables) & set(two.variables), key=str):
                if one[variable].attrs.get("timing"):
                    continue
                first, second = one[variable].values, two[variable].values
                if first.shape != second.shape or not np.array_equal(
                    first, second, equal_nan=first.dtype.kind == "f"
                ):
                    print(f"    {name}/{file}: {variable} differs")
                    count += 1
    print(
        f"{name}: {len(files)} files, {count} variables differ, {len(missing)} files missing; in one only:",
        *sorted(only),
    )
    return count + len(missing)


def main() -> None:
    """Compare and exit with 1 where something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument(
        "--keep", type=Path, help="folder of the other checkout's results, made where it is missing"
    )
    parser.add_argument("--plans", nargs="*", default=list(PLANS), choices=list(PLANS))
    arguments = parser.parse_args()
    other = arguments.before.resolve()
    work = Path(tempfile.mkdtemp())
    keep = (arguments.keep or work / "before").resolve()
    differing = 0
    replay = HERE / "tests" / "data" / "replay"
    for name, folder in [("replay", replay), *((n, HERE / "docs" / "results" / n) for n in PUBLISHED)]:
        differing += compare_claims(name, claims(other, folder), claims(HERE, folder))
    first, second = run(other, "-c", WRAPPERS), run(HERE, "-c", WRAPPERS)
    print(f"wrappers: {'equal' if first == second else 'DIFFER'} ({second.strip()})")
    differing += first != second
    for name in arguments.plans:
        plan = work / f"{name}.yaml"
        plan.write_text(PLANS[name])
        for checkout, out in ((other, keep / name), (HERE, work / "after" / name)):
            if not (out / "episodes.nc").exists():
                run(checkout, "-m", "roep_gym", "evaluate", str(plan), "--out", str(out), "--workers", "2")
        differing += compare_records(name, keep / name, work / "after" / name)
        differing += compare_claims(name, claims(other, keep / name), claims(HERE, work / "after" / name))
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
