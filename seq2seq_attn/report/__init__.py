"""Tables, figures and an HTML page from the files of an experiment's results folder; no model is ever loaded.

`columns` defines the comparison table and `breakdown_tables` the tables of where arms differ; `table` shows them in
the terminal and as Markdown, `export` as LaTeX and CSV. `conclusion` puts the comparison in sentences. `figures` draws
with matplotlib in the style of `figure_style`; `html_page` builds the page with its `html_charts` and
`html_attention`. `write` writes everything to the folder.
"""
