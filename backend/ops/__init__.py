"""One file per op family. Importing the package fills the op table from whatever files are here."""

import importlib
import pkgutil

from ..table import VPU_OPS

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

__all__ = ["VPU_OPS"]
