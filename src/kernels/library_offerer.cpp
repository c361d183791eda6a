#include "kernels/library_offerer.h"

#include "base/error.h"
#include "kernels/build_notes.h"

namespace deepjit {

std::string LibraryOfferer::measured_with() const {
  const std::string version = library_version();
  return version.empty() ? "none" : version;
}

Offer LibraryOfferer::offer(const StepShape& shape) const {
  Offer out;
  if (!concerns(*shape.step)) return out;
  const auto add = [&](const std::string& variant) {
    Tactic& made = out.tactics.emplace_back();
    made.provider = name();
    made.variant = variant;
  };
  out.reason = obstacle(shape);
  if (!out.reason.empty()) return out;
  if (shape.device == nullptr) {
    if (is_for_null_device(shape))
      out.reason = "the null device runs no libraries";
    else
      add(words_.unasked);
  } else if (library_version().empty()) {
    out.reason = std::string(words_.missing) + ": " + words_.install;
  } else {
    try {
      for (const std::string& variant : proposals(shape)) add(variant);
      if (out.tactics.empty()) out.reason = words_.nothing;
    } catch (const Error& e) {
      if (e.code() != Code::INTERNAL) throw;
      out.reason = e.message();
    }
  }
  return out;
}

}  // namespace deepjit
