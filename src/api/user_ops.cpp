// Ops of the user, in the public API.
#include "api/internal.h"
// internal.h comes first
#include <cstring>

#include "api/impl.h"
#include "import/user_ops/definition.h"

namespace deepjit {
inline namespace v1 {

void register_ops(const std::string& json, bool replace) {
  guarded([&] { register_user_ops(json, replace); });
}

bool forget_op(const std::string& name) { return forget_user_op(name); }

std::vector<std::string> registered_ops() { return user_op_names(); }

std::vector<std::byte> model_of_op(const std::string& name, DataType dtype,
                                   const std::vector<std::vector<std::string>>& shapes) {
  return guarded([&] {
    const auto op = require_user_op(name);
    if (shapes.size() != op->inputs.size()) {
      throw internal::Error(Code::ARGUMENT, name + " has " + std::to_string(op->inputs.size()) + " inputs, there are " +
                                                std::to_string(shapes.size()) + " shapes");
    }
    const std::string model = model_of_user_op(*op, static_cast<DType>(dtype), shapes);
    std::vector<std::byte> bytes(model.size());
    std::memcpy(bytes.data(), model.data(), model.size());
    return bytes;
  });
}

}  // namespace v1
}  // namespace deepjit
