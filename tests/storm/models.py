"""What the storm is sent to: models that answer whatever their signatures take."""

from __future__ import annotations

from pathlib import Path

from model_builders import python_model

__all__ = ["FLAGS", "write_models"]

FLAGS = (
    "--non_finite=null",
    "--invalid_utf8=b64",  # bytes come in as base64, and one of the models gives them back
    "--max_body_bytes=16MiB",
    "--request_ring_bytes=1MiB",  # rings count as memory once every page was written to: soon
    "--reply_ring_bytes=1MiB",
    "--file_system_poll_wait_seconds=0",
    "--log_level=warning",
)

_CODE = """
    import numpy as np

    class Model:
        signatures = {{"serving_default": {{"inputs": {inputs}, "outputs": {outputs}}}}}

        def predict(self, inputs):
            with np.errstate(all="ignore"):
                return {result}
"""
_FLOATS, _TEXTS, _ANY = '("float32", None)', '("string", None)', '("int64", (None,))'
_MODELS = {
    "numbers": (f'{{"x": {_FLOATS}}}', f'{{"y": {_FLOATS}}}', '{"y": inputs["x"] * 2}'),
    "texts": (f'{{"t": {_TEXTS}}}', f'{{"t": {_TEXTS}}}', '{"t": inputs["t"]}'),
    "pairs": (
        f'{{"a": ("float64", (None, 3)), "b": {_ANY}}}',
        f'{{"a": ("float64", (None, 3)), "b": {_ANY}}}',
        'dict(inputs)',
    ),
    "examples": (
        '{"inputs": ("string", (None,))}',
        '{"outputs": ("float32", (None,)), "scores": ("float32", (None, 2))}',
        '{"outputs": np.ones(len(inputs["inputs"]), "f4"),'
        ' "scores": np.ones((len(inputs["inputs"]), 2), "f4")}',
    ),
}  # fmt: skip


def write_models(folder: Path) -> Path:
    """Write them, and the file that lists them.

    Returns:
        The file.
    """
    lines = []
    for name, (inputs, outputs, result) in _MODELS.items():
        code = _CODE.format(inputs=inputs, outputs=outputs, result=result)
        python_model(folder / name / "1", code)
        label = 'version_labels { key: "stable" value: 1 }'
        lines.append(f'config {{ name: "{name}" base_path: "{folder / name}" {label} }}')
    listed = folder / "models.config"
    listed.write_text(f"model_config_list {{\n{chr(10).join(lines)}\n}}\n")
    return listed
