"""The report as one HTML file: no network, useful without JavaScript, in print, by keyboard and on a telephone.

`page` puts it together from page.html, style.css and script.js; `chart` lines over axes and `charts` those of an
experiment; `readings` where each step looked; `tree` a beam laid out.
"""
