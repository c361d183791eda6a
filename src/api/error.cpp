#include "api/internal.h"
// internal.h comes first
#include <algorithm>
#include <new>

#include "api/impl.h"

namespace deepjit {
inline namespace v1 {

namespace {

std::string in_one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

}  // namespace

Error::Error(int code, std::string message, std::string hint)
    : code_(code),
      name_(code_name(static_cast<Code>(code))),
      message_(in_one_line(std::move(message))),
      hint_(std::move(hint)) {
  text_ = "error[E" + std::to_string(code_) + " " + name_ + "]: " + message_;
  if (!hint_.empty()) text_ += "\nhint: " + hint_;
}

Error::~Error() = default;

void rethrow_public() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const internal::Error& e) {
    throw Error(static_cast<int>(e.code()), e.message(), e.hint());
  } catch (const std::bad_alloc&) {
    throw Error(static_cast<int>(Code::HOST_OOM), "host memory is exhausted");
  } catch (const std::exception& e) {
    throw Error(static_cast<int>(Code::INTERNAL), e.what(), "this is a bug in deepjit, please report it");
  }
}

}  // namespace v1
}  // namespace deepjit
