"""Documents as text: PDF, Word, Excel, PowerPoint files and Jupyter notebooks.

``reading`` is our side; ``worker`` is a program that runs apart, with limits, and imports the libraries.
"""
