# zerodiff_test(NAME LABELS label... SOURCES file... [LINK target...] [TIMEOUT seconds])
# One GoogleTest executable; ctest sees each of its tests, every one with all the labels.
# (gtest_discover_tests keeps only the first of several labels, hence the second step.)
include(GoogleTest)

function(zerodiff_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "LABELS;SOURCES;LINK" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 600)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} zerodiff::options GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE
    ZERODIFF_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
    ZERODIFF_BINARY_DIR="${PROJECT_BINARY_DIR}")
  gtest_discover_tests(${name}
    TEST_LIST ${name}_TESTS
    DISCOVERY_TIMEOUT 120
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
    PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${labels_file}"
    "foreach(test IN LISTS ${name}_TESTS)\n"
    "  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${ARG_LABELS}\")\n"
    "endforeach()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()
