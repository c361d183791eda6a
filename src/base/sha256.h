// SHA-256 by OpenSSL.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace deepjit {

using Sha256 = std::array<uint8_t, 32>;

Sha256 sha256(std::span<const uint8_t> bytes);
// The SHA-256 over the SHA-256 of each chunk of 1 MiB: the same strength, and the chunks are hashed in parallel.
Sha256 sha256_of_chunks(std::span<const uint8_t> bytes);
std::string hex(std::span<const uint8_t> bytes);
std::string sha256_hex(const std::string& text);

}  // namespace deepjit
