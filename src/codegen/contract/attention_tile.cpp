#include <fmt/format.h>

#include <cstdio>

#include "base/error.h"
#include "codegen/contract/attention.h"

namespace deepjit {

const std::vector<std::string>& attention_numbers() {
  static const std::vector<std::string> names = {"q_length", "k_length", "q_batch", "q_head", "q_row", "k_batch",
                                                 "k_head",   "k_row",    "v_batch", "v_head", "v_row", "y_batch",
                                                 "y_head",   "y_row",    "m_batch", "m_head", "m_row", "m_key",
                                                 "q_start",  "k_start",  "v_start"};
  return names;
}

std::string AttentionTile::to_string() const { return fmt::format("attention{}x{}x{}", warps_q, warps_k, keys); }

AttentionTile AttentionTile::parse(const std::string& text) {
  AttentionTile t;
  const int found = std::sscanf(text.c_str(), "attention%2dx%2dx%3d", &t.warps_q, &t.warps_k, &t.keys);
  const bool fits =
      found == 3 && t.warps_q > 0 && t.warps_k > 0 && t.warps_q * t.warps_k <= 16 && t.keys > 0 && t.keys % 16 == 0;
  if (!fits || t.to_string() != text) throw Error(Code::ENGINE_RANGE, "\"" + text + "\" is no tile of an attention");
  return t;
}

}  // namespace deepjit
