"""What objects look like in a console (`__repr__`) and in a notebook (`_repr_html_`).

One module for each kind of object, read by its attributes as `plots` does; `text` and `html` hold what they share.
Nothing here imports matplotlib or pandas: a repr must appear at once.
"""
