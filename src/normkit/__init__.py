"""normkit: normalization in deep networks."""

from normkit._version import __version__ as __version__
