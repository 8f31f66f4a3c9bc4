"""From the plain numbers of an experiment's results folder to tables and pictures; no model is ever loaded.

`results` what results.json holds; `observations` curves.json and attention.json; `table` the comparison for
the terminal and as Markdown; `pictures` the figures; `write` all of it into the folder.
"""
