// Tensors that lie on a device, of other libraries and of deepjit: DLPack and the CUDA array interface, both ways.
//
// Nothing is copied. Who hands a tensor over makes its stream and the reader's wait for each other on the device, as
// both protocols ask. All functions need the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <vector>

#include "deepjit/deepjit.hpp"

namespace deepjit::python {

namespace nb = nanobind;

// A tensor that somebody handed over.
struct Borrowed {
  DataType dtype = DataType::UNDEFINED;
  std::vector<int64_t> shape;
  void* data = nullptr;
  MemoryKind memory = MemoryKind::DEVICE;
  bool read_only = false;
  std::optional<void*> after;  // a stream whose work so far comes first
  nb::object owner;            // keeps the memory
};

// Whether the object lies on a device, or is one of deepjit's own.
bool is_on_device(nb::handle value);

// Takes a tensor for work on `stream` of `device` ("cuda:0"); `shared` when that work goes on after the call. With
// `on_host` tensors of the host are taken too. `what` names it in errors: INPUT_DTYPE, INPUT_SHAPE (not dense),
// ARGUMENT (another device).
Borrowed borrow(nb::handle value, const std::string& what, const std::string& device, void* stream, bool shared,
                bool on_host);

// A fresh deepjit.DeviceTensor of an output that stays on the device.
nb::object device_tensor(const Output& output);

// The handle of a stream: a number, or an object of PyTorch, CuPy or cuda.core.
void* stream_handle(nb::handle stream);

void bind_device_tensor(nb::module_& m);

}  // namespace deepjit::python
