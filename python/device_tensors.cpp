#include "device_tensors.h"

#include <array>
#include <cstring>
#include <memory>

#include "arrays.h"
#include "dlpack.h"

namespace deepjit::python {

namespace {

using namespace nanobind::literals;

constexpr int kInputDtype = 502;
constexpr int kInputShape = 503;
constexpr int kArgument = 804;

struct TypePair {
  DataType dtype;
  dlpack::Type type;
  const char* typestr;  // of the CUDA array interface; nullptr: it has none
};

constexpr TypePair kTypes[] = {
    {DataType::FLOAT32, {dlpack::FLOAT, 32, 1}, "<f4"}, {DataType::FLOAT16, {dlpack::FLOAT, 16, 1}, "<f2"},
    {DataType::FLOAT64, {dlpack::FLOAT, 64, 1}, "<f8"}, {DataType::BFLOAT16, {dlpack::BFLOAT, 16, 1}, nullptr},
    {DataType::INT64, {dlpack::INT, 64, 1}, "<i8"},     {DataType::INT32, {dlpack::INT, 32, 1}, "<i4"},
    {DataType::INT16, {dlpack::INT, 16, 1}, "<i2"},     {DataType::INT8, {dlpack::INT, 8, 1}, "|i1"},
    {DataType::UINT64, {dlpack::UINT, 64, 1}, "<u8"},   {DataType::UINT32, {dlpack::UINT, 32, 1}, "<u4"},
    {DataType::UINT16, {dlpack::UINT, 16, 1}, "<u2"},   {DataType::UINT8, {dlpack::UINT, 8, 1}, "|u1"},
    {DataType::BOOL, {dlpack::BOOL, 8, 1}, "|b1"},
};

const TypePair* pair_of(DataType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) return &pair;
  }
  return nullptr;
}

// An output that stays on the device, as a Python object.
struct DeviceTensor {
  Output output;

  size_t bytes() const {
    size_t bytes = data_type_size(output.dtype);
    for (int64_t d : output.shape) bytes *= static_cast<size_t>(d);
    return bytes;
  }
  dlpack::Device device() const {
    const std::string name = output.owner.device();
    const size_t colon = name.find(':');
    if (name.compare(0, 4, "cuda") != 0) return {dlpack::CPU, 0};  // the null device's memory is the host's
    return {dlpack::CUDA, colon == std::string::npos ? 0 : std::stoi(name.substr(colon + 1))};
  }
};

// Streams as the protocols number them: 1 is CUDA's legacy default stream, which the driver also knows as 0.
uintptr_t protocol_stream(void* handle) { return handle == nullptr ? 1 : reinterpret_cast<uintptr_t>(handle); }

bool is_dense(const std::vector<int64_t>& shape, const int64_t* strides, int64_t unit) {
  int64_t expected = unit;
  for (int64_t d : shape) {
    if (d == 0) return true;
  }
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

Error not_dense(const std::string& what) {
  return Error(kInputShape, what + " is not dense and row-major",
               "make it contiguous first: x.contiguous() in PyTorch");
}

void check_device(const std::string& what, const std::string& device, dlpack::Device given) {
  const std::string name = "cuda:" + std::to_string(given.number);
  if (device == name) return;
  throw Error(kArgument, what + " lies on " + name + ", the engine runs on " + (device == "cpu" ? "the CPU" : device),
              device == "cpu" ? "copy it to the host first" : "copy it there, or load the engine for its device");
}

void fill_from(const dlpack::Tensor& tensor, const std::string& what, const std::string& device, Borrowed& out) {
  const bool managed = tensor.device.type == dlpack::CUDA_MANAGED;
  if (tensor.device.type == dlpack::CUDA) check_device(what, device, tensor.device);
  if (managed && device == "cpu") check_device(what, device, tensor.device);
  out.memory = tensor.device.type == dlpack::CUDA || managed ? MemoryKind::DEVICE : MemoryKind::HOST;
  for (const TypePair& pair : kTypes) {
    const dlpack::Type& type = tensor.type;
    if (pair.type.code == type.code && pair.type.bits == type.bits && type.lanes == 1) out.dtype = pair.dtype;
  }
  if (out.dtype == DataType::UNDEFINED) {
    throw Error(kInputDtype, what + ": there is no such element type: DLPack's code " +
                                 std::to_string(tensor.type.code) + " of " + std::to_string(tensor.type.bits) +
                                 " bits");
  }
  out.shape.assign(tensor.shape, tensor.shape + tensor.rank);
  if (tensor.strides != nullptr && !is_dense(out.shape, tensor.strides, 1)) throw not_dense(what);
  out.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

// Whoever made the tensor makes `stream` wait for it. The capsule frees the tensor with itself.
void take_dlpack(nb::handle value, const std::string& what, const std::string& device, dlpack::Device where,
                 void* stream, Borrowed& out) {
  const bool on_device = where.type == dlpack::CUDA || where.type == dlpack::CUDA_MANAGED;
  if (on_device) check_device(what, device, where.type == dlpack::CUDA ? where : dlpack::Device{2, 0});
  try {
    out.owner = on_device ? value.attr("__dlpack__")("stream"_a = protocol_stream(stream)) : value.attr("__dlpack__")();
  } catch (nb::python_error& error) {
    throw Error(kInputDtype, what + " cannot be taken as a DLPack tensor: " + nb::str(error.value()).c_str());
  }
  if (auto* plain = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(out.owner.ptr(), "dltensor"))) {
    return fill_from(plain->tensor, what, device, out);
  }
  PyErr_Clear();
  auto* versioned = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(out.owner.ptr(), "dltensor_versioned"));
  PyErr_Clear();
  if (versioned == nullptr || versioned->major != 1) {
    throw Error(kInputDtype, what + ": its DLPack capsule is used up, or of another version");
  }
  out.read_only = (versioned->flags & dlpack::kReadOnly) != 0;
  fill_from(versioned->tensor, what, device, out);
}

void take_array_interface(nb::handle value, const std::string& what, const std::string& device, Borrowed& out) {
  if (device.compare(0, 4, "cuda") != 0) check_device(what, device, {dlpack::CUDA, 0});
  try {
    const auto interface = nb::cast<nb::dict>(value.attr("__cuda_array_interface__"));
    const auto typestr = nb::cast<std::string>(interface["typestr"]);
    for (const TypePair& pair : kTypes) {
      if (pair.typestr != nullptr && typestr == pair.typestr) out.dtype = pair.dtype;
    }
    if (out.dtype == DataType::UNDEFINED) throw Error(kInputDtype, what + ": there is no element type " + typestr);
    for (nb::handle d : interface["shape"]) out.shape.push_back(nb::cast<int64_t>(d));
    const nb::object data = interface["data"];
    out.data = reinterpret_cast<void*>(nb::cast<uintptr_t>(data[0]));
    out.read_only = nb::cast<bool>(data[1]);
    if (interface.contains("mask") && !nb::object(interface["mask"]).is_none()) {
      throw Error(kInputDtype, what + " has a mask");
    }
    if (interface.contains("strides") && !nb::object(interface["strides"]).is_none()) {
      std::vector<int64_t> strides;
      for (nb::handle d : interface["strides"]) strides.push_back(nb::cast<int64_t>(d));
      if (strides.size() != out.shape.size() ||
          !is_dense(out.shape, strides.data(), static_cast<int64_t>(data_type_size(out.dtype)))) {
        throw not_dense(what);
      }
    }
    if (interface.contains("stream") && !nb::object(interface["stream"]).is_none()) {
      const auto number = nb::cast<uintptr_t>(interface["stream"]);
      if (number == 0)
        throw Error(kArgument, what + ": its stream is 0, which the CUDA array interface does not allow");
      out.after = reinterpret_cast<void*>(number);
    }
    out.owner = nb::borrow(value);
  } catch (nb::python_error& error) {
    throw Error(kInputDtype, what + ": its CUDA array interface is not right: " + nb::str(error.value()).c_str());
  } catch (const nb::cast_error&) {
    throw Error(kInputDtype, what + ": its CUDA array interface is not right");
  }
}

// {0, 0} when the object does not say.
dlpack::Device dlpack_device(nb::handle value) {
  if (!PyObject_HasAttrString(value.ptr(), "__dlpack_device__")) return {};
  try {
    const nb::object told = value.attr("__dlpack_device__")();
    return {nb::cast<int32_t>(nb::int_(told[0])), nb::cast<int32_t>(nb::int_(told[1]))};
  } catch (nb::python_error&) {
    return {};
  } catch (const nb::cast_error&) {
    return {};
  }
}

bool is_cuda(dlpack::Device device) { return device.type == dlpack::CUDA || device.type == dlpack::CUDA_MANAGED; }

// What an exported tensor needs as long as anyone has it.
struct Exported {
  DeviceTensor tensor;
  std::vector<int64_t> strides;
  dlpack::Managed plain;
  dlpack::ManagedVersioned versioned;
};

std::unique_ptr<Exported> exported(const DeviceTensor& tensor) {
  const TypePair* type = pair_of(tensor.output.dtype);
  if (type == nullptr) {
    PyErr_SetString(PyExc_BufferError, ("DLPack has no type for " + data_type_name(tensor.output.dtype)).c_str());
    throw nb::python_error();
  }
  auto made = std::make_unique<Exported>();
  made->tensor = tensor;
  std::vector<int64_t>& shape = made->tensor.output.shape;
  made->strides.assign(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) made->strides[i - 1] = made->strides[i] * shape[i];
  dlpack::Tensor& own = made->plain.tensor;
  own = {const_cast<void*>(tensor.output.data),
         tensor.device(),
         static_cast<int32_t>(shape.size()),
         type->type,
         shape.data(),
         made->strides.data(),
         0};
  made->versioned.tensor = own;
  made->plain.owner = made->versioned.owner = made.get();
  made->plain.deleter = [](dlpack::Managed* self) { delete static_cast<Exported*>(self->owner); };
  made->versioned.deleter = [](dlpack::ManagedVersioned* self) { delete static_cast<Exported*>(self->owner); };
  return made;
}

// A capsule that nobody took frees what is in it.
template <typename T>
nb::object capsule_of(T* managed, const char* name) {
  PyObject* made = PyCapsule_New(managed, name, [](PyObject* capsule) {
    for (const char* own : {"dltensor", "dltensor_versioned"}) {
      if (PyCapsule_IsValid(capsule, own) == 0) continue;
      auto* held = static_cast<T*>(PyCapsule_GetPointer(capsule, own));
      held->deleter(held);
    }
  });
  if (made == nullptr) throw nb::python_error();
  return nb::steal(made);
}

[[noreturn]] void buffer_error(const char* text) {
  PyErr_SetString(PyExc_BufferError, text);
  throw nb::python_error();
}

nb::object to_dlpack(const DeviceTensor& self, nb::handle stream, nb::handle max_version, nb::handle dl_device,
                     nb::handle copy) {
  if (!copy.is_none() && nb::cast<bool>(copy)) buffer_error("deepjit makes no copies here");
  const dlpack::Device device = self.device();
  if (!dl_device.is_none() && nb::cast<int>(nb::int_(dl_device[0])) != device.type) {
    buffer_error("deepjit copies to no other device");
  }
  const int64_t number = stream.is_none() ? 1 : nb::cast<int64_t>(stream);
  self.output.owner.share();
  if (number == -1 || device.type == dlpack::CPU) {
    self.output.owner.wait();
  } else {
    self.output.owner.wait_on(reinterpret_cast<void*>(number));
  }
  auto made = exported(self);
  const bool versioned = !max_version.is_none() && nb::cast<int>(max_version[0]) >= 1;
  nb::object capsule =
      versioned ? capsule_of(&made->versioned, "dltensor_versioned") : capsule_of(&made->plain, "dltensor");
  static_cast<void>(made.release());  // the capsule has it
  return capsule;
}

nb::tuple tuple_of(const std::vector<int64_t>& values) {
  nb::list list;
  for (int64_t v : values) list.append(v);
  return nb::tuple(list);
}

nb::dict array_interface(const DeviceTensor& self) {
  const TypePair* type = pair_of(self.output.dtype);
  if (type == nullptr || type->typestr == nullptr || self.device().type != dlpack::CUDA) {
    PyErr_SetString(PyExc_AttributeError, "this tensor has no CUDA array interface");
    throw nb::python_error();
  }
  self.output.owner.share();
  nb::dict interface;
  interface["version"] = 3;
  interface["typestr"] = type->typestr;
  interface["shape"] = tuple_of(self.output.shape);
  interface["strides"] = nb::none();
  interface["data"] = nb::make_tuple(reinterpret_cast<uintptr_t>(self.output.data), false);
  const std::optional<void*> stream = self.output.owner.stream();
  interface["stream"] = stream ? nb::object(nb::int_(protocol_stream(*stream))) : nb::object(nb::none());
  return interface;
}

nb::object to_numpy(const DeviceTensor& self) {
  void* data = nullptr;
  nb::object array = new_array(self.output.dtype, self.output.shape, &data);
  {
    const nb::gil_scoped_release release;
    self.output.owner.read(data, self.bytes());
  }
  to_python_packed({"", self.output.dtype, self.output.shape, data});
  return array;
}

}  // namespace

bool is_on_device(nb::handle value) {
  if (nb::isinstance<DeviceTensor>(value)) return true;
  const dlpack::Device device = dlpack_device(value);
  if (device.type != 0) return is_cuda(device);
  return PyObject_HasAttrString(value.ptr(), "__cuda_array_interface__") != 0;
}

Borrowed borrow(nb::handle value, const std::string& what, const std::string& device, void* stream, bool shared,
                bool on_host) {
  Borrowed out;
  if (const DeviceTensor* own = nullptr; nb::try_cast(value, own) && own != nullptr) {
    const DeviceMemory& memory = own->output.owner;
    if (memory.device() != device) {
      throw Error(kArgument, what + " lies on " + memory.device() + ", the engine runs on " + device,
                  "load both engines for one device");
    }
    if (memory.stream()) memory.wait_on(stream);
    if (shared) memory.share();
    out.dtype = own->output.dtype;
    out.shape = own->output.shape;
    out.data = const_cast<void*>(own->output.data);
    out.owner = nb::borrow(value);
    return out;
  }
  const dlpack::Device where = dlpack_device(value);
  if (is_cuda(where) || (on_host && where.type != 0)) {
    take_dlpack(value, what, device, where, stream, out);
  } else if (where.type == 0 && PyObject_HasAttrString(value.ptr(), "__cuda_array_interface__") != 0) {
    take_array_interface(value, what, device, out);
  } else {
    throw Error(kInputDtype, what + " is no tensor that deepjit knows",
                "give a NumPy array, or an object with __dlpack__ or __cuda_array_interface__");
  }
  return out;
}

nb::object device_tensor(const Output& output) {
  return nb::cast(new DeviceTensor{output}, nb::rv_policy::take_ownership);
}

void* stream_handle(nb::handle stream) {
  nb::object number = nb::borrow(stream);
  if (PyObject_HasAttrString(stream.ptr(), "__cuda_stream__")) {
    nb::object told = stream.attr("__cuda_stream__");
    if (PyCallable_Check(told.ptr()) != 0) told = told();
    number = told[1];
  } else if (PyObject_HasAttrString(stream.ptr(), "cuda_stream")) {  // PyTorch
    number = stream.attr("cuda_stream");
  } else if (PyObject_HasAttrString(stream.ptr(), "ptr")) {  // CuPy
    number = stream.attr("ptr");
  }
  if (!PyLong_Check(number.ptr())) {
    throw Error(kArgument, "a stream must be a number or a stream of PyTorch, CuPy or cuda.core");
  }
  return reinterpret_cast<void*>(nb::cast<uintptr_t>(number));
}

void bind_device_tensor(nb::module_& m) {
  nb::class_<DeviceTensor>(m, "DeviceTensor",
                           "An output that stays on the device, with memory of its own. torch.from_dlpack(y),\n"
                           "cupy.asarray(y) and other engines read it where it lies; y.numpy() copies it.")
      .def_prop_ro("name", [](const DeviceTensor& self) { return self.output.name; })
      .def_prop_ro("dtype", [](const DeviceTensor& self) { return dtype_object(self.output.dtype); })
      .def_prop_ro("shape", [](const DeviceTensor& self) { return tuple_of(self.output.shape); })
      .def_prop_ro("nbytes", &DeviceTensor::bytes)
      .def_prop_ro("device", [](const DeviceTensor& self) { return self.output.owner.device(); })
      .def("numpy", &to_numpy, "A copy in host memory; waits for the run that makes the tensor.")
      .def("__dlpack__", &to_dlpack, nb::kw_only(), "stream"_a = nb::none(), "max_version"_a = nb::none(),
           "dl_device"_a = nb::none(), "copy"_a = nb::none())
      .def("__dlpack_device__",
           [](const DeviceTensor& self) { return nb::make_tuple(self.device().type, self.device().number); })
      .def_prop_ro("__cuda_array_interface__", &array_interface)
      .def("__repr__", [](const DeviceTensor& self) {
        std::string text = "<" + self.output.name + ": " + data_type_name(self.output.dtype) + "[";
        for (size_t i = 0; i < self.output.shape.size(); ++i) {
          text += (i ? ", " : "") + std::to_string(self.output.shape[i]);
        }
        return text + "] on " + self.output.owner.device() + ">";
      });
}

}  // namespace deepjit::python
