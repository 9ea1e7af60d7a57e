"""How luce compiles: `kernel` for what Python calls, `part` for what only kernels call.

The first use of a kernel compiles it, which takes the processor a tenth of a second at least and often a second; the
result is kept on disk. Two things make that quick (measured, see benchmarks/bench_cold.py). A part has no entry for
Python, which costs as much as a short function, and no file. And Numba optimises every function and makes machine code
of it, and once more wherever it is called; a part is optimised in its kernels only, which saves a second of the races
of `plackett_luce` and three of the networks of `cdn`. What matters most cannot be done here: few and short functions,
arrays handed over one by one, no array expression inside (`a[:] = b + 1` takes 0.3 s), and nothing compiled that is not
called.

Numba's cache notices that the file of a kernel changed, but not that a function or a constant changed which it takes
from another file. Ours asks for all of them. It also holds a digest of each of its files, and where one is damaged or
cannot be written, the kernel is compiled for this run and the cache left alone, which is said once.
"""

from __future__ import annotations

import hashlib
import io
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, overload

import numba
import numpy as np
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.extending import register_jitable

from luce.errors import LuceWarning

COMPILES_PARTS = numba.__version__.startswith("0.68.")
"""Whether our compiler of parts is used: it hangs on the inside of Numba, and was tried with these versions. With any
other, all is compiled as Numba does it: the same results, later."""
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


@overload
def kernel(function: Callable[..., Any]) -> Any: ...
@overload
def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]: ...
def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function at its first call, and keep it on disk: serial, without the GIL, division by 0 as NumPy.

    `reorder=True` lets sums be taken in any order, which allows vector instructions; it is the same order in every run.
    Other options are Numba's.
    """
    if function is None:
        return lambda function: kernel(function, **options)
    compiled = njit(**_flags(options))(function)
    if hasattr(compiled, "_cache"):  # NUMBA_DISABLE_JIT gives the function back as it is
        try:
            compiled._cache = _Cache(function)
        except (RuntimeError, OSError) as error:  # there is no folder that can be written
            _say(_NOT_KEPT, f"there is no place for it ({error})")
    return compiled


@overload
def part(function: Callable[..., Any]) -> Any: ...
@overload
def part(**options: Any) -> Callable[[Callable[..., Any]], Any]: ...
def part(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function into the kernels that call it; in Python it stays what it is. Options as for `kernel`."""
    if function is None:
        return lambda function: part(function, **options)
    pipeline = {"pipeline_class": _PartCompiler} if COMPILES_PARTS else {}
    return register_jitable(no_cpython_wrapper=True, **pipeline, **_flags(options))(function)


def _flags(options: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in options.items() if name != "reorder"}
    return _OPTIONS | ({"fastmath": {"reassoc", "contract"}} if options.get("reorder") else {}) | rest


class _PartLibrary(JITCodeLibrary):
    """The code of a part, to be linked into kernels: neither optimised nor made machine code by itself."""

    codegen = property(lambda self: self)

    def finalize(self) -> None:
        """Take in the parts that this one calls."""
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """None (0): there is no machine code to point to."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]
        return 0

    def set_env(self, name: str, env: Any) -> None:
        """Not needed: what a part raises is raised by its kernel."""


class _PartCompiler(Compiler):
    """Numba's compiler, which puts what it makes into a library of a part."""

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        self.state.library = _PartLibrary(self.state.targetctx.codegen(), func.__qualname__)  # type: ignore[no-untyped-call]
        return super().compile_extra(func)  # type: ignore[no-untyped-call]


_said: set[str] = set()


def _say(what: str, why: str) -> None:
    """Say what is wrong with the cache, once for all kernels."""
    if what not in _said:
        _said.add(what)
        warnings.warn(f"{what}: {why}; NUMBA_CACHE_DIR can name another folder.", LuceWarning, stacklevel=2)


_NOT_KEPT = "What is compiled is not kept, and compiled again next time"
_DAMAGED = "Compiled functions are damaged, and compiled again"


class _Files(IndexDataCacheFile):
    """The files of a cache, each with a digest at its end, where a pickle does not look."""

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(filepath) as stream:
            content = io.BytesIO()
            yield content
            stream.write(content.getvalue() + _digest(content.getvalue()))

    def _load_index(self) -> Any:
        try:
            return super()._load_index() if self._is_whole(self._index_path) else {}  # type: ignore[no-untyped-call]
        except (ImportError, AttributeError):  # of an earlier luce, some of whose types stand elsewhere now
            return {}

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)  # type: ignore[no-untyped-call]
        return super()._load_data(name) if self._is_whole(path) else None  # type: ignore[no-untyped-call]

    def _is_whole(self, path: str) -> bool:
        """Whether a file is there as it was written."""
        if not Path(path).exists():
            return False
        content = Path(path).read_bytes()
        size = len(content) - len(_digest(b""))
        if content[size:] == _digest(content[:size]):
            return True
        _say(_DAMAGED, f"{path} is not as it was written")
        return False


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


class _Cache(FunctionCache):
    """Numba's cache, which takes a compiled function for another one where anything differs that it was made of."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        name, stamp = f"{self._impl.filename_base}.whole", self._impl.locator.get_source_stamp()
        self._cache_file = _Files(self._cache_path, name, stamp)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """What was kept, or None."""
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except OSError as error:
            _say(_NOT_KEPT, f"{self._cache_path} cannot be read ({error.strerror})")
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled, where there is room."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            _say(_NOT_KEPT, f"{self._cache_path} cannot be written ({error.strerror})")

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        key: tuple[Any, ...] = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        return (*key, fingerprint(self._py_func))


def fingerprint(function: Any) -> str:
    """Digest of the code of a function, of all functions of luce that it calls, where they are, and their constants."""
    digest, seen, left = hashlib.sha256(), set(), [function]
    while left:
        here = left.pop()
        if here in seen:
            continue
        seen.add(here)
        digest.update(here.__module__.encode())  # by which what was compiled finds its parts again
        codes, names = [here.__code__], set[str]()
        for code in codes:
            plain: list[Any] = []
            for constant in code.co_consts:
                (codes if isinstance(constant, types.CodeType) else plain).append(constant)
            digest.update(code.co_code + repr((code.co_names, code.co_varnames, plain)).encode())
            names.update(code.co_names)
        for name in sorted(names):
            value = getattr(here.__globals__.get(name), "py_func", here.__globals__.get(name))
            if isinstance(value, types.FunctionType):
                if value.__module__.startswith("luce"):
                    left.append(value)
            elif isinstance(value, np.ndarray):
                digest.update(value.tobytes())
            elif isinstance(value, int | float | tuple | str | bytes | np.generic):
                digest.update(repr((name, value)).encode())
    return digest.hexdigest()
