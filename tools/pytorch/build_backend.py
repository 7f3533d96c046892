"""What pip calls to make the wheel (PEP 517): Python alone, so that installing needs neither setuptools nor a network. The same
bytes for the same files."""

import base64
import hashlib
import pathlib
import zipfile

VERSION = "0.1.0"
INFO = f"gradsync-{VERSION}.dist-info"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    here = pathlib.Path(__file__).parent
    files = {
        f"gradsync/{path.name}": path.read_bytes()
        for path in sorted((here / "gradsync").glob("*.py"))
    }
    files[f"{INFO}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: gradsync\nVersion: {VERSION}\nRequires-Python: >=3.9\nDescription-Content-Type: text/markdown\n"
        "Summary: Predicts what PyTorch's DistributedDataParallel will take, from steps that do not use it\n\n"
    ).encode() + (here / "README.md").read_bytes()
    files[f"{INFO}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: gradsync\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    files[f"{INFO}/entry_points.txt"] = b"[console_scripts]\ngradsync = gradsync.__main__:main\n"
    record = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')},{len(data)}\n"
        for name, data in files.items()
    ]
    files[f"{INFO}/RECORD"] = "".join([*record, f"{INFO}/RECORD,,\n"]).encode()
    name = f"gradsync-{VERSION}-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w") as wheel:
        for path, data in files.items():
            wheel.writestr(zipfile.ZipInfo(path), data, zipfile.ZIP_DEFLATED)
    return name
