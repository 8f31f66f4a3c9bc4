"""Tables, figures and an HTML page from the files of an experiment's results folder; no model is ever loaded.

`columns` defines the comparison table; `table` shows it in the terminal and as Markdown, with the tables of where arms
differ; `export` as LaTeX and CSV. `conclusion` puts the comparison in sentences. `figures` draws with matplotlib;
`html_page` builds the page with its `html_charts` and `html_attention`. `write` writes everything to the folder.
"""
