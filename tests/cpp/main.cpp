// Boost.Test itself and main(), compiled once for all of the suite's executables.
#define BOOST_TEST_MODULE headrace
#include <boost/test/included/unit_test.hpp>
