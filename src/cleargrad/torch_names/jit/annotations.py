"""torch.jit.annotations: names of types that compiled code would read from annotations.

Read next: torch_names/onnx/__init__.py.
"""

import typing
from typing import Any

# Programs import these from here.
Dict, List, Tuple = typing.Dict, typing.List, typing.Tuple  # noqa: UP006
Optional, Union = typing.Optional, typing.Union


class BroadcastingListCls:
    """`BroadcastingList2[int]`: two numbers, or one that stands for both."""

    def __getitem__(self, types: Any) -> Any:
        return types


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingListCls()

__all__ = [
    *("BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "BroadcastingList4"),
    *("BroadcastingListCls", "Dict", "List", "Optional", "Tuple", "Union"),
]
