func.func @mm_f32_odd(%a: tensor<33x17xf32>, %b: tensor<17x65xf32>) -> tensor<33x65xf32> {
  %c0 = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<33x65xf32>
  %f = linalg.fill ins(%c0 : f32) outs(%e : tensor<33x65xf32>) -> tensor<33x65xf32>
  %r = linalg.matmul ins(%a, %b : tensor<33x17xf32>, tensor<17x65xf32>) outs(%f : tensor<33x65xf32>) -> tensor<33x65xf32>
  return %r : tensor<33x65xf32>
}
