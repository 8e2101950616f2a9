"""The compiled CPU kernels: found, built, loaded.

:func:`loaded` gives the namespace of the ops, and on its first call looks for the library: in the
package (a wheel brings it), then in the cache of this user, else it compiles it there. ``import``
does none of that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from normkit.kernels.cpu.library import Status, forget, isa, loaded, status, why_not

if TYPE_CHECKING:
    from normkit.kernels.cpu.building import Built, build

__all__ = ["Built", "Status", "build", "forget", "isa", "loaded", "status", "why_not"]


def __getattr__(name: str) -> Any:
    """Load what compiles when it is first used."""
    if name in ("Built", "build"):
        from normkit.kernels.cpu import building

        return getattr(building, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
