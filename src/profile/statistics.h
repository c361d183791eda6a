// Percentiles of samples by the nearest rank, and means over the runs in the middle.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>

#include "profile/records.h"

namespace deepjit::profile {

template <typename T>
double percentile_of_sorted(const std::vector<T>& sorted, double percent) {
  const auto rank = static_cast<size_t>(std::max(1.0, std::ceil(percent / 100 * static_cast<double>(sorted.size()))));
  return static_cast<double>(sorted[std::min(rank, sorted.size()) - 1]);
}

// The middle half of the samples, as numbers of samples; all of them when they are few.
template <typename T>
std::vector<size_t> middle_of(const std::vector<T>& samples) {
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return samples[a] < samples[b]; });
  const size_t cut = samples.size() / 4;
  return {order.begin() + static_cast<std::ptrdiff_t>(cut), order.end() - static_cast<std::ptrdiff_t>(cut)};
}

template <typename T>
double mean_of(const std::vector<T>& samples, const std::vector<size_t>& at) {
  double sum = 0;
  for (size_t i : at) sum += static_cast<double>(samples[i]);
  return at.empty() ? 0 : sum / static_cast<double>(at.size());
}

// `middle` says which runs are typical.
template <typename T>
Times times_of(std::vector<T> samples, const std::vector<size_t>& middle) {
  if (samples.empty()) return {};
  const double typical = mean_of(samples, middle);
  std::sort(samples.begin(), samples.end());
  return {percentile_of_sorted(samples, 50), percentile_of_sorted(samples, 95), typical};
}

// The samples are wall times themselves.
template <typename T>
Times times_of(std::vector<T> samples) {
  const std::vector<size_t> middle = middle_of(samples);
  return times_of(std::move(samples), middle);
}

}  // namespace deepjit::profile
