"""Real policy servers of other tools with a tiny policy; run as a script, the module is the server: KIND PORT."""

from __future__ import annotations

import base64
import io
import sys
from typing import Any

import numpy as np

CHUNK = 4
PARAMS = {"send_wrist_image": True, "send_state": True, "quat_no_antipodal": True, "env_seed": 0}


def chunk_of(frame: np.ndarray, state: Any, instruction: str) -> np.ndarray:
    """Return a chunk that shows what arrived: means of frame and state, and the length of the instruction."""
    chunk = np.tile(
        [frame.mean() / 255.0, np.mean(state), len(instruction) / 100.0, 0, 0, 0, -0.5], (CHUNK, 1)
    )
    chunk[:, 3] = np.arange(CHUNK) / 10.0
    return chunk


def serve_vla_eval(port: int, chunk_size: int | None) -> None:
    from vla_eval.model_servers.predict import PredictModelServer
    from vla_eval.model_servers.serve import serve

    class Tiny(PredictModelServer):
        def get_observation_params(self) -> dict[str, Any]:
            return PARAMS

        def predict(self, obs: Any, ctx: Any) -> dict[str, Any]:
            frame = np.asarray(obs["images"]["agentview"])
            return {"actions": chunk_of(frame, obs["states"], obs["task_description"])}

    serve(Tiny(chunk_size=chunk_size), "127.0.0.1", port)


def serve_roboeval(port: int) -> None:
    import uvicorn
    from PIL import Image
    from sims.vla_policies.base import VLAPolicyBase, make_app

    class Tiny(VLAPolicyBase):
        def load_model(self, model_id: str, device: str, **named: Any) -> None:
            self.model_id, self.ready = model_id, True

        def predict(self, obs: Any) -> list[list[float]]:
            if obs.instruction == "fail":
                raise ValueError("had enough")
            frame = np.array(Image.open(io.BytesIO(base64.b64decode(obs.images["primary"]))))
            actions: list[list[float]] = chunk_of(frame, obs.state["flat"], obs.instruction).tolist()
            return actions

        def get_info(self) -> dict[str, Any]:
            needs = {"cameras": ["primary"], "state_dim": 8, "image_transform": "applied_in_sim"}
            return {
                "name": "tiny",
                "model_id": self.model_id,
                "action_space": {"type": "eef_delta", "dim": 7},
                "state_dim": 8,
                "action_chunk_size": CHUNK,
                "obs_requirements": needs,
            }

    uvicorn.run(make_app(Tiny(), "tiny", "cpu"), host="127.0.0.1", port=port, log_level="error")


if __name__ == "__main__":
    kind, port = sys.argv[1], int(sys.argv[2])
    if kind == "roboeval":
        serve_roboeval(port)
    else:
        serve_vla_eval(port, CHUNK if kind == "vla-eval chunked" else None)
