#include "tune/cache.h"

#include "base/error.h"

namespace deepjit {

std::optional<Choice> TuningCache::find(const std::string& fingerprint) const {
  const auto text = records_.find(fingerprint, kKind);
  if (!text) return std::nullopt;
  try {
    const auto choices = read_lock(*text);
    if (auto it = choices.find(fingerprint); it != choices.end()) return it->second;
  } catch (const Error&) {
  }
  records_.reject(fingerprint, kKind);
  return std::nullopt;
}

void TuningCache::store(const Choice& choice, const std::string& fingerprint_text) const {
  if (records_.enabled())
    records_.store(choice.fingerprint, kKind, write_lock({choice}) + "# " + fingerprint_text + "\n");
}

}  // namespace deepjit
