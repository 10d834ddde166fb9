func.func @mm_f16_f16(%a: tensor<128x512xf16>, %b: tensor<512x256xf16>) -> tensor<128x256xf16> {
  %c0 = arith.constant 0.0 : f16
  %e = tensor.empty() : tensor<128x256xf16>
  %f = linalg.fill ins(%c0 : f16) outs(%e : tensor<128x256xf16>) -> tensor<128x256xf16>
  %r = linalg.matmul ins(%a, %b : tensor<128x512xf16>, tensor<512x256xf16>) outs(%f : tensor<128x256xf16>) -> tensor<128x256xf16>
  return %r : tensor<128x256xf16>
}
