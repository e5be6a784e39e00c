"""Compile CUDA C++ to PTX with the compiler from PyPI, without a GPU or a CUDA installation.

The script `kernels/compile` of each crate with kernels calls `main`. The PTX contains the version
of its compiler, and a driver rejects PTX of compilers that are newer than the driver. Therefore,
this module uses the oldest compiler of CUDA 12.
"""
import ctypes
import pathlib
import subprocess
import sys
import venv

COMPILER = "nvidia-cuda-nvrtc-cu12==12.0.76"
TARGET = "compute_75"
# The target of kernels that use tensor cores, asynchronous copies into shared memory, or warp
# reductions.
TENSOR_TARGET = "compute_80"
REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent


def load_compiler(folder):
    """Install the compiler into a subfolder of `folder`, and return its library."""
    target = folder / COMPILER.replace("==", "-")
    library = target / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
    if not library.exists():
        command = [sys.executable, "-m", "pip"]
        if subprocess.run([*command, "--version"], capture_output=True).returncode != 0:
            environment = folder / "pip"
            venv.create(environment, with_pip=True)
            command = [str(environment / "bin/python"), "-m", "pip"]
        command += ["install", "--quiet", "--no-deps", "--target", str(target), COMPILER]
        subprocess.run(command, check=True)
    builtins = library.parent / "libnvrtc-builtins.so.12.0"
    ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(library))


def compile_kernel(nvrtc, name, parts, target):
    """Return the PTX of a program.

    `parts` are its source files, headers first. They are concatenated, so no include folders are
    needed.
    """
    source = "".join(f'#line 1 "{part.name}"\n' + part.read_text(encoding="utf-8") for part in parts)
    program = ctypes.c_void_p()
    status = nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), f"{name}.cu".encode(), 0, None, None)
    assert status == 0, status
    options = [
        f"--gpu-architecture={target}", "--std=c++17", "--fmad=false",
        "--extra-device-vectorization",
    ]
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    status = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if log.value.strip():
        sys.stderr.write(log.value.decode())
    if status != 0:
        sys.exit(f"{name}: compilation failed")
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return ptx.value.decode()


def main(kernels, sources, tensor=()):
    """Write `ptx/NAME.ptx` in the folder `kernels`. With `--check`, fail if the files do not match
    the sources.

    `sources` maps each NAME to its source files, headers first. Names in `tensor` are compiled for
    TENSOR_TARGET.
    """
    check = "--check" in sys.argv[1:]
    folder = REPOSITORY / "target" / "nvrtc"
    folder.mkdir(parents=True, exist_ok=True)
    nvrtc = load_compiler(folder)
    stale = []
    for name, parts in sources.items():
        path = kernels / "ptx" / f"{name}.ptx"
        target = TENSOR_TARGET if name in tensor else TARGET
        ptx = compile_kernel(nvrtc, name, [kernels / part for part in parts], target)
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(ptx, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != ptx:
            stale.append(path)
    stale += sorted(path for path in (kernels / "ptx").glob("*.ptx") if path.stem not in sources)
    if stale:
        names = ", ".join(str(path.relative_to(REPOSITORY)) for path in stale)
        script = (kernels / "compile").relative_to(REPOSITORY)
        sys.exit(f"{names}: the PTX does not match the sources; run {script}")
    print("the PTX matches the sources" if check else f"{len(sources)} files written")
