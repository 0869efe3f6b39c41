"""Any CUDA C++ kernel, analysed on a machine without a GPU: what a user's own file does, and how long it takes.

``user_source`` makes device code of a file (``includes``, ``host_code``, ``declarations``, ``tokens``), ``arguments`` a call
(``argument_spec``, ``expression``), ``analyze`` compiles, executes and times one launch (``launch_facts``,
``listing``, ``baseline``), and ``user_space`` makes a family of a file with macros to tune (``space_file``).
"""

from .analyze import Analysis, LaunchConfiguration, analyze
from .launch_facts import Effort

__all__ = ["Analysis", "Effort", "LaunchConfiguration", "analyze"]
