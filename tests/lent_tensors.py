"""Tensors of "another library" over memory of the stand-in driver, for both protocols; nothing else knows how to."""

import ctypes
import os

import numpy as np

HERE, PINNED, ELSEWHERE = 0, 1, 2


def load_driver():
    lib = ctypes.CDLL(os.environ["DEEPJIT_CUDA_DRIVER"])
    lib.fake_cuda_allocate.restype = ctypes.c_void_p
    lib.fake_cuda_allocate.argtypes = [ctypes.c_size_t, ctypes.c_int]
    lib.fake_cuda_free.argtypes = [ctypes.c_void_p]
    lib.fake_cuda_stream.restype = ctypes.c_void_p
    lib.fake_cuda_write.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
    lib.fake_cuda_finish.argtypes = [ctypes.c_void_p]
    lib.fake_cuda_allocated.restype = ctypes.c_uint64
    lib.fake_cuda_take_counts.restype = Counts
    return lib


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in
                ("bytes_in", "bytes_out", "bytes_within", "launches", "graphs_made", "graphs_updated",
                 "graphs_launched", "graphs_uploaded", "captures", "waits")]  # fmt: skip


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("owner", ctypes.c_void_p), ("deleter", _Deleter)]

_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

CODES = {"i": 0, "u": 1, "f": 2, "b": 6}


class Memory:
    """Memory of the driver with an array's values, seen as an array: the device's memory is the host's here."""

    def __init__(self, driver, array, kind=HERE, lead=0):
        array = np.ascontiguousarray(array)
        self.driver = driver
        self.block = driver.fake_cuda_allocate(array.nbytes + lead or 1, kind)
        self.address = self.block + lead
        raw = (ctypes.c_uint8 * array.nbytes).from_address(self.address)
        self.seen = np.frombuffer(raw, array.dtype).reshape(array.shape)
        self.seen[...] = array

    def __del__(self):
        self.driver.fake_cuda_free(self.block)


class Dlpack:
    """A tensor with nothing but DLPack. `stream` is where the values come from: what a reader's stream waits for."""

    def __init__(self, memory, device=(2, 0), strides=None, lanes=1, code=None):
        self.memory, self.device, self.strides, self.lanes, self.code = memory, device, strides, lanes, code
        self.asked = []  # streams that were to wait
        self.freed = 0

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, stream=None):
        self.asked.append(stream)
        array = self.memory.seen
        managed = _Managed()
        self.shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        managed.tensor = _Tensor(self.memory.address, *self.device, array.ndim,
                                 CODES[array.dtype.kind] if self.code is None else self.code,
                                 array.dtype.itemsize * 8, self.lanes, self.shape, None, 0)  # fmt: skip
        if self.strides is not None:
            self.kept_strides = (ctypes.c_int64 * array.ndim)(*self.strides)
            managed.tensor.strides = self.kept_strides
        self.managed = managed
        return _new_capsule(ctypes.addressof(managed), b"dltensor", None)


class ArrayInterface:
    """A tensor with nothing but the CUDA array interface."""

    def __init__(self, memory, **changes):
        self.memory = memory
        array = memory.seen
        self.__cuda_array_interface__ = {
            "version": 3,
            "typestr": array.dtype.str,
            "shape": array.shape,
            "strides": None,
            "data": (memory.address, False),
            "stream": None,
        } | changes


def tensor_in(capsule):
    """What a DLPack capsule holds: address, device, shape, (code, bits)."""
    managed = ctypes.cast(_capsule_pointer(capsule, b"dltensor"), ctypes.POINTER(_Managed)).contents
    t = managed.tensor
    return t.data, (t.device_type, t.device_id), tuple(t.shape[: t.ndim]), (t.code, t.bits)
