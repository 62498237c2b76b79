"""Tools that read the web: ``web_fetch`` and ``web_search``.

What is connected to is decided here and nowhere else: ``targets`` reads an address strictly, ``addresses`` says which networks are
inside, ``guard`` resolves a name once and checks what came, ``wire`` connects to exactly that.  Redirects take the same way.
"""
