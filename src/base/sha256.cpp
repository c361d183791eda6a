#include "base/sha256.h"

#include <openssl/evp.h>

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace deepjit {

Sha256 sha256(std::span<const uint8_t> bytes) {
  Sha256 out{};
  unsigned size = 0;
  const int ok = EVP_Digest(bytes.data(), bytes.size(), out.data(), &size, EVP_sha256(), nullptr);
  check_internal(ok == 1 && size == out.size(), "SHA-256 failed");
  return out;
}

Sha256 sha256_of_chunks(std::span<const uint8_t> bytes) {
  constexpr size_t kChunk = size_t{1} << 20;
  const size_t chunks = (bytes.size() + kChunk - 1) / kChunk;
  std::vector<Sha256> hashes(chunks);
#pragma omp parallel for schedule(dynamic) if (chunks > 2)
  for (size_t i = 0; i < chunks; ++i) {
    hashes[i] = sha256(bytes.subspan(i * kChunk, std::min(kChunk, bytes.size() - i * kChunk)));
  }
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
