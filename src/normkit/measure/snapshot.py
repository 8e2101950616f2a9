"""A snapshot of a model and of the global state around it, to prove that a tool changed nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from normkit.measure.module_state import ModuleState, joined, own_tensors
from normkit.measure.process_state import ProcessState


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A model as it was, bit for bit, with the random generators and flags of the process.

    What is compared: bits, dtype, device, shape, requires_grad, hooks and gradient of every
    parameter, buffer and tensor attribute; class, mode, hooks and plain attributes of every
    module; modules added, removed or replaced; which tensors share storage; the random states
    of torch, Python and numpy (where numpy is loaded); grad mode, default dtype, deterministic
    mode and the switch of the encoder's fast path. NaN equals itself, 0.0 differs from -0.0.
    Meta tensors have no bits to compare. Tensors are copied, so it costs the model's memory.

    Example:
        >>> model = nn.Linear(2, 1)
        >>> before = Snapshot.take(model)
        >>> _ = model.eval(), model.bias.data.add_(1)
        >>> before.differences()
        ['the model: training was True, is False.', 'parameter bias: 1 of 1 elements changed.']
        >>> before.restore()
        >>> before.differences()
        []
    """

    model: nn.Module
    modules: dict[str, ModuleState]
    sharing: frozenset[frozenset[str]]
    process: ProcessState

    @classmethod
    def take(cls, model: nn.Module) -> Snapshot:
        """Record ``model`` and the global state; neither is changed."""
        process = ProcessState.take()
        states = {id(module): ModuleState.take(module) for module in model.modules()}
        return cls(
            model=model,
            modules={path: states[id(module)] for path, module in _tree(model).items()},
            sharing=_sharing(model),
            process=process,
        )

    def differences(self) -> list[str]:
        """Name in sentences all that is no longer as it was; empty where nothing changed."""
        return [
            *self._tree_differences(),
            *self._module_differences(),
            *self._sharing_differences(),
            *self.process.differences(),
        ]

    def restore(self) -> None:
        """Put back the tree, every module, tensor and gradient, the random states and the flags.

        Values are written into the storages that held them, so tensors that shared one do again.
        What lies outside the model, such as an optimiser's state, is not touched.
        """
        for state in self.modules.values():
            state.restore()
        self.process.restore()

    def _tree_differences(self) -> Iterator[str]:
        now = _tree(self.model)
        for path in sorted(self.modules.keys() | now.keys()):
            if path not in now:
                yield f"module {path} was removed."
            elif path not in self.modules:
                yield f"module {path} was added."
            elif now[path] is not self.modules[path].module:
                was, is_now = self.modules[path].kind.__name__, type(now[path]).__name__
                yield f"module {path} was replaced: it was {was}, is another {is_now}."

    def _module_differences(self) -> Iterator[str]:
        now = _tree(self.model)
        seen: set[int] = set()
        for path, state in self.modules.items():
            if now.get(path) is state.module and id(state) not in seen:
                seen.add(id(state))
                yield from state.differences(path)

    def _sharing_differences(self) -> Iterator[str]:
        now = _sharing(self.model)
        for names in sorted(map(sorted, self.sharing - now)):
            yield f"{', '.join(names)} shared one storage, and no longer all do."
        for names in sorted(map(sorted, now - self.sharing)):
            yield f"{', '.join(names)} share one storage now."


def _tree(model: nn.Module) -> dict[str, nn.Module]:
    return dict(model.named_modules(remove_duplicate=False))


def _sharing(model: nn.Module) -> frozenset[frozenset[str]]:
    """Group the names of tensors that lie in one storage; a tensor on its own is no group."""
    groups: defaultdict[int, set[str]] = defaultdict(set)
    for path, module in _tree(model).items():
        for _, name, tensor in own_tensors(module):
            if tensor.numel():
                groups[tensor.untyped_storage()._cdata].add(joined(path, name))
    return frozenset(frozenset(names) for names in groups.values() if len(names) > 1)
