"""YAML as plain data, from files that people write; whatever the text is, it is read soon or refused."""

from __future__ import annotations

from typing import Any

import yaml

MOST_NODES = 2_000_000
"""Most values of a document with its aliases written out: a few lines can stand for any number of them."""
_UNREADABLE = (ValueError, TypeError, AttributeError, OverflowError, RecursionError)
"""What PyYAML's constructors raise besides its own errors: on ``2026-99-99``, on ``!!timestamp x``."""


class NotYaml(ValueError):
    """The text cannot be read; the message says why, on one line."""


def load_yaml(text: str) -> Any:
    """The only document in ``text``.

    Raises:
        NotYaml: it is no YAML, or stands for more than :data:`MOST_NODES` values.
    """
    try:
        return _load(yaml.SafeLoader(text))
    except NotYaml:
        raise
    except (yaml.YAMLError, *_UNREADABLE) as error:
        raise NotYaml(" ".join(str(error).split()) or type(error).__name__) from None


def _load(loader: yaml.SafeLoader) -> Any:
    node = loader.get_single_node()
    if node is None:
        return None
    if _size(node, {}) > MOST_NODES:
        raise NotYaml(f"its aliases stand for more than {MOST_NODES:,} values")
    return loader.construct_document(node)


def _size(node: yaml.Node, known: dict[int, int | None]) -> int:
    """Values below ``node``, those below an alias each time it is used."""
    size = known.get(id(node), 0)
    if size is None:
        raise NotYaml("an alias stands inside of what it names")
    if not size:
        known[id(node)] = None
        size = 1
        if isinstance(node, yaml.MappingNode):
            _refuse_twins(node)
        for child in node.value if isinstance(node, yaml.CollectionNode) else ():
            for part in child if isinstance(child, tuple) else (child,):
                size += _size(part, known)
        known[id(node)] = size
    return size


def _refuse_twins(node: yaml.MappingNode) -> None:
    """PyYAML would keep the last value of a key that stands twice, and say nothing of the others."""
    seen: set[str] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
            continue
        if key.value in seen:
            line = key.start_mark.line + 1
            raise NotYaml(f"{key.value[:40]!r} stands twice in one object, again in line {line}")
        seen.add(key.value)
