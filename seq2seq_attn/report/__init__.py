"""From the plain numbers of an experiment's results folder to tables, pictures and a page; no model is ever loaded.

`results` what results.json holds, `where` its part on groups and rates; `observations` curves.json and attention.json;
`examples`, `sentences` and `making` the files of their names. `columns` makes the cells of the comparison,
`where_tables` those of its parts, which `table` writes for the terminal and as Markdown, `as_latex`, `as_csv` and
`where_as_csv` as their names say; `conclusion` puts it in words. `pictures` the figures; `html` the page; `write` all
of it into the folder.
"""
