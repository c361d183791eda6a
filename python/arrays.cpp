#include "arrays.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>

#include <array>
#include <cstring>

namespace deepjit::python {

namespace {

constexpr int kInputName = 501;
constexpr int kInputDtype = 502;
constexpr int kInputShape = 503;
constexpr int kHostOom = 601;
constexpr int kLibraryMissing = 703;
constexpr int kArgument = 804;

struct TypePair {
  DataType dtype;
  int number;        // NumPy's type number, or -1
  const char* name;  // of the type in ml_dtypes
};

// NPY_LONGLONG is a second name of int64 where long has 64 bits.
constexpr TypePair kTypes[] = {
    {DataType::FLOAT32, NPY_FLOAT32, nullptr},
    {DataType::FLOAT64, NPY_FLOAT64, nullptr},
    {DataType::FLOAT16, NPY_FLOAT16, nullptr},
    {DataType::INT64, NPY_INT64, nullptr},
    {DataType::INT32, NPY_INT32, nullptr},
    {DataType::INT16, NPY_INT16, nullptr},
    {DataType::INT8, NPY_INT8, nullptr},
    {DataType::UINT64, NPY_UINT64, nullptr},
    {DataType::UINT32, NPY_UINT32, nullptr},
    {DataType::UINT16, NPY_UINT16, nullptr},
    {DataType::UINT8, NPY_UINT8, nullptr},
    {DataType::BOOL, NPY_BOOL, nullptr},
    {DataType::INT64, NPY_LONGLONG, nullptr},
    {DataType::UINT64, NPY_ULONGLONG, nullptr},
    {DataType::STRING, NPY_OBJECT, nullptr},
    {DataType::BFLOAT16, -1, "bfloat16"},
    {DataType::FLOAT8E4M3FN, -1, "float8_e4m3fn"},
    {DataType::FLOAT8E4M3FNUZ, -1, "float8_e4m3fnuz"},
    {DataType::FLOAT8E5M2, -1, "float8_e5m2"},
    {DataType::FLOAT8E5M2FNUZ, -1, "float8_e5m2fnuz"},
    {DataType::FLOAT8E8M0, -1, "float8_e8m0fnu"},
    {DataType::FLOAT4E2M1, -1, "float4_e2m1fn"},
    {DataType::INT4, -1, "int4"},
    {DataType::UINT4, -1, "uint4"},
    {DataType::INT2, -1, "int2"},
    {DataType::UINT2, -1, "uint2"},
};

// The bits that an element of a packed type uses of its byte; 0 for all other types.
int packed_mask(DataType dtype) {
  if (dtype == DataType::INT4 || dtype == DataType::UINT4 || dtype == DataType::FLOAT4E2M1) return 15;
  return dtype == DataType::INT2 || dtype == DataType::UINT2 ? 3 : 0;
}

// The text of the Python exception in flight, which is cleared.
std::string take_python_error() {
  nb::python_error error;
  return nb::str(error.value()).c_str();
}

// Borrowed np.dtype of an element type, kept for ever; nullptr when ml_dtypes is not installed.
PyArray_Descr* descriptor(DataType dtype) {
  static std::array<PyArray_Descr*, 32> known{};
  if (static_cast<size_t>(dtype) >= known.size()) return nullptr;  // sequences and optionals
  PyArray_Descr*& slot = known.at(static_cast<size_t>(dtype));
  if (slot != nullptr) return slot;
  for (const TypePair& pair : kTypes) {
    if (pair.dtype != dtype) continue;
    if (pair.number >= 0) return slot = PyArray_DescrFromType(pair.number);
    PyObject* module = PyImport_ImportModule("ml_dtypes");
    PyObject* type = module ? PyObject_GetAttrString(module, pair.name) : nullptr;
    Py_XDECREF(module);
    if (type == nullptr || PyArray_DescrConverter(type, &slot) == NPY_FAIL) slot = nullptr;
    Py_XDECREF(type);
    if (slot == nullptr) PyErr_Clear();
    return slot;
  }
  return nullptr;
}

// The element type of an array, UNDEFINED when it is none of ours. Types of ml_dtypes are known by their name.
DataType element_type(PyArrayObject* array) {
  const int number = PyArray_TYPE(array);
  for (const TypePair& pair : kTypes) {
    if (pair.number == number) return pair.dtype;
  }
  if (number == NPY_UNICODE || number == NPY_STRING) return DataType::STRING;
  const char* full = PyArray_DESCR(array)->typeobj->tp_name;
  const char* dot = std::strrchr(full, '.');
  const char* name = dot ? dot + 1 : full;
  for (const TypePair& pair : kTypes) {
    if (pair.name != nullptr && std::strcmp(pair.name, name) == 0) return pair.dtype;
  }
  return DataType::UNDEFINED;
}

std::string type_text(PyArrayObject* array) { return nb::str(nb::handle((PyObject*)PyArray_DESCR(array))).c_str(); }

// New reference to a NumPy array over `value`, which is the same memory where that is possible.
nb::object as_array(nb::handle value, const std::string& what) {
  if (PyArray_Check(value.ptr())) return nb::borrow(value);
  PyObject* made = nullptr;
  if (PyObject_HasAttrString(value.ptr(), "__dlpack__")) {
    const nb::object from_dlpack = nb::module_::import_("numpy").attr("from_dlpack");
    made = PyObject_CallOneArg(from_dlpack.ptr(), value.ptr());
  } else {
    made = PyArray_FromAny(value.ptr(), nullptr, 0, 0, 0, nullptr);
  }
  if (made == nullptr) {
    throw Error(kInputDtype, what + " cannot be taken as a NumPy array: " + take_python_error(),
                "pass a NumPy array or a DLPack tensor in host memory");
  }
  return nb::steal(made);
}

// The array dense, aligned and in row-major order: itself, or a copy.
nb::object as_dense(const nb::object& array) {
  auto* source = reinterpret_cast<PyArrayObject*>(array.ptr());
  PyObject* made = PyArray_FromArray(source, nullptr, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED);
  if (made == nullptr) throw Error(kHostOom, "cannot copy an input: " + take_python_error());
  return nb::steal(made);
}

// Packed types of other makers leave the rest of the byte open: it becomes sign or zero here.
nb::object with_clean_bytes(const nb::object& array, DataType dtype) {
  auto* source = reinterpret_cast<PyArrayObject*>(array.ptr());
  nb::object copy = nb::steal(PyArray_NewCopy(source, NPY_CORDER));
  auto* target = reinterpret_cast<PyArrayObject*>(copy.ptr());
  if (target == nullptr) throw Error(kHostOom, "cannot copy an input: " + take_python_error());
  auto* bytes = static_cast<uint8_t*>(PyArray_DATA(target));
  const int mask = packed_mask(dtype);
  const bool has_sign = dtype == DataType::INT4 || dtype == DataType::INT2;
  for (npy_intp i = 0; i < PyArray_SIZE(target); ++i) {
    const int low = bytes[i] & mask;
    bytes[i] = static_cast<uint8_t>(has_sign && low > mask / 2 ? low - mask - 1 : low);
  }
  return copy;
}

std::string utf8(PyObject* item, const std::string& what) {
  Py_ssize_t size = 0;
  if (PyBytes_Check(item)) return {PyBytes_AS_STRING(item), static_cast<size_t>(PyBytes_GET_SIZE(item))};
  const char* text = PyUnicode_Check(item) ? PyUnicode_AsUTF8AndSize(item, &size) : nullptr;
  if (text == nullptr) {
    PyErr_Clear();
    throw Error(kInputDtype, what + ": an element is not a string");
  }
  return {text, static_cast<size_t>(size)};
}

std::unique_ptr<std::vector<std::string>> to_strings(const nb::object& array, const std::string& what) {
  auto* source = reinterpret_cast<PyArrayObject*>(array.ptr());
  const nb::object objects =
      nb::steal(PyArray_FromArray(source, PyArray_DescrFromType(NPY_OBJECT), NPY_ARRAY_CARRAY_RO));
  if (!objects.is_valid()) throw Error(kInputDtype, what + ": " + take_python_error());
  auto* dense = reinterpret_cast<PyArrayObject*>(objects.ptr());
  auto* items = static_cast<PyObject**>(PyArray_DATA(dense));
  auto strings = std::make_unique<std::vector<std::string>>();
  for (npy_intp i = 0; i < PyArray_SIZE(dense); ++i) strings->push_back(utf8(items[i], what));
  if (strings->empty()) strings->reserve(1);  // data() must not be null
  return strings;
}

// Who reads or writes tensors on a device.
struct Reader {
  std::string device;
  void* stream = nullptr;
  bool shared = false;
};

const TensorInfo* find_info(const Engine& engine, const std::string& name) {
  for (const TensorInfo& info : engine.inputs()) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

void fill_on_device(Feeds& feeds, const std::string& what, nb::handle value, const Reader& reader, Input& input) {
  Borrowed tensor = borrow(value, what, reader.device, reader.stream, reader.shared, false);
  input.dtype = tensor.dtype;
  input.shape = std::move(tensor.shape);
  input.data = tensor.data;
  input.memory = tensor.memory;
  if (tensor.after) feeds.after.push_back(*tensor.after);
  feeds.owners.push_back(std::move(tensor.owner));
}

// One array of the type that `info` says; `what` names it in errors.
void fill_array(Feeds& feeds, const TensorInfo& info, const std::string& what, nb::handle value, Input& input) {
  nb::object array = as_array(value, what);
  auto* numpy = reinterpret_cast<PyArrayObject*>(array.ptr());
  input.dtype = element_type(numpy);
  const bool strings = info.dtype == DataType::STRING;
  const bool usable = input.dtype != DataType::UNDEFINED && (strings || input.dtype != DataType::STRING);
  if (!usable || (!strings && !PyArray_ISNOTSWAPPED(numpy))) {
    throw Error(kInputDtype, what + ": expected " + data_type_name(info.dtype) + ", got " + type_text(numpy) +
                                 (usable ? " in another byte order" : ""));
  }
  const int rank = PyArray_NDIM(numpy);
  if (rank > 16) throw Error(kInputShape, what + " has rank " + std::to_string(rank));
  input.shape.assign(PyArray_DIMS(numpy), PyArray_DIMS(numpy) + rank);
  if (strings && input.dtype == DataType::STRING) {
    feeds.strings.push_back(to_strings(array, what));
    input.data = feeds.strings.back()->data();
    return;
  }
  array = packed_mask(input.dtype) != 0 ? with_clean_bytes(array, input.dtype) : as_dense(array);
  input.data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(array.ptr()));
  feeds.owners.push_back(std::move(array));
}

void fill(Feeds& feeds, const TensorInfo& info, const std::string& what, nb::handle value, const Reader& reader,
          Input& input) {
  if (info.element.empty()) {
    if (!PyArray_Check(value.ptr()) && is_on_device(value)) return fill_on_device(feeds, what, value, reader, input);
    return fill_array(feeds, info, what, value, input);
  }
  const bool sequence = info.dtype == DataType::SEQUENCE;
  if (sequence && !PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr())) {
    throw Error(kInputDtype, what + ": expected a list of arrays", "pass a list or a tuple for a sequence");
  }
  std::vector<nb::object> items;
  if (sequence) {
    for (nb::handle item : value) items.push_back(nb::borrow(item));
  } else if (!value.is_none()) {
    items.push_back(nb::borrow(value));
  }
  std::vector<Input>& elements = feeds.elements.emplace_back(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    fill(feeds, info.element[0], what + ", element " + std::to_string(i), items[i], reader, elements[i]);
    if (elements[i].memory == MemoryKind::DEVICE) {
      throw Error(kInputDtype, what + ": the elements of a " + data_type_name(info.dtype) + " lie on the host");
    }
  }
  input.dtype = info.dtype;
  input.shape = {static_cast<int64_t>(items.size())};
  input.data = elements.data();
}

void add(Feeds& feeds, const Engine& engine, const Reader& reader, nb::handle key, nb::handle value) {
  if (!PyUnicode_Check(key.ptr())) throw Error(kInputName, "an input's name is not a string");
  Input input;
  input.name = nb::cast<std::string>(key);
  if (const TensorInfo* info = find_info(engine, input.name)) {
    fill(feeds, *info, "input \"" + input.name + "\"", value, reader, input);
  } else {
    input.dtype = DataType::UINT8;  // the name is refused before anything else is looked at
    input.data = &feeds;
  }
  feeds.inputs.push_back(std::move(input));
}

int import_array_interface() {
  import_array1(-1);
  return 0;
}

}  // namespace

void import_numpy() {
  if (import_array_interface() != 0) throw nb::python_error();
}

OpResult to_result(nb::handle value, const std::string& what) {
  nb::object array = as_array(value, what);
  auto* numpy = reinterpret_cast<PyArrayObject*>(array.ptr());
  const DataType dtype = element_type(numpy);
  if (dtype == DataType::UNDEFINED || dtype == DataType::STRING || !PyArray_ISNOTSWAPPED(numpy)) {
    throw Error(kInputDtype, what + " is " + type_text(numpy), "return arrays of numbers");
  }
  const int rank = PyArray_NDIM(numpy);
  if (rank > 16) throw Error(kInputShape, what + " has rank " + std::to_string(rank));
  array = as_dense(array);
  auto* dense = reinterpret_cast<PyArrayObject*>(array.ptr());
  OpResult result(dtype, {PyArray_DIMS(dense), PyArray_DIMS(dense) + rank});
  if (!result.bytes.empty()) std::memcpy(result.bytes.data(), PyArray_DATA(dense), result.bytes.size());
  return result;
}

Feeds gather_arrays(const nb::dict& feeds, const std::string& what) {
  Feeds out;
  TensorInfo info;
  info.dtype = DataType::FLOAT32;  // for the text of errors
  for (const auto& [key, value] : feeds) {
    Input& input = out.inputs.emplace_back();
    input.name = nb::cast<std::string>(key);
    fill_array(out, info, what + " \"" + input.name + "\"", value, input);
  }
  return out;
}

Feeds gather(nb::handle mapping, const Engine& engine, void* stream, bool shared) {
  if (!PyDict_Check(mapping.ptr())) {
    throw Error(kInputName, "the inputs must be a dict of name to array", "run({\"x\": array})");
  }
  Feeds feeds;
  feeds.inputs.reserve(engine.inputs().size());
  const Reader reader{engine.device(), stream, shared};
  for (const auto& [key, value] : nb::borrow<nb::dict>(mapping)) add(feeds, engine, reader, key, value);
  return feeds;
}

namespace {

Target target_in(nb::handle value, const std::string& name, const Reader& reader, Targets& all) {
  const std::string what = "output \"" + name + "\"";
  if (PyArray_Check(value.ptr())) {
    auto* array = reinterpret_cast<PyArrayObject*>(value.ptr());
    if (!PyArray_ISCARRAY(array)) {
      throw Error(kArgument, what + " is to go to an array that is not dense, aligned and writeable",
                  "give an array as numpy.empty makes it");
    }
    return {name,
            element_type(array),
            {PyArray_DIMS(array), PyArray_DIMS(array) + PyArray_NDIM(array)},
            PyArray_DATA(array),
            MemoryKind::HOST};
  }
  Borrowed tensor = borrow(value, what, reader.device, reader.stream, reader.shared, true);
  if (tensor.read_only) throw Error(kArgument, what + " is to go to a tensor that is read-only");
  if (tensor.after) all.after.push_back(*tensor.after);
  all.owners.push_back(std::move(tensor.owner));
  return {name, tensor.dtype, std::move(tensor.shape), tensor.data, tensor.memory};
}

}  // namespace

Targets gather_targets(nb::handle given, const Engine& engine, void* stream, bool shared) {
  Targets all;
  if (given.is_none()) return all;
  if (!PyDict_Check(given.ptr())) throw Error(kArgument, "the outputs must be a dict of name to array");
  const Reader reader{engine.device(), stream, shared};
  for (const auto& [key, value] : nb::borrow<nb::dict>(given)) {
    if (!PyUnicode_Check(key.ptr())) throw Error(kArgument, "an output's name is not a string");
    const auto name = nb::cast<std::string>(key);
    all.targets.push_back(target_in(value, name, reader, all));
    all.objects[name] = nb::borrow(value);
  }
  return all;
}

nb::object new_array(DataType dtype, std::span<const int64_t> shape, void** data) {
  PyArray_Descr* type = descriptor(dtype);
  if (type == nullptr) {
    throw Error(kLibraryMissing, "NumPy has no type for an output of " + data_type_name(dtype),
                "pip install ml_dtypes");
  }
  std::array<npy_intp, 16> dims{};
  for (size_t i = 0; i < shape.size(); ++i) dims.at(i) = shape[i];
  Py_INCREF(type);
  PyObject* array = PyArray_NewFromDescr(&PyArray_Type, type, static_cast<int>(shape.size()), dims.data(), nullptr,
                                         nullptr, 0, nullptr);
  if (array == nullptr) throw Error(kHostOom, "cannot allocate an output: " + take_python_error());
  *data = PyArray_DATA(reinterpret_cast<PyArrayObject*>(array));
  return nb::steal(array);
}

void to_python_packed(const Output& output) {
  const int mask = packed_mask(output.dtype);
  if (mask == 0) return;
  size_t count = 1;
  for (int64_t d : output.shape) count *= static_cast<size_t>(d);
  auto* bytes = static_cast<uint8_t*>(const_cast<void*>(output.data));
  for (size_t i = 0; i < count; ++i) bytes[i] &= static_cast<uint8_t>(mask);
}

namespace {

nb::object string_array(const Output& output) {
  void* data = nullptr;
  nb::object array = new_array(DataType::STRING, output.shape, &data);
  auto** items = static_cast<PyObject**>(data);
  const auto* strings = static_cast<const std::string*>(output.data);
  const npy_intp count = PyArray_SIZE(reinterpret_cast<PyArrayObject*>(array.ptr()));
  for (npy_intp i = 0; i < count; ++i) {
    PyObject* text = PyUnicode_DecodeUTF8(strings[i].data(), static_cast<Py_ssize_t>(strings[i].size()), "replace");
    if (text == nullptr) throw nb::python_error();
    PyObject* before = items[i];
    items[i] = text;
    Py_XDECREF(before);
  }
  return array;
}

nb::object copied_array(const Output& output) {
  void* data = nullptr;
  nb::object array = new_array(output.dtype, output.shape, &data);
  auto* numpy = reinterpret_cast<PyArrayObject*>(array.ptr());
  if (PyArray_NBYTES(numpy) > 0) std::memcpy(data, output.data, static_cast<size_t>(PyArray_NBYTES(numpy)));
  to_python_packed({"", output.dtype, output.shape, data});
  return array;
}

}  // namespace

nb::object to_python(const Output& output) {
  if (output.dtype == DataType::STRING) return string_array(output);
  const auto* elements = static_cast<const Output*>(output.data);
  if (output.dtype == DataType::OPTIONAL) return output.shape[0] == 0 ? nb::none() : to_python(elements[0]);
  if (output.dtype != DataType::SEQUENCE) return copied_array(output);
  nb::list list;
  for (int64_t i = 0; i < output.shape[0]; ++i) list.append(to_python(elements[i]));
  return list;
}

nb::object dtype_object(DataType dtype) {
  if (PyArray_Descr* type = descriptor(dtype)) return nb::borrow(reinterpret_cast<PyObject*>(type));
  return nb::str(data_type_name(dtype).c_str());
}

}  // namespace deepjit::python
