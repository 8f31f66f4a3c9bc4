"""From the plain numbers of an experiment's results folder to tables, pictures and a page; no model is ever loaded.

`results` what results.json holds; `observations` curves.json and attention.json; `examples`, `sentences` and `making`
the files of their names. `columns` makes the cells of the comparison, which `table` writes for the terminal and as
Markdown, `as_latex` and `as_csv` as their names say. `pictures` the figures; `html` the page; `write` all of it into
the folder.
"""
