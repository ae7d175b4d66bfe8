"""The reference tables of the documentation and its longer example, made of the code that they show.

In a page a table stands between `<!-- table: NAME -->` and `<!-- end of table -->`. `python tests/reference_tables.py`
writes all tables anew; `test_reference_tables.py` holds the pages against the code.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from api_names import FACADES, first_line, public_names
from result_tables import RESULT_TABLES

from roep_gym.contracts import RuntimeContract
from roep_gym.envs.env_description import EnvDescription
from roep_gym.envs.libero_env import LiberoEnv
from roep_gym.envs.libero_observations import PROPRIO, PROPRIO_FIELDS
from roep_gym.envs.libero_safety import SafetyLimits
from roep_gym.envs.tabletop_env import TabletopEnv
from roep_gym.episode import EpisodeIdentity
from roep_gym.evaluate.gate_config import GateConfig
from roep_gym.evaluate.judging.checks import CHECKS
from roep_gym.evaluate.judging.gate import judge
from roep_gym.evaluate.plan import EnvironmentSettings, EvaluationPlan, ModelSpec, PlannedEpisode
from roep_gym.evaluate.schema import CONDITIONS, EPISODE_VARIABLES, ROW_VARIABLES, empty_dataset
from roep_gym.evaluate.store import flat_tables
from roep_gym.evaluate.store.dataset import build_steps
from roep_gym.policies.base import ObservationRequest, PolicyEpisode
from roep_gym.policies.conversions import ACTION_STEPS, FRAME_STEPS
from roep_gym.policies.expert import ExpertPolicy
from roep_gym.policies.openpi.policy import OpenPIPolicy
from roep_gym.policies.presets.preset import ModelPreset, find_preset, preset_names
from roep_gym.policies.random import RandomPolicy
from roep_gym.policies.remote.act import ActPolicy
from roep_gym.policies.remote.roboeval import RoboEvalPolicy
from roep_gym.policies.remote.vla_eval import EnvironmentDemands, VLAEvalPolicy
from roep_gym.policies.sb3 import SB3Policy
from roep_gym.policies.visuomotor import network
from roep_gym.policies.visuomotor.policy import WEIGHTS, BlindPolicy, VisuomotorPolicy
from roep_gym.shields.config import ProjectionConfig, ShieldConfig
from roep_gym.training.config import TrainingConfig
from roep_gym.training.environment import EnvironmentConfig
from roep_gym.wrappers import PerturbObservation, RecordEpisode, ShieldAction, StepBudget
from roep_gym.wrappers.operators.base import modalities_of
from roep_gym.wrappers.operators.registry import OPERATORS, find_operator
from roep_gym.wrappers.profiles import PROFILES

ROOT = Path(__file__).parents[1]
_SEE_BELOW = "see below"
_MARKED = re.compile(
    r"(?P<begin>^<!-- table: (?P<name>.+?) -->\n)(?P<table>.*?)(?P<end>^<!-- end of table -->$)",
    re.DOTALL | re.MULTILINE,
)


def rewritten(text: str) -> str:
    """Return a page with its tables made anew.

    Raises:
        KeyError: The page asks for a table that does not exist.
    """
    return _MARKED.sub(lambda found: found["begin"] + TABLES[found["name"]]() + found["end"], text)


def names_in(text: str) -> list[str]:
    """Return the names of the tables that a page asks for."""
    return re.findall(r"^<!-- table: (.+?) -->$", text, re.MULTILINE)


def pages() -> list[Path]:
    """Return the pages that may hold tables."""
    return sorted((ROOT / "docs").glob("*.md"))


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *[[cell.replace("|", r"\|") for cell in row] for row in rows]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _code(value: Any) -> str:
    return f"`{value}`" if value != "" else ""


def _value(value: Any) -> str:
    """Return a default as people write it; `""` for the empty text."""
    if isinstance(value, tuple | list | dict):
        return _code(json.dumps(value).replace('"', ""))
    return _code(value) or '`""`'


def _described(source: Any, section: str) -> dict[str, str]:
    """Return the text of each name in a section ("Args" or "Attributes") of a docstring, in one line each."""
    documented = (source, source.__init__) if inspect.isclass(source) and section == "Args" else (source,)
    for part in documented:
        found = re.search(rf"^{section}:\n((?:    .*\n|\n)+)", f"{inspect.getdoc(part)}\n", re.MULTILINE)
        if found:
            entries = re.split(r"^    (?=\w+: )", found[1], flags=re.MULTILINE)[1:]
            pairs = (entry.split(": ", 1) for entry in entries)
            return {name: " ".join(text.split()).removesuffix(".") for name, text in pairs}
    raise ValueError(f"{source} documents no {section}")


def _default(entry: Field[Any]) -> str:
    if entry.default is not MISSING:
        return _SEE_BELOW if hasattr(entry.default, "__dataclass_fields__") else _value(entry.default)
    if entry.default_factory is MISSING:
        return "required"
    made = entry.default_factory()
    return _SEE_BELOW if hasattr(made, "__dataclass_fields__") else _value(made)


def _dataclass(source: Any) -> Callable[[], str]:
    def table() -> str:
        texts = _described(source, "Attributes")
        rows = [[_code(f.name), _default(f), texts[f.name]] for f in fields(source)]
        return _markdown(["field", "default", "meaning"], rows)

    return table


def _arguments(source: Any) -> Callable[[], str]:
    def table() -> str:
        texts = _described(source, "Args")
        rows = []
        for name, parameter in inspect.signature(source.__init__).parameters.items():
            if name in ("self", "env"):
                continue
            default = "required" if parameter.default is parameter.empty else _value(parameter.default)
            rows.append([_code(name), default, texts[name]])
        return _markdown(["argument", "default", "meaning"], rows)

    return table


def _gate_settings() -> str:
    """`GateConfig` documents each field in the string after it."""
    (declared,) = ast.parse(textwrap.dedent(inspect.getsource(GateConfig))).body
    assert isinstance(declared, ast.ClassDef)
    texts = {}
    for field, text in zip(declared.body, declared.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            assert isinstance(text.value, ast.Constant)
            texts[field.target.id] = str(text.value.value).removesuffix(".")
    rows = [[_code(f.name), _default(f), texts[f.name]] for f in fields(GateConfig)]
    return _markdown(["setting", "default", "meaning"], rows)


def _variables(specs: Mapping[str, Any]) -> str:
    rows = [
        [_code(name), spec.dtype, spec.units, "" if spec.dtype == "str" else str(spec.fill), spec.long_name]
        for name, spec in specs.items()
    ]
    return _markdown(["variable", "type", "units", "not run", "meaning"], rows)


def _conditions() -> str:
    rows = [
        [_code(c.name), _code(c.profile), "yes" if c.shielded else "no", _code(c.clone_of), c.role]
        for c in CONDITIONS.values()
        if c.role != "clone"
    ]
    return _markdown(["condition", "profile", "shield", "clone of", "role"], rows)


def _operators() -> str:
    rows = []
    for name in OPERATORS.names():
        operator = find_operator(name)
        acts_on = " and ".join(modalities_of(operator)) or operator.target
        text = " ".join((inspect.getdoc(type(operator)) or "").split("\n\n")[0].split())
        rows.append([_code(name), acts_on, _code(operator.severity), f"{operator.max_severity:g}", text])
    return _markdown(["operator", "acts on", "severity", "up to", "what it does"], rows)


def _profiles() -> str:
    rows = [[_code(name), *(str(s.severity) for s in profile.settings)] for name, profile in PROFILES.items()]
    return _markdown(["profile", "`rgb_occlusion` alpha", "`depth_dropout` probability"], rows)


def _steps() -> str:
    """The variables of a step file, from the record of a real episode."""
    env = PerturbObservation(gym.make("roep_gym/Tabletop-v0", depth=True))
    env = RecordEpisode(StepBudget(env, max_steps=1))
    env.reset(seed=0)
    info = env.step(np.zeros(7, dtype=np.float32))[-1]
    data = build_steps([(PlannedEpisode(0, "perturb", 0, 0), info["episode_record"])])
    rows = [
        [_code(name), ", ".join(map(str, v.dims)), str(v.dtype), v.attrs["units"], v.attrs["long_name"]]
        for name, v in data.data_vars.items()
    ]
    return _markdown(["variable", "dimensions", "type", "units", "meaning"], rows)


def _columns(columns: Mapping[str, flat_tables.CsvColumn]) -> Callable[[], str]:
    def table() -> str:
        rows = []
        for name, column in columns.items():
            if column.known:
                further = {name for name, c in CONDITIONS.items() if c.role == "clone"}
                named = [_code(value) for value in column.known if value and value not in further]
                values = "one of " + ", ".join(named)
                values += ", or a further clone" if further & set(column.known) else ""
            elif column.kind in ("integer", "number"):
                values = f">= {column.low:g}" if column.low > -np.inf else "any"
                if column.high <= 1:
                    values = f"{column.low:g} to {column.high:g}"
            else:
                values = "any"
            empty = column.optional or column.kind in ("number", "text")
            rows.append([_code(name), column.kind, values, "yes" if empty else "no"])
        return _markdown(["column", "kind", "values", "may be empty"], rows)

    return table


def _checks() -> str:
    """The ten checks with the default thresholds, from judging a plan in which nothing ran."""
    keys = ("row_index", "condition_index", "seed_group", "episode_index", "init_state", "env_seed")
    data = empty_dataset(
        rows={"model": ["m"], "suite": ["s"], "task": ["t"]},
        conditions=["baseline"],
        planned={key: [0] for key in keys},
        run_ids=[["r"]],
        attrs={"records": "native"},
    )
    thresholds = judge(data).verdicts["threshold"].values[0]
    rows = [
        [str(k), _code(check.name), check.rule.format(threshold), _code(check.label)]
        for k, (check, threshold) in enumerate(zip(CHECKS, thresholds, strict=True), start=1)
    ]
    return _markdown(["#", "check", "rule", "trace label when not satisfied"], rows)


def _proprio() -> str:
    units = ("rad", "rad/s", "m", "quaternion", "m", "m/s")
    rows, first = [], 0
    for (name, size), unit in zip(PROPRIO, units, strict=True):
        entries = PROPRIO_FIELDS[first : first + size]
        shown = entries if size <= 4 else (entries[0], "...", entries[-1])
        places = f"{first} to {first + size - 1}"
        rows.append(
            [places, ", ".join(_code(e) if e != "..." else e for e in shown), f"`robot0_{name}`", unit]
        )
        first += size
    return _markdown(["index", "entries", "robosuite's observable", "units"], rows)


def _conversions(steps: Mapping[str, Any]) -> Callable[[], str]:
    """Return each named conversion with the first sentence of its function."""

    def table() -> str:
        texts = {name: inspect.getdoc(getattr(step, "func", step)) or "" for name, step in steps.items()}
        rows = [[_code(n), t.split("\n")[0].split(". ")[0].removesuffix(".")] for n, t in texts.items()]
        return _markdown(["step", "what it does"], rows)

    return table


def _presets() -> str:
    shown = ("rotation", "resize", "control_mode", "chunk_length", "executed_steps", "mujoco", "robosuite")
    rows = []
    for name in preset_names():
        preset = find_preset(name)
        values = [getattr(preset.contract, field) for field in shown]
        texts = [", ".join(v) if isinstance(v, list) else "" if v is None else str(v) for v in values]
        rows.append([_code(name), _code(preset.policy), *texts])
    return _markdown(["preset", "client", *(_code(f) for f in shown)], rows)


def _model_card() -> str:
    """What the weights that ship say about themselves."""
    rows = []
    for file in sorted(WEIGHTS.glob("*.safetensors")):
        card = network.load(file).card
        for instruction, task in card["tasks"].items():
            errors = task["localisation_error_cm"]
            cells = [f"{e['median']:.2f}, {e['p90']:.2f}" for e in (errors["object"], errors["receptacle"])]
            rows.append([card["suite"], instruction, str(task["frames"]), *cells])
    return _markdown(
        ["suite", "instruction", "frames collected", "object: median, p90", "receptacle: median, p90"], rows
    )


def _networks() -> str:
    rows = []
    for file in sorted(WEIGHTS.glob("*.safetensors")):
        card = network.load(file).card
        counts = [f"{card[name]:,}" for name in ("parameters", "training_frames")]
        rows.append(
            [card["suite"], *counts, str(card["training"]["epochs"]), f"{card['training_seconds']} s"]
        )
    return _markdown(["suite", "parameters", "training frames", "epochs", "training time"], rows)


def _names(package: str) -> Callable[[], str]:
    """The public names of a package."""

    def table() -> str:
        rows = [[_code(name), first_line(package, name)] for name in public_names(package)]
        return _markdown(["name", "what it is"], rows)

    return table


def _example_policy() -> str:
    return f"```python\n{(ROOT / 'examples' / 'tabletop_policy.py').read_text(encoding='utf-8')}```\n"


TABLES: Mapping[str, Callable[[], str]] = {
    "conditions": _conditions,
    "contract fields": _dataclass(RuntimeContract),
    "environment settings": _dataclass(EnvironmentSettings),
    "episode identity": _dataclass(EpisodeIdentity),
    "episode variables": lambda: _variables(EPISODE_VARIABLES),
    "episodes.csv": _columns(flat_tables._EPISODE_COLUMNS),
    "episodes.csv, further columns": _columns(flat_tables._FURTHER_EPISODE_COLUMNS),
    "environment description": _dataclass(EnvDescription),
    "example policy": _example_policy,
    "blind arguments": _arguments(BlindPolicy),
    "expert arguments": _arguments(ExpertPolicy),
    "visuomotor arguments": _arguments(VisuomotorPolicy),
    "gate checks": _checks,
    "gate settings": _gate_settings,
    "libero arguments": _arguments(LiberoEnv),
    "model card": _model_card,
    "networks": _networks,
    "manifest.csv": _columns(flat_tables._MANIFEST_COLUMNS),
    "model": _dataclass(ModelSpec),
    "observation request": _dataclass(ObservationRequest),
    "act arguments": _arguments(ActPolicy),
    "openpi arguments": _arguments(OpenPIPolicy),
    "roboeval arguments": _arguments(RoboEvalPolicy),
    "vla-eval arguments": _arguments(VLAEvalPolicy),
    "vla-eval demands": _dataclass(EnvironmentDemands),
    "frame steps": _conversions(FRAME_STEPS),
    "action steps": _conversions(ACTION_STEPS),
    "presets": _presets,
    "preset fields": _dataclass(ModelPreset),
    "operators": _operators,
    "perturb arguments": _arguments(PerturbObservation),
    "plan": _dataclass(EvaluationPlan),
    "policy episode": _dataclass(PolicyEpisode),
    "profiles": _profiles,
    "projection settings": _dataclass(ProjectionConfig),
    "proprio": _proprio,
    "random arguments": _arguments(RandomPolicy),
    "row variables": lambda: _variables(ROW_VARIABLES),
    "rows.csv": _columns(flat_tables._ROW_COLUMNS),
    "rows.csv, further columns": _columns(flat_tables._FURTHER_ROW_COLUMNS),
    "safety limits": _dataclass(SafetyLimits),
    **{f"names of {package}": _names(package) for package in FACADES},
    "training config": _dataclass(TrainingConfig),
    "training environment": _dataclass(EnvironmentConfig),
    "sb3 arguments": _arguments(SB3Policy),
    "shield arguments": _arguments(ShieldAction),
    "shield settings": _dataclass(ShieldConfig),
    "step variables": _steps,
    "tabletop arguments": _arguments(TabletopEnv),
    **RESULT_TABLES,
}
"""The tables by name."""


if __name__ == "__main__":
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (anew := rewritten(text)) != text:
            page.write_text(anew, encoding="utf-8")
            print(f"rewrote {page.relative_to(ROOT)}")
