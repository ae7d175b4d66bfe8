"""Running a plan: driver, executors, workers, rollout, shields; nothing here judges."""
