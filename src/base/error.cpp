#include "base/error.h"

#include <utility>

namespace deepjit {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::OK:
      return "OK";
#define X(number, name, meaning) \
  case Code::name:               \
    return #name;
      DEEPJIT_ERROR_TABLE(X)
#undef X
  }
  return "UNKNOWN";
}

std::string_view code_meaning(Code code) {
  switch (code) {
    case Code::OK:
      return "success";
#define X(number, name, meaning) \
  case Code::name:               \
    return meaning;
      DEEPJIT_ERROR_TABLE(X)
#undef X
  }
  return "unknown";
}

Error::Error(Code code, std::string message, std::string hint)
    : code_(code), message_(std::move(message)), hint_(std::move(hint)) {
  text_ = "error[E" + std::to_string(static_cast<int>(code_)) + " " + std::string(code_name(code_)) + "]: " + message_;
  if (!hint_.empty()) text_ += "\nhint: " + hint_;
}

Error Error::with_prefix(const std::string& prefix) const { return Error(code_, prefix + message_, hint_); }

void check_internal(bool condition, std::string_view what) {
  if (!condition) {
    throw Error(Code::INTERNAL, std::string(what), "this is a bug in deepjit, please report it");
  }
}

}  // namespace deepjit
