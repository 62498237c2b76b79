"""The process that watches over one shell command for a daemon that may die at any moment.

Started as a script (``SCRIPT``), without site-packages: everything here is standard library, and small, because it is loaded anew
for every command.  The daemon imports ``ring`` alone, to read what the supervisor wrote.
"""

import os

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
