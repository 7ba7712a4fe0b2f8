"""What is served: models, their versions and labels, and the table that requests are looked up in.

The table is a plain dict that is built anew on each change and swapped by one assignment, so that
a lookup sees the old routes or the new ones, never a mixture. Single-owner: the front end's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Generic, TypeVar

from headrace.errors import LabelNotFound, ModelNotFound, ModelNotReady
from headrace.serving.lifecycle import State

__all__ = ["Model", "Registry", "Version"]

E = TypeVar("E")

_Key = tuple[str, int | None, str | None]


@dataclass(slots=True)
class Version(Generic[E]):
    """One version of a model.

    Attributes:
        number: Its number.
        state: Where it stands.
        endpoint: What answers for it, while AVAILABLE.
        failure: Why its load failed; empty otherwise.
    """

    number: int
    state: State
    endpoint: E | None = None
    failure: str = ""


@dataclass(slots=True)
class Model(Generic[E]):
    """One configured model.

    Attributes:
        name: As in the URL.
        versions: Every version seen, by number.
        labels: Label to version number.
        absence: Why there is no version at all; empty once there is one.
        is_starting: What there is to serve has not all been tried yet.
    """

    name: str
    versions: dict[int, Version[E]] = field(default_factory=dict)
    labels: Mapping[str, int] = field(default_factory=dict)
    absence: str = ""
    is_starting: bool = False

    def is_loading(self) -> bool:
        """Whether a version may become available without anybody's doing."""
        return self.is_starting or any(v.state is State.LOADING for v in self.versions.values())

    def latest(self) -> Version[E] | None:
        """The highest version that is available."""
        available = [v for v in self.versions.values() if v.state is State.AVAILABLE]
        return max(available, key=lambda v: v.number, default=None)

    def why_not(self) -> str:
        """Why no version is available; empty where one is."""
        if self.latest() is not None:
            return ""
        if self.is_loading():
            return "it is still loading"
        failed = [v for v in self.versions.values() if v.failure]
        if failed:
            newest = max(failed, key=lambda v: v.number)
            return f"the load of version {newest.number} failed: {newest.failure}"
        return self.absence or "it has no version yet"


class Registry(Generic[E]):
    """All models, and lookups that say why they fail."""

    def __init__(self, on_publish: Callable[[], None] = lambda: None) -> None:
        """Begin with no model. ``on_publish`` is called after each change of what lookups see."""
        self._on_publish = on_publish
        self._models: dict[str, Model[E]] = {}
        self._table: dict[_Key, E] = {}

    def __iter__(self) -> Iterator[Model[E]]:
        return iter(self._models.values())

    def __contains__(self, name: object) -> bool:
        """Whether a model is configured under this name."""
        return name in self._models

    def configure(self, names: Iterable[str]) -> None:
        """Declare the models there are; those left out are forgotten."""
        self._models = {name: self._models.get(name) or Model(name) for name in names}
        self.publish()

    def model(self, name: str) -> Model[E]:
        """The model of this name.

        Raises:
            ModelNotFound: None is configured under it.
        """
        found = self._models.get(name)
        if found is None:
            raise ModelNotFound(name, detail=self._names_like(name))
        return found

    def publish(self) -> None:
        """Make the present state of the models what lookups see."""
        table: dict[_Key, E] = {}
        for model in self._models.values():
            for version in model.versions.values():
                if version.state is State.AVAILABLE and version.endpoint is not None:
                    table[model.name, version.number, None] = version.endpoint
            latest = model.latest()
            if latest is not None and latest.endpoint is not None:
                table[model.name, None, None] = latest.endpoint
            for label, number in model.labels.items():
                if (endpoint := table.get((model.name, number, None))) is not None:
                    table[model.name, None, label] = endpoint
        self._table = table
        self._on_publish()

    def find(self, model: str, version: int | None = None, label: str | None = None) -> E:
        """What answers for a model, a version or a label of it.

        Raises:
            LabelNotFound: No version has the label, or there is no such model to have it.
            ModelNotFound: No such model, or no such version of it, or its load failed.
            ModelNotReady: It is known and still loading.
        """
        endpoint = self._table.get((model, version, label))
        if endpoint is None:
            number = version if label is None else self.labelled(model, label)
            raise self._why(model, number)
        return endpoint

    def labelled(self, name: str, label: str) -> int:
        """The number of the version that carries a label.

        Raises:
            LabelNotFound: No version has it, or there is no such model to have it.
        """
        model = self._models.get(name)
        labels = {} if model is None else model.labels
        if label not in labels:
            known = ", ".join(sorted(labels)) or "none"
            raise LabelNotFound(name, label, f"labels of this model: {known}")
        return labels[label]

    def unready(self) -> list[str]:
        """A sentence for each configured model that cannot answer now."""
        return [f"{m.name}: {why}" for m in self._models.values() if (why := m.why_not())]

    def _why(self, name: str, version: int | None) -> ModelNotFound | ModelNotReady:
        model = self._models.get(name)
        if model is None:
            return ModelNotFound(name, version, self._names_like(name))
        if version is None:
            if model.is_loading():
                return ModelNotReady(f"Model {name!r} is still loading")
            return ModelNotFound(name, None, model.why_not())
        entry = model.versions.get(version)
        if entry is None and model.is_starting:
            return ModelNotReady(f"Model {name!r} is still loading")
        if entry is None:
            loaded = sorted(v.number for v in model.versions.values() if v.endpoint is not None)
            return ModelNotFound(name, version, f"versions loaded: {_listed(loaded)}")
        if entry.state is State.LOADING:
            return ModelNotReady(f"Version {version} of model {name!r} is still loading")
        why = f"its load failed: {entry.failure}" if entry.failure else "it is not loaded any more"
        return ModelNotFound(name, version, why)

    def _names_like(self, name: str) -> str:
        near = get_close_matches(name, self._models, n=1)
        return f"did you mean {near[0]}?" if near else ""


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
