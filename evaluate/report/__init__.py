"""Reports on a run: tables, figures, one HTML page and TensorBoard files, all made from records alone.

`records` opens a run, `table` is the table model and `render` its forms. A new table is a function in the module of its
subject (`*_tables`) and a line in `tables.TABLES`; a new figure one in a module `*_figures` and a line in
`figures.FIGURES`. `html` writes the page, `tensorboard` the event files, and `write` does all of it.
Nothing here imports a simulator; matplotlib and TensorBoard are loaded when something is drawn or logged.
"""
