"""Read a dataset with lerobot itself, in an interpreter of its own, and print what was seen as one line of JSON."""

from __future__ import annotations

import json
import sys

from lerobot.datasets.lerobot_dataset import LeRobotDataset
from lerobot.datasets.utils import dataset_to_policy_features

dataset = LeRobotDataset("exported", root=sys.argv[1])
items = [dataset[i] for i in range(len(dataset))]
seen = {
    "rows": len(dataset),
    "episodes": dataset.num_episodes,
    "state": [item["observation.state"].tolist() for item in items],
    "action": [item["action"].tolist() for item in items],
    "image_sums": [
        (item["observation.images.agentview"] * 255).round().long().sum(dim=(1, 2)).tolist() for item in items
    ],
    "task": items[-1]["task"],
    "policy_features": {
        name: list(feature.shape)
        for name, feature in dataset_to_policy_features(dataset.meta.features).items()
    },
}
# A window of actions, as chunked policies are trained on; it is padded at the end of an episode.
window = LeRobotDataset(
    "exported", root=sys.argv[1], delta_timestamps={"action": [k / dataset.fps for k in range(3)]}
)
last = dataset.meta.episodes[0]["dataset_to_index"] - 1
assert window[last]["action_is_pad"].tolist() == [False, True, True]
assert (window[0]["action"][2] == items[2]["action"]).all()
print(json.dumps(seen))
