func.func @ew_pow_bf16(%a: tensor<1000xbf16>, %b: tensor<1000xbf16>) -> tensor<1000xbf16> {
  %e = tensor.empty() : tensor<1000xbf16>
  %r = linalg.generic {indexing_maps=[affine_map<(i)->(i)>, affine_map<(i)->(i)>, affine_map<(i)->(i)>], iterator_types=["parallel"]} ins(%a, %b : tensor<1000xbf16>, tensor<1000xbf16>) outs(%e : tensor<1000xbf16>) {
  ^bb0(%x: bf16, %p: bf16, %o: bf16):
    %y = math.powf %x, %p : bf16
    linalg.yield %y : bf16
  } -> tensor<1000xbf16>
  return %r : tensor<1000xbf16>
}
