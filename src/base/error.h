// Error codes and the one exception type of the build side.
//
// Every failure a user can see has a stable number. The table below is the only
// source: it makes the enum, the names, the Python attributes and docs/errors.md.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace deepjit {

// X(number, NAME, meaning)
#define DEEPJIT_ERROR_TABLE(X)                                                    \
  X(101, PARSE, "the bytes are not a valid ONNX protobuf")                        \
  X(102, TRUNCATED, "the bytes end too early")                                    \
  X(103, LIMIT, "a count or size limit is exceeded")                              \
  X(104, DEPTH, "graphs or functions nest too deep")                              \
  X(105, UTF8, "a name is not valid UTF-8")                                       \
  X(201, GRAPH_CYCLE, "nodes form a cycle, or functions call each other")         \
  X(202, DUPLICATE_NAME, "two values, inputs or initializers share a name")       \
  X(203, SHAPE_MISMATCH, "shapes do not fit together")                            \
  X(204, UNDEFINED_VALUE, "a node or output reads a value nobody defines")        \
  X(205, ARITY, "a node has too few or too many inputs or outputs")               \
  X(206, TYPE, "an element type is not allowed here")                             \
  X(207, SHAPE_OVERFLOW, "a product of dimensions overflows")                     \
  X(208, UNSUPPORTED_OP, "an operator, domain or version is not supported")       \
  X(209, ATTRIBUTE, "an attribute is missing, has a wrong type or a bad value")   \
  X(210, TENSOR_DATA, "the data of a constant does not fit its type and shape")   \
  X(211, OPSET, "the opset version or IR version is not supported")               \
  X(301, EXTERNAL_PATH, "external data points outside the model's folder")        \
  X(302, EXTERNAL_RANGE, "external data offset or length is out of the file")     \
  X(303, EXTERNAL_NOT_REGULAR_FILE, "external data is not a plain file")          \
  X(304, FILE_NOT_FOUND, "a file cannot be opened")                               \
  X(401, ENGINE_MAGIC, "the file is not a deepjit engine")                        \
  X(402, ENGINE_VERSION, "the engine's format version is not supported")          \
  X(403, ENGINE_CHECKSUM, "the engine is damaged: a checksum does not match")     \
  X(404, ENGINE_INCOMPATIBLE, "the engine was built for another device or build") \
  X(405, ENGINE_RANGE, "the engine is damaged: a field is out of range")          \
  X(406, ENGINE_CHANGED, "the engine file was changed while it was in use")       \
  X(501, INPUT_NAME, "an input is missing or unknown")                            \
  X(502, INPUT_DTYPE, "an input has the wrong element type")                      \
  X(503, INPUT_SHAPE, "an input has the wrong rank or a wrong fixed dimension")   \
  X(504, OUT_OF_RANGE, "an input shape is outside the engine's shape range")      \
  X(505, INDEX_RANGE, "an index in the data is out of range")                     \
  X(506, RUN_VALUE, "a run-time value is not allowed here")                       \
  X(601, HOST_OOM, "host memory is exhausted")                                    \
  X(602, DEVICE_OOM, "device memory is exhausted")                                \
  X(603, DISK_FULL, "a file cannot be written")                                   \
  X(604, BUSY, "a resource is in use")                                            \
  X(701, DEVICE_LOST, "the device failed and cannot be used any more")            \
  X(702, DRIVER_MISMATCH, "the driver is too old or does not match")              \
  X(703, LIBRARY_MISSING, "a device library is not installed")                    \
  X(704, DEVICE_MISSING, "the machine has no such device")                        \
  X(705, NO_DEVICE_KERNEL, "the device has no kernel for a step of the model")    \
  X(801, CONCURRENT_USE, "a context is used by two threads at once")              \
  X(802, AFTER_FORK, "a context is used in a forked child")                       \
  X(803, STATE, "a call is not allowed in this state")                            \
  X(804, ARGUMENT, "an argument or option has a bad value")                       \
  X(900, INTERNAL, "a bug in deepjit")

enum class Code : int {
  OK = 0,
#define X(number, name, meaning) name = number,
  DEEPJIT_ERROR_TABLE(X)
#undef X
};

// "SHAPE_MISMATCH" for Code::SHAPE_MISMATCH; "OK" for Code::OK.
std::string_view code_name(Code code);

// The meaning column of the table.
std::string_view code_meaning(Code code);

// A failure with its code, one line of text, and an optional hint line that says what to do.
class Error : public std::exception {
 public:
  Error(Code code, std::string message, std::string hint = "");

  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }

  // error[E203 SHAPE_MISMATCH]: message\nhint: ...   (no hint line when the hint is empty)
  const char* what() const noexcept override { return text_.c_str(); }

  // The same error with `prefix` put before its message; used to add the node's name on the way up.
  Error with_prefix(const std::string& prefix) const;

 private:
  Code code_;
  std::string message_;
  std::string hint_;
  std::string text_;
};

// Throws Error(INTERNAL) when `condition` is false: for invariants of our own, never for user input.
void check_internal(bool condition, std::string_view what);

}  // namespace deepjit
