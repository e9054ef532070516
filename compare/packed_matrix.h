// The left factor of a matrix product, packed once for many products.
//
// A product of a block with the 16 query heads of one row spends a third of its time on packing
// the block; rows that share the block need not do it again. The packing and the kernel are
// Eigen's, of its product of general matrices.
#pragma once

#include <Eigen/Core>

namespace zerodiff::compare {

template <class Scalar>
class PackedMatrix {
 public:
  using Index = Eigen::Index;
  using Elements = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

  // From elements [rows][depth] with `stride` elements a row, or, transposed, [depth][rows] with
  // `stride` a row.
  void pack(const Scalar* elements, Index rows, Index depth, Index stride, bool transposed) {
    rows_ = rows;
    depth_ = depth;
    packed_.resize(rows * depth);
    if (transposed) {
      pack_as<Eigen::ColMajor>(elements, stride);
    } else {
      pack_as<Eigen::RowMajor>(elements, stride);
    }
  }

  Index rows() const { return rows_; }

  // result += this * factor. `factor` and `result` are the first elements of column-major matrices
  // of `columns` columns, with a stride each; `space` is working space.
  void add_product(const Scalar* factor, Index factor_stride, Index columns, Scalar* result,
                   Index result_stride, Elements& space) const {
    using Mapper = Eigen::internal::const_blas_data_mapper<Scalar, Index, Eigen::ColMajor>;
    using Result = Eigen::internal::blas_data_mapper<Scalar, Index, Eigen::ColMajor>;
    space.resize(depth_ * columns);
    Eigen::internal::gemm_pack_rhs<Scalar, Index, Mapper, Traits::nr, Eigen::ColMajor>()(
        space.data(), Mapper(factor, factor_stride), depth_, columns);
    Eigen::internal::gebp_kernel<Scalar, Scalar, Index, Result, Traits::mr, Traits::nr, false,
                                 false>()(Result(result, result_stride), packed_.data(),
                                          space.data(), rows_, depth_, columns, Scalar(1));
  }

 private:
  using Traits = Eigen::internal::gebp_traits<Scalar, Scalar>;

  template <int order>
  void pack_as(const Scalar* elements, Index stride) {
    using Mapper = Eigen::internal::const_blas_data_mapper<Scalar, Index, order>;
    Eigen::internal::gemm_pack_lhs<Scalar, Index, Mapper, Traits::mr, Traits::LhsProgress,
                                   typename Traits::LhsPacket4Packing, order>()(
        packed_.data(), Mapper(elements, stride), depth_, rows_);
  }

  Index rows_ = 0;
  Index depth_ = 0;
  Elements packed_;
};

}  // namespace zerodiff::compare
