#include "base/sha256.h"

#include <openssl/evp.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/error.h"

namespace deepjit {

namespace {

// Processors that this process may use.
size_t processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? static_cast<size_t>(CPU_COUNT(&set)) : 1;
}

}  // namespace

Sha256 sha256(std::span<const uint8_t> bytes) {
  Sha256 out{};
  unsigned size = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, EVP_sha256(), nullptr);
  check_internal(ok == 1 && size == out.size(), "SHA-256 failed");
  return out;
}

Sha256 sha256_of_chunks(std::span<const uint8_t> bytes) {
  return sha256_of_chunks(
      bytes.size(), [&](size_t offset, size_t size, std::vector<uint8_t>&) { return bytes.subspan(offset, size); });
}

Sha256 sha256_of_chunks(size_t size, const ViewBytes& view) {
  constexpr size_t kChunk = size_t{1} << 20;
  const size_t chunks = (size + kChunk - 1) / kChunk;
  std::vector<Sha256> hashes(chunks);
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr fault;
  auto work = [&] {
    try {
      std::vector<uint8_t> buffer;
      for (size_t i = next++; i < chunks; i = next++) {
        hashes[i] = sha256(view(i * kChunk, std::min(kChunk, size - i * kChunk), buffer));
      }
    } catch (...) {
      next = chunks;
      const std::lock_guard<std::mutex> lock(mutex);
      fault = std::current_exception();
    }
  };
  // Loading is not inference: it takes what cores there are, whatever number of threads the engine runs on.
  std::vector<std::thread> helpers;
  const size_t most = std::min<size_t>({4, processors(), chunks / 4 + 1});
  try {
    while (helpers.size() + 1 < most) helpers.emplace_back(work);
  } catch (const std::system_error&) {  // no more threads: this one does it alone
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (fault) std::rethrow_exception(fault);
  return sha256({reinterpret_cast<const uint8_t*>(hashes.data()), hashes.size() * sizeof(Sha256)});
}

std::string hex(std::span<const uint8_t> bytes) {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (uint8_t b : bytes) {
    text += digits[b >> 4];
    text += digits[b & 15];
  }
  return text;
}

std::string sha256_hex(const std::string& text) {
  return hex(sha256({reinterpret_cast<const uint8_t*>(text.data()), text.size()}));
}

}  // namespace deepjit
