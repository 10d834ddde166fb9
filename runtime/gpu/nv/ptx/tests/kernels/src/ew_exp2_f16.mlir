func.func @ew_exp2_f16(%a: tensor<1000xf16>) -> tensor<1000xf16> {
  %e = tensor.empty() : tensor<1000xf16>
  %r = linalg.generic {indexing_maps=[affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types=["parallel"]} ins(%a : tensor<1000xf16>) outs(%e : tensor<1000xf16>) {
  ^bb0(%x: f16, %o: f16):
    %y = math.exp2 %x : f16
    linalg.yield %y : f16
  } -> tensor<1000xf16>
  return %r : tensor<1000xf16>
}
