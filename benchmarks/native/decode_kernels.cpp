// The decoder against simdjson's On-Demand interface on the same bodies, in turn in one process:
// the time of a whole request body to a tensor. contest.hpp says how it is started and what it
// prints.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <simdjson.h>

#include "contest.hpp"
#include "headrace/json_decode.hpp"
#include "reused_sink.hpp"

using namespace headrace;

namespace {

struct Body {
  std::string name;
  DType dtype;
  std::string text;
  double numbers;
};

// What a caller of On-Demand writes who knows how deep the lists are.
template <class T> void walk_rows(simdjson::ondemand::array rows, int depth, std::vector<T> &out) {
  for (auto row : rows) {
    if (depth > 1) {
      walk_rows<T>(row.get_array().value(), depth - 1, out);
      continue;
    }
    if constexpr (std::is_floating_point_v<T>) {
      out.push_back(static_cast<T>(row.get_double().value()));
    } else {
      const std::int64_t number = row.get_int64().value();
      if (number < static_cast<std::int64_t>(std::numeric_limits<T>::min()) ||
          number > static_cast<std::int64_t>(std::numeric_limits<T>::max()))
        std::abort();
      out.push_back(static_cast<T>(number));
    }
  }
}

template <class T> std::span<const std::byte> on_demand(const simdjson::padded_string &text) {
  static simdjson::ondemand::parser parser;
  static std::vector<T> out;
  out.clear();
  int depth = 0;
  for (const char *p = std::strchr(text.data(), '['); *p == '[' || *p == ' ' || *p == '\n'; ++p)
    depth += *p == '[';
  auto document = parser.iterate(text);
  walk_rows<T>(document["instances"].get_array().value(), depth, out);
  return std::as_bytes(std::span(out));
}

using Random = std::mt19937_64;

std::string list(std::size_t count, const std::function<std::string()> &item,
                 const char *between = ", ") {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i)
    text.append(i == 0 ? "" : between).append(item());
  return text + "]";
}

std::string printed(const char *format, double value) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

// The shortest text that reads back as the same value of this type, in the form that Python's repr
// chooses.
template <class Float> std::string shortest(Float value) {
  char text[64];
  const Float size = std::abs(value);
  const bool fixed = size == 0 || (size >= Float(1e-4) && size < Float(1e16));
  const auto format = fixed ? std::chars_format::fixed : std::chars_format::scientific;
  std::string written(text, std::to_chars(text, std::end(text), value, format).ptr);
  return written.find_first_of(".e") == std::string::npos ? written + ".0" : written;
}

std::vector<Body> make_bodies() {
  Random random(1);
  std::uniform_real_distribution<double> unit(0, 1);
  std::normal_distribution<double> normal(0, 1);
  const auto pixel = [&] { return std::to_string(random() % 256); };
  std::vector<Body> bodies;
  const auto add = [&](std::string name, DType dtype, std::size_t rows, std::size_t columns,
                       const std::function<std::string()> &item) {
    std::string text = "{\"instances\": " + list(rows, [&] { return list(columns, item); }) + "}";
    bodies.push_back({std::move(name), dtype, std::move(text), double(rows * columns)});
  };
  add("floats, 17 digits", DType::kFloat32, 256, 784,
      [&] { return shortest<double>(float(unit(random))); });
  add("floats, shortest", DType::kFloat32, 256, 784,
      [&] { return shortest<float>(float(unit(random))); });
  add("floats, 4 decimals", DType::kFloat32, 256, 784,
      [&] { return shortest<double>(std::round(unit(random) * 1e4) / 1e4); });
  for (const DType dtype : {DType::kUint8, DType::kInt32, DType::kInt64, DType::kFloat32})
    add("pixels to " + std::string(numpy_name(dtype)), dtype, 256, 784, pixel);
  {
    std::string text =
        "{\"instances\": " +
        list(4,
             [&] { return list(224, [&] { return list(224, [&] { return list(3, pixel); }); }); }) +
        "}";
    bodies.push_back({"RGB images to float32", DType::kFloat32, text, 4 * 224 * 224 * 3.});
  }
  add("one row of 784", DType::kFloat32, 1, 784,
      [&] { return shortest<double>(float(unit(random))); });
  add("normal, 17 digits", DType::kFloat32, 256, 784,
      [&] { return shortest<double>(float(normal(random))); });
  add("normal, shortest", DType::kFloat32, 256, 784,
      [&] { return shortest<float>(float(normal(random))); });
  add("floats like 123.45678", DType::kFloat32, 256, 784,
      [&] { return shortest<float>(float(unit(random) * 255)); });
  add("four fifths 0.0", DType::kFloat32, 256, 784,
      [&] { return random() % 5 ? std::string("0.0") : shortest<float>(float(unit(random))); });
  add("rows of 4", DType::kFloat32, 50000, 4, [&] { return printed("%.1f", unit(random) * 8); });
  add("softmax with exponents", DType::kFloat32, 200, 1000,
      [&] { return shortest<double>(float(std::exp(normal(random) * 3) / 90000)); });
  {
    std::string text =
        "{\n \"instances\": [\n  " +
        list(
            256,
            [&] {
              return "[\n   " +
                     list(
                         784, [&] { return shortest<double>(float(unit(random))); }, ",\n   ")
                         .substr(1);
            },
            ",\n  ")
            .substr(1) +
        "\n}";
    bodies.push_back({"pretty-printed", DType::kFloat32, text, 256 * 784.});
  }
  const auto id = [&] { return std::to_string(random() % 50000); };
  add("token ids to int32", DType::kInt32, 512, 128, id);
  add("token ids to int64", DType::kInt64, 512, 128, id);
  const auto number = [&] { return std::to_string(static_cast<std::int32_t>(random())); };
  add("signed to int32", DType::kInt32, 512, 128, number);
  add("signed to int64", DType::kInt64, 512, 128, number);
  add("17 digits to float64", DType::kFloat64, 256, 784,
      [&] { return shortest<double>(unit(random)); });
  add("4 decimals to float64", DType::kFloat64, 256, 784,
      [&] { return shortest<double>(std::round(unit(random) * 1e4) / 1e4); });
  add("mixed 1, 0.5, 12.25", DType::kFloat32, 256, 784, [&] {
    return random() % 2 ? std::to_string(random() % 100) : printed("%.2f", unit(random) * 20);
  });
  add("halfway cases", DType::kFloat32, 50, 784,
      [&] { return printed("%.55f", double(float(unit(random))) + 0x1p-26); });
  return bodies;
}

} // namespace

int main(int argc, char **argv) {
  const contest::Contest contest(argc, argv);
  for (const Body &body : make_bodies()) {
    if (!contest.wants(body.name))
      continue;
    Signature::Specs specs;
    TensorSpec spec;
    spec.dtype = body.dtype;
    specs.emplace_back("x", spec);
    std::vector<Signature> all;
    all.emplace_back("serving_default", specs, Signature::Specs{});
    const SignatureSet signatures(std::move(all));
    contest::ReusedSink sink;
    const auto bytes = std::as_bytes(std::span(body.text));
    const auto ours = [&] {
      if (!decode_predict(bytes, signatures, DecodeOptions{}, sink))
        std::abort();
    };
    const simdjson::padded_string padded(body.text);
    std::span<const std::byte> theirs_out;
    const auto theirs = [&] {
      switch (body.dtype) {
      case DType::kUint8:
        theirs_out = on_demand<std::uint8_t>(padded);
        break;
      case DType::kInt32:
        theirs_out = on_demand<std::int32_t>(padded);
        break;
      case DType::kInt64:
        theirs_out = on_demand<std::int64_t>(padded);
        break;
      case DType::kFloat64:
        theirs_out = on_demand<double>(padded);
        break;
      default:
        theirs_out = on_demand<float>(padded);
      }
    };
    ours();
    theirs();
    if (sink.bytes().size() != theirs_out.size())
      return std::fprintf(stderr, "%s: sizes differ\n", body.name.c_str()), 1;
    const bool differs =
        std::memcmp(sink.bytes().data(), theirs_out.data(), theirs_out.size()) != 0;
    contest.run({body.name, body.text.size(), body.numbers, differs},
                {{"headrace", ours}, {"ondemand", theirs}});
  }
}
