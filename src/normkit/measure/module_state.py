"""The state of one module: its own tensors, its mode, its hooks and its plain attributes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from normkit.measure.tensor_state import TensorState

# The dicts in which nn.Module keeps its hooks, and what people call them.
_HOOKS = {
    "_forward_hooks": "forward hooks",
    "_forward_pre_hooks": "forward pre-hooks",
    "_backward_hooks": "backward hooks",
    "_backward_pre_hooks": "backward pre-hooks",
    "_state_dict_hooks": "state_dict hooks",
    "_state_dict_pre_hooks": "state_dict pre-hooks",
    "_load_state_dict_pre_hooks": "load_state_dict pre-hooks",
    "_load_state_dict_post_hooks": "load_state_dict post-hooks",
}
_TENSORS = {"_parameters": "parameter", "_buffers": "buffer", "": "tensor attribute"}
_OWN = frozenset(vars(nn.Module()))  # the mode and the containers, looked after on their own


@dataclass(frozen=True, kw_only=True)
class ModuleState:
    """One module as it was; its children are looked after by whoever holds the tree.

    Attributes:
        module: the object itself.
        kind: its class.
        attributes: everything in ``vars(module)``, the containers copied one level deep.
        tensors: states of its own parameters, buffers and tensor attributes.
    """

    module: nn.Module
    kind: type[nn.Module]
    attributes: dict[str, Any]
    tensors: dict[tuple[str, str], TensorState]

    @classmethod
    def take(cls, module: nn.Module) -> ModuleState:
        """Record ``module`` without its children."""
        return cls(
            module=module,
            kind=type(module),
            attributes={name: _copied(value) for name, value in vars(module).items()},
            tensors={
                (container, name): TensorState.take(tensor)
                for container, name, tensor in own_tensors(module)
            },
        )

    def differences(self, path: str) -> Iterator[str]:
        """Say what is no longer as it was; ``path`` is the name of the module in its tree."""
        who = f"module {path}" if path else "the model"
        if type(self.module) is not self.kind:
            yield f"{who}: its class was {self.kind.__name__}, is {type(self.module).__name__}."
        if self.module.training != self.attributes["training"]:
            was, now = self.attributes["training"], self.module.training
            yield f"{who}: training was {was}, is {now}."
        yield from self._hook_differences(who)
        yield from self._attribute_differences(who)
        yield from self._tensor_differences(path)

    def restore(self) -> None:
        """Put class, mode, hooks, attributes, children, parameters and buffers back."""
        self.module.__class__ = self.kind
        now = vars(self.module)
        for name in now.keys() - self.attributes.keys():
            del now[name]
        for name, value in self.attributes.items():
            if isinstance(value, dict) and isinstance(now.get(name), dict):
                # Handles of hooks point at the dict, so the dict stays and its content returns.
                now[name].clear()
                now[name].update(value)
            else:
                now[name] = _copied(value)
        for state in self.tensors.values():
            state.restore()

    def _hook_differences(self, who: str) -> Iterator[str]:
        for container, kind in _HOOKS.items():
            before = list(self.attributes.get(container, {}).values())
            now = list(vars(self.module).get(container, {}).values())
            if len(before) != len(now):
                yield f"{who}: {kind} were {len(before)}, are {len(now)}."
            elif any(a is not b for a, b in zip(before, now, strict=True)):
                yield f"{who}: {kind} were replaced."

    def _attribute_differences(self, who: str) -> Iterator[str]:
        before, now = _plain(self.attributes), _plain(vars(self.module))
        for name in sorted(before.keys() | now.keys()):
            if name not in now:
                yield f"{who}: attribute {name} was removed."
            elif name not in before:
                yield f"{who}: attribute {name} was added."
            elif not _same(before[name], now[name]):
                yield f"{who}: attribute {name} was {before[name]!r}, is {now[name]!r}."

    def _tensor_differences(self, path: str) -> Iterator[str]:
        now = {(container, name): t for container, name, t in own_tensors(self.module)}
        for key in sorted(self.tensors.keys() | now.keys()):
            who = f"{_TENSORS[key[0]]} {joined(path, key[1])}"
            if key not in now:
                yield f"{who} was removed."
            elif key not in self.tensors:
                yield f"{who} was added."
            else:
                yield from self.tensors[key].differences(who, now[key])


def own_tensors(module: nn.Module) -> Iterator[tuple[str, str, Tensor]]:
    """List the module's own parameters, buffers and tensor attributes: container, name, tensor."""
    for container in _TENSORS:
        held = vars(module)[container] if container else vars(module)
        for name, tensor in held.items():
            if isinstance(tensor, Tensor):
                yield container, name, tensor


def joined(path: str, name: str) -> str:
    """Join the path of a module and the name of something in it."""
    return f"{path}.{name}" if path else name


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, (dict, list, set)) else value


def _plain(attributes: dict[str, Any]) -> dict[str, Any]:
    """What authors and users set, tensors apart."""
    return {
        name: value
        for name, value in attributes.items()
        if name not in _OWN and not isinstance(value, Tensor)
    }


def _same(before: object, now: object) -> bool:
    """Compare containers by content, numbers and texts as written, all else by identity."""
    if isinstance(before, dict) and isinstance(now, dict):
        return before.keys() == now.keys() and all(_same(before[k], now[k]) for k in before)
    if isinstance(before, (list, tuple)) and isinstance(now, (list, tuple)):
        return len(before) == len(now) and all(map(_same, before, now))
    if isinstance(before, (int, float, complex, str, bytes, torch.device)):
        return type(before) is type(now) and repr(before) == repr(now)
    return before is now or (isinstance(before, set) and before == now)
