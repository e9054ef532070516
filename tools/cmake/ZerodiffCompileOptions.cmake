# zerodiff::options: the language level, warnings and floating-point rules of every target.
add_library(zerodiff_options INTERFACE)
add_library(zerodiff::options ALIAS zerodiff_options)

target_compile_features(zerodiff_options INTERFACE cxx_std_20)
target_include_directories(zerodiff_options INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(zerodiff_options INTERFACE
  EIGEN_FAST_MATH=0           # Eigen's packet sqrt is not IEEE otherwise
  EIGEN_DONT_PARALLELIZE
  ZERODIFF_VERSION="${PROJECT_VERSION}")
set(zerodiff_cxx_options
  -march=${ZERODIFF_MARCH} -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wno-ignored-attributes)    # vector types as template arguments
# CMake 3.25 knows no CUDA_STANDARD 20 of nvcc 13.
set(zerodiff_cuda_options -std=c++20 -fmad=false)
if(ZERODIFF_WERROR)
  list(APPEND zerodiff_cxx_options -Werror)
  list(APPEND zerodiff_cuda_options -Werror=all-warnings)
endif()
target_compile_options(zerodiff_options INTERFACE
  "$<$<COMPILE_LANGUAGE:C,CXX>:${zerodiff_cxx_options}>"
  "$<$<COMPILE_LANGUAGE:CUDA>:${zerodiff_cuda_options}>")
if(ZERODIFF_SANITIZE)
  target_compile_options(zerodiff_options INTERFACE
    -fsanitize=${ZERODIFF_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(zerodiff_options INTERFACE -fsanitize=${ZERODIFF_SANITIZE})
endif()

# zerodiff_library(NAME SOURCES ... [PUBLIC_LINK ...] [PRIVATE_LINK ...])
# One static library a folder, alias zerodiff::NAME.
function(zerodiff_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC_LINK;PRIVATE_LINK" ${ARGN})
  add_library(zerodiff_${name} STATIC ${ARG_SOURCES})
  add_library(zerodiff::${name} ALIAS zerodiff_${name})
  target_link_libraries(zerodiff_${name}
    PUBLIC zerodiff::options ${ARG_PUBLIC_LINK}
    PRIVATE ${ARG_PRIVATE_LINK})
endfunction()
