"""Tables, figures and an HTML page from the files of an experiment's results folder; no model is loaded.

`columns` defines the comparison table; `table` renders it for the terminal and as Markdown, with the breakdowns;
`export` as LaTeX and CSV. `conclusion` states the comparison in sentences. `figures` draws with matplotlib; `html_page`
builds the page with its `html_charts` and `html_attention`. `write` writes everything into the folder.
"""
