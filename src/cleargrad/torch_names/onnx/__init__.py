"""torch.onnx: models as ONNX files, which cleargrad does not write. Read next: fx.py."""

from typing import Any

from cleargrad.missing import all_missing


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Any, opset_version: int, **options: Any
) -> None:
    """Says how an operator of a library's own is written to a file; there is none to write."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Takes that back."""


globals().update(
    all_missing(
        "torch.onnx",
        "export dynamo_export ONNXProgram ExportOptions OperatorExportTypes TrainingMode "
        "select_model_mode_for_export TensorProtoDataType operators verification OnnxExporterError "
        + " ".join(f"symbolic_opset{version}" for version in range(7, 21)),
        "write ONNX files",
        fix="load the weights into PyTorch and export there: torch.load reads what cleargrad.save writes",
    )
)
