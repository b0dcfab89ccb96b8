// Stable least-significant-digit radix sort of (key, value) pairs, 8 bits a pass. Each of `num_parts` parts of the input counts
// its digits; the counts' prefix sums, digits first and parts second, say where each part's pairs of each digit begin.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace splat_cpu {

class RadixSort {
public:
    RadixSort(const uint32_t* keys, const uint32_t* values, uint32_t* keys_out, uint32_t* values_out, size_t count, int num_bits,
              int num_parts)
        : num_passes_((num_bits + 7) / 8), num_bits_(num_bits), count_(count), num_parts_(num_parts), places_(num_parts * DIGITS)
    {
        input_ = {const_cast<uint32_t*>(keys), const_cast<uint32_t*>(values)};
        output_ = {keys_out, values_out};
        if (num_passes_ > 1) {
            memory_.reset(new uint32_t[2 * count]);
            scratch_ = {memory_.get(), memory_.get() + count};
        }
    }

    // Phases run one after another; within a phase the parts may run at the same time.
    int num_phases() const { return num_passes_ ? 2 * num_passes_ : 1; }

    void run(int phase, int part)
    {
        const size_t begin = count_ * part / num_parts_, end = count_ * (part + 1) / num_parts_;
        if (num_passes_ == 0) {
            memcpy(output_.keys + begin, input_.keys + begin, 4 * (end - begin));
            memcpy(output_.values + begin, input_.values + begin, 4 * (end - begin));
        } else if (phase % 2 == 0) {
            count_digits(phase / 2, begin, end, &places_[part * DIGITS]);
        } else {
            scatter(phase / 2, begin, end, part);
        }
    }

private:
    static constexpr int DIGITS = 256;
    struct Pairs { uint32_t* keys; uint32_t* values; };

    // The last pass writes the output; the passes before it alternate between the output and the scratch memory.
    Pairs written_by(int pass) const { return (num_passes_ - 1 - pass) % 2 == 0 ? output_ : scratch_; }
    Pairs read_by(int pass) const { return pass == 0 ? input_ : written_by(pass - 1); }
    uint32_t mask(int pass) const { const int left = num_bits_ - 8 * pass; return left >= 8 ? 255u : (1u << left) - 1; }

    void count_digits(int pass, size_t begin, size_t end, size_t* counts) const
    {
        const uint32_t* const keys = read_by(pass).keys;
        memset(counts, 0, DIGITS * sizeof(size_t));
        for (size_t i = begin; i < end; ++i) ++counts[keys[i] >> (8 * pass) & mask(pass)];
    }

    void scatter(int pass, size_t begin, size_t end, int part) const
    {
        size_t place[DIGITS], sum = 0;
        for (int digit = 0; digit < DIGITS; ++digit)
            for (int p = 0; p < num_parts_; ++p) {
                if (p == part) place[digit] = sum;
                sum += places_[p * DIGITS + digit];
            }
        const Pairs from = read_by(pass), to = written_by(pass);
        const uint32_t digit_mask = mask(pass);
        for (size_t i = begin; i < end; ++i) {
            const uint32_t key = from.keys[i];
            const size_t at = place[key >> (8 * pass) & digit_mask]++;
            to.keys[at] = key;
            to.values[at] = from.values[i];
        }
    }

    int num_passes_, num_bits_;
    size_t count_;
    int num_parts_;
    std::vector<size_t> places_;                    // digit counts [part, digit] of the pass
    Pairs input_, output_, scratch_{nullptr, nullptr};
    std::unique_ptr<uint32_t[]> memory_;
};

}  // namespace splat_cpu
