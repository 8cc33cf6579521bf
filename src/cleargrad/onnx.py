"""torch.onnx: models as ONNX files, which cleargrad does not write. Read next: fx.py."""

from cleargrad.missing import all_missing


def is_in_onnx_export() -> bool:
    """Whether a model is being exported: never."""
    return False


globals().update(
    all_missing(
        "torch.onnx",
        "export dynamo_export ONNXProgram ExportOptions OperatorExportTypes TrainingMode "
        "select_model_mode_for_export register_custom_op_symbolic unregister_custom_op_symbolic symbolic_opset9",
        "write ONNX files",
        fix="load the weights into PyTorch and export there: torch.load reads what cleargrad.save writes",
    )
)
