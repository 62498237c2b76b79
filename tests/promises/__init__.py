"""The promises of the architecture, a file each: what a user may rely on, and the shortest test that breaks when it is broken.

Other tests say more about each of them; they are named in the files.  A test here has been seen red with its promise broken.
"""
