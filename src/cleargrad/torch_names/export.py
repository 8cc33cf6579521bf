"""torch.export: whole programs as graphs, which cleargrad does not write. Read next: ao/__init__.py."""

from cleargrad.missing import all_missing

globals().update(
    all_missing(
        "torch.export",
        "export export_for_training draft_export save load register_dataclass Dim ExportedProgram "
        "ShapesCollection unflatten",
        "export programs",
        fix="save the weights: torch.save(model.state_dict(), path)",
    )
)
