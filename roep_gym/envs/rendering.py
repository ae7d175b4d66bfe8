"""Whether this machine can render off screen, found out before anything else runs.

`check_rendering` creates a real EGL context with nothing but the standard library, in a process of its own, since
a broken driver may crash it; `time_frame` lets MuJoCo draw. The file is also a script that needs no installed package:
`python3 -I roep_gym/envs/rendering.py` checks and exits with 0 or 1, `--packages` prints the Debian packages.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

__all__ = ["DEBIAN_PACKAGES", "Frame", "RenderingCheck", "backend", "check_rendering", "time_frame"]

DEBIAN_PACKAGES = ("libegl1", "libgl1", "libgl1-mesa-dri", "libglib2.0-0")
"""What a minimal Debian or Ubuntu lacks: EGL, OpenGL, Mesa's drivers, and GLib for OpenCV."""

_LIBRARIES = {"libEGL.so.1": "libegl1", "libGL.so.1": "libgl1", "libgthread-2.0.so.0": "libglib2.0-0"}
_TIMEOUT_SECONDS = 60

_EGL_PLATFORM_DEVICE = 0x313F
_EGL_OPENGL_API = 0x30A2
_EGL_EXTENSIONS = 0x3055
_GL_RENDERER, _GL_VERSION = 0x1F01, 0x1F02
# EGL_SURFACE_TYPE: EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE: EGL_OPENGL_BIT, EGL_DEPTH_SIZE: 24, EGL_NONE.
_EGL_ATTRIBUTES = (0x3033, 0x0001, 0x3040, 0x0008, 0x3025, 24, 0x3038)
_SOFTWARE_RENDERERS = ("llvmpipe", "softpipe", "swrast", "swiftshader")


@dataclass(frozen=True)
class RenderingCheck:
    """What creating an off-screen context gave.

    Attributes:
        backend: MuJoCo's backend, for example "egl".
        checked: Whether a context was asked for; only EGL is.
        renderer: What OpenGL calls the renderer; empty when there is none.
        version: Version of OpenGL and its driver.
        problem: What went wrong; empty when rendering works or was not checked.
        remedy: What to do about it.
    """

    backend: str
    checked: bool = True
    renderer: str = ""
    version: str = ""
    problem: str = ""
    remedy: str = ""

    @property
    def software(self) -> bool:
        """Whether the CPU renders."""
        return any(name in self.renderer.lower() for name in _SOFTWARE_RENDERERS)


@dataclass(frozen=True)
class Frame:
    """A frame of 128 x 128 pixels that MuJoCo drew.

    Attributes:
        milliseconds: Time of one frame, after the first.
        problem: What went wrong; empty when the frame was drawn.
    """

    milliseconds: float = float("nan")
    problem: str = ""


def backend() -> str:
    """Return MuJoCo's rendering backend: `MUJOCO_GL` where it is set, else EGL (on Linux)."""
    return os.environ.get("MUJOCO_GL", "").strip().lower() or ("egl" if platform.system() == "Linux" else "")


def check_rendering() -> RenderingCheck:
    """Create an off-screen OpenGL context as MuJoCo would, in a process of its own, and say what came of it."""
    name = backend()
    if name != "egl":
        return RenderingCheck(backend=name, checked=False)
    answer = _run_in_child("--context")
    if "problem" not in answer:
        return RenderingCheck(backend=name, renderer=answer["renderer"], version=answer["version"])
    if os.environ.get("MUJOCO_EGL_DEVICE_ID"):
        remedy = "check the number in MUJOCO_EGL_DEVICE_ID"
    else:
        remedy = f"run apt-get install {' '.join(DEBIAN_PACKAGES)}, or set MUJOCO_GL to another backend"
    return RenderingCheck(backend=name, problem=answer["problem"], remedy=remedy)


def time_frame() -> Frame:
    """Let MuJoCo draw a small scene in a process of its own, and time one frame."""
    answer = _run_in_child("--frame")
    return Frame(problem=answer["problem"]) if "problem" in answer else Frame(answer["milliseconds"])


def _run_in_child(task: str) -> dict[str, Any]:
    """Run this file as a script and return its JSON answer, or what killed it as its problem."""
    environment = {**os.environ, "MUJOCO_GL": backend()}
    command = [sys.executable, "-I", __file__, task]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return {"problem": f"no answer from the graphics driver within {_TIMEOUT_SECONDS} s"}
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer
    reason = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    return {"problem": f"the process that tried it failed ({reason})"}


def _create_context() -> dict[str, str]:
    """Create an EGL context on the first device that works, and name its renderer."""
    for library, package in _LIBRARIES.items():
        try:
            ctypes.CDLL(library)
        except OSError:
            return {"problem": f"the library {library} is missing (Debian package {package})"}
    egl = ctypes.CDLL("libEGL.so.1")
    egl.eglGetProcAddress.restype = egl.eglCreateContext.restype = ctypes.c_void_p
    egl.eglQueryString.restype = ctypes.c_char_p
    if b"EGL_EXT_device_enumeration" not in (egl.eglQueryString(None, _EGL_EXTENSIONS) or b""):
        return {"problem": "EGL cannot list devices, so no driver is installed (Debian package libegl-mesa0)"}

    def function(name: bytes, result: Any, *arguments: Any) -> Any:
        return ctypes.CFUNCTYPE(result, *arguments)(egl.eglGetProcAddress(name))

    pointer, integer = ctypes.c_void_p, ctypes.c_int
    query_devices = function(b"eglQueryDevicesEXT", integer, integer, pointer, pointer)
    platform_display = function(b"eglGetPlatformDisplayEXT", pointer, integer, pointer, pointer)
    devices, count = (ctypes.c_void_p * 64)(), ctypes.c_int()
    query_devices(64, devices, ctypes.byref(count))
    candidates = list(devices[: count.value])
    if chosen := os.environ.get("MUJOCO_EGL_DEVICE_ID"):
        if not chosen.isdigit() or int(chosen) >= len(candidates):
            return {
                "problem": f"MUJOCO_EGL_DEVICE_ID is {chosen!r} but there are {len(candidates)} EGL devices"
            }
        candidates = [candidates[int(chosen)]]
    for device in candidates:
        display = ctypes.c_void_p(platform_display(_EGL_PLATFORM_DEVICE, device, None))
        if not display or not egl.eglInitialize(display, None, None):
            continue
        attributes = (ctypes.c_int * len(_EGL_ATTRIBUTES))(*_EGL_ATTRIBUTES)
        config, number = ctypes.c_void_p(), ctypes.c_int()
        egl.eglChooseConfig(display, attributes, ctypes.byref(config), 1, ctypes.byref(number))
        egl.eglBindAPI(_EGL_OPENGL_API)
        context = ctypes.c_void_p(egl.eglCreateContext(display, config, None, None)) if number.value else None
        if context and egl.eglMakeCurrent(display, None, None, context):
            get_string = function(b"glGetString", ctypes.c_char_p, ctypes.c_uint)
            return {
                "renderer": (get_string(_GL_RENDERER) or b"unknown").decode(),
                "version": (get_string(_GL_VERSION) or b"unknown").decode(),
            }
    return {
        "problem": f"no OpenGL context on any of {len(candidates)} EGL devices (Debian package libgl1-mesa-dri)"
    }


def _draw_frames() -> dict[str, Any]:
    """Draw a lit sphere twice with MuJoCo and time the second frame."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><light pos='0 0 3'/><geom type='plane' size='2 2 .1'/>"
        "<geom type='sphere' size='.3' pos='0 0 .5' rgba='1 0 0 1'/></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    renderer = mujoco.Renderer(model, 128, 128)
    renderer.update_scene(data)
    renderer.render()
    start = time.perf_counter()
    image = renderer.render()
    seconds = time.perf_counter() - start
    renderer.close()
    if image.max() == image.min():
        return {"problem": "MuJoCo drew a frame of one colour"}
    return {"milliseconds": 1000 * seconds}


def _main(arguments: list[str]) -> int:
    """Answer as a script; see the module's docstring."""
    if arguments == ["--packages"]:
        print(*DEBIAN_PACKAGES)
    elif arguments == ["--context"]:
        print(json.dumps(_create_context()))
    elif arguments == ["--frame"]:
        print(json.dumps(_draw_frames()))
    else:
        result = check_rendering()
        if result.problem:
            print(f"Off-screen rendering does not work: {result.problem}; {result.remedy}.", file=sys.stderr)
            return 1
        print(f"rendering: {result.backend}, {result.renderer or 'not checked, see roep-gym doctor'}")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
