"""torch.hub: files are fetched once, checked and kept; folders offer models."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import torch

import cleargrad as cg


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))
    plain = tmp_path / "weights.pth"
    torch.save({"w": torch.arange(3.0)}, plain)
    digest = hashlib.sha256(plain.read_bytes()).hexdigest()
    return plain.rename(tmp_path / f"weights-{digest[:8]}.pth")


def test_a_file_is_fetched_once(weights: Path, tmp_path: Path) -> None:
    url = weights.as_uri()
    assert cg.hub.load_state_dict_from_url(url, check_hash=True, progress=False)["w"].tolist() == [0, 1, 2]
    kept = tmp_path / "home" / "hub" / "checkpoints" / weights.name
    assert kept.exists() and str(kept).startswith(cg.hub.get_dir())
    weights.unlink()
    assert cg.utils.model_zoo.load_url(url)["w"].tolist() == [0, 1, 2]


def test_a_wrong_hash_leaves_nothing(weights: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "weights-00000000.pth"
    shutil.copy(weights, wrong)
    with pytest.raises(RuntimeError, match=r"invalid hash value \(expected \"00000000\""):
        cg.hub.load_state_dict_from_url(wrong.as_uri(), check_hash=True, progress=False)
    assert not list((tmp_path / "home" / "hub" / "checkpoints").iterdir())


def test_progress_is_shown(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    cg.hub.download_url_to_file(weights.as_uri(), str(tmp_path / "copy"))
    assert "100% of 0.0 MB" in capsys.readouterr().err


def test_a_folder_of_models(tmp_path: Path) -> None:
    (tmp_path / "hubconf.py").write_text("dependencies = ['numpy']\ndef model(size): return [0] * size\n")
    assert cg.hub.load(str(tmp_path), "model", 3, source="local") == [0, 0, 0]
    with pytest.raises(RuntimeError, match="Cannot find callable other"):
        cg.hub.load(str(tmp_path), "other", source="local")
    with pytest.raises(NotImplementedError, match="does not download and run code"):
        cg.hub.load("pytorch/vision", "resnet18")
    with pytest.raises(ValueError, match="Unknown source"):
        cg.hub.load("x", "y", source="nowhere")
