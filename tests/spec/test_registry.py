"""The registry answers by name, and a wrong name gets the list of right ones."""

from __future__ import annotations

import pytest

from normkit.errors import OptionError
from normkit.spec import NORMS, PLACEMENTS, NormSpec, norm_entry, placement_entry


def test_names_are_keys() -> None:
    """Each entry stands under its own name."""
    assert [entry.name for entry in NORMS.values()] == list(NORMS)
    assert [entry.name for entry in PLACEMENTS.values()] == list(PLACEMENTS)


@pytest.mark.parametrize("name", NORMS)
def test_norm_by_name(name: str) -> None:
    """A norm is found by its name; nobody's title, source or layers are missing."""
    entry = norm_entry(name)
    assert entry is NORMS[name]
    assert entry.title
    assert entry.source
    assert entry.layers


@pytest.mark.parametrize("name", PLACEMENTS)
def test_placement_by_name(name: str) -> None:
    """A placement is found by its name."""
    entry = placement_entry(name)
    assert entry is PLACEMENTS[name]
    assert entry.title
    assert entry.source


def test_specs_differ() -> None:
    """No two norms and no two placements are the same function under two names."""
    norms = [entry.spec for entry in NORMS.values()]
    placements = [entry.spec for entry in PLACEMENTS.values()]
    assert all(norms.count(spec) == 1 for spec in norms)
    assert all(placements.count(spec) == 1 for spec in placements)


def test_layers_belong_to_one_norm() -> None:
    """A class name leads back to one norm."""
    names = [layer for entry in NORMS.values() for layer in entry.layers]
    assert len(names) == len(set(names))


def test_only_the_identity_has_no_op() -> None:
    """A norm without an op computes nothing."""
    for entry in NORMS.values():
        if entry.op is None:
            assert isinstance(entry.spec, NormSpec)
            assert (entry.spec.center, entry.spec.scale, entry.spec.squash) == (
                False,
                "none",
                "none",
            )


def test_unknown_norm() -> None:
    """The sentence lists what exists and guesses what was meant."""
    with pytest.raises(OptionError) as caught:
        norm_entry("rmsnorm")
    names = [repr(name) for name in NORMS]
    assert str(caught.value) == (
        f"norm must be {', '.join(names[:-1])} or {names[-1]}; got 'rmsnorm'. "
        "Did you mean 'rms_norm'?"
    )


def test_unknown_norm_far_from_all() -> None:
    """No guess where nothing is close."""
    with pytest.raises(OptionError, match=r"; got 'xyz'\.$"):
        norm_entry("xyz")


def test_unknown_placement() -> None:
    """The same for placements."""
    with pytest.raises(OptionError) as caught:
        placement_entry("Pre")
    names = [repr(name) for name in PLACEMENTS]
    assert str(caught.value) == (
        f"placement must be {', '.join(names[:-1])} or {names[-1]}; got 'Pre'. Did you mean 'pre'?"
    )
