"""The files of a run: journal, Dataset, flat tables, frames, shields, and the lock of its folder."""
