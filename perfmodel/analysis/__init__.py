"""Any CUDA C++ kernel, analysed on a machine without a GPU: what a user's own file does, and how long it takes.

``user_source`` makes device code of a file (``includes``, ``host_code``, ``declarations``, ``tokens``), ``arguments`` a call
(``argument_spec``, ``expression``), ``analyze`` compiles, executes and times one launch (``user_launch``,
``launch_facts``, ``listing``, ``baseline``), and ``user_space`` makes a family of a file with macros to tune (``space_file``).
"""

from .analyze import Analysis, analyze
from .launch_facts import Effort
from .user_launch import LaunchConfiguration

__all__ = ["Analysis", "Effort", "LaunchConfiguration", "analyze"]
