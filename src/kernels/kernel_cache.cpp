#include "kernels/kernel_cache.h"

#include <chrono>

#include "base/error.h"
#include "base/sha256.h"

namespace deepjit {

namespace {

constexpr const char* kKind = "kernel";

// What this process has compiled or loaded, by hashed key.
struct Known {
  std::mutex mutex;
  std::map<std::string, std::string> kernels;
};

Known& known() {
  static Known all;
  return all;
}

}  // namespace

std::string KernelCache::make(const Request& request, const std::string& key) {
  {
    const std::lock_guard<std::mutex> lock(failed_mutex_);
    if (const auto found = failed_.find(key); found != failed_.end()) std::rethrow_exception(found->second);
  }
  const auto start = std::chrono::steady_clock::now();
  try {
    std::string bytes = request.compile();
    nanoseconds_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start).count();
    ++compiled_;
    return bytes;
  } catch (const Error& e) {
    if (e.code() != Code::INTERNAL) throw;
    const std::lock_guard<std::mutex> lock(failed_mutex_);
    failed_.emplace(key, std::current_exception());
    throw;
  }
}

std::string KernelCache::get(const Request& request) {
  const std::string key = sha256_hex(request.key);
  {
    const std::lock_guard<std::mutex> lock(known().mutex);
    if (const auto found = known().kernels.find(key); found != known().kernels.end()) return found->second;
  }
  auto bytes = records_.find(key, kKind);
  if (bytes) {
    ++loaded_;
  } else {
    bytes = make(request, key);
    records_.store(key, kKind, *bytes);
    if (records_.enabled()) write_whole_file(records_.path_of(key, request.source_kind), request.source);
  }
  const std::lock_guard<std::mutex> lock(known().mutex);
  return known().kernels.emplace(key, std::move(*bytes)).first->second;
}

double KernelCache::seconds() const { return static_cast<double>(nanoseconds_) * 1e-9; }

}  // namespace deepjit
