func.func @ew_divsi_i64(%a0: tensor<1003xi64>, %a1: tensor<1003xi64>) -> tensor<1003xi64> {
  %e = tensor.empty() : tensor<1003xi64>
  %r = linalg.generic {indexing_maps=[affine_map<(i)->(i)>, affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types=["parallel"]} ins(%a0, %a1 : tensor<1003xi64>, tensor<1003xi64>) outs(%e : tensor<1003xi64>) {
  ^bb0(%x0: i64, %x1: i64, %o: i64):
    %y = arith.divsi %x0, %x1 : i64
    linalg.yield %y : i64
  } -> tensor<1003xi64>
  return %r : tensor<1003xi64>
}
