"""The published models as data: a file each with its runtime contract, and what its server is sent."""
