"""Reports on a run: tables, figures, one HTML page and TensorBoard files, all made from records alone.

`records` opens a run, `table` is the table model and `render` its forms, `tables` and `evidence_tables` fill it,
`figures` lists what can be drawn, `html` writes the page, `tensorboard` the event files, and `write` does all of it.
Nothing here imports a simulator; matplotlib and TensorBoard are loaded when something is drawn or logged.
"""
