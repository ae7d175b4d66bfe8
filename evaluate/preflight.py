"""What can be found out before the first rollout: policies and environments that cannot be built."""

from __future__ import annotations

from roep_gym.evaluate.environment_stack import environment_arguments, make_environment
from roep_gym.evaluate.plan import ResolvedPlan
from roep_gym.policies.registry import make_policy

__all__ = ["check_runnable"]


def check_runnable(plan: ResolvedPlan) -> None:
    """Build every policy and every row's environment once; no simulator is started and no server is asked.

    Raises:
        RoepError: A policy or an environment cannot be built with the plan's names and values.
    """
    for model in plan.plan.models:
        policy = make_policy(model.policy, **model.arguments)
        try:
            for row in plan.rows:
                if row.model is model:
                    make_environment(environment_arguments(row, plan.plan.environment, policy)).close()
        finally:
            policy.close()
