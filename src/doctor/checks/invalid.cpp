// DJ100: what the import says about a model that it refuses.
#include <fmt/format.h>

#include "doctor/checkup.h"

namespace deepjit::doctor {

void check_invalid_model(Checkup& checkup) {
  const auto& failure = checkup.model.failure();
  // Operators that are missing have rules of their own, and a limit of this importer is no fault of the model.
  if (!failure || failure->code() == Code::UNSUPPORTED_OP || failure->code() == Code::OPSET) return;
  checkup.found(
      fmt::format("E{} {}: {}", static_cast<int>(failure->code()), code_name(failure->code()), failure->message()));
}

}  // namespace deepjit::doctor
