func.func @softmax_f32(%a: tensor<16x1000xf32>) -> tensor<16x1000xf32> {
  %e = tensor.empty() : tensor<16x1000xf32>
  %r = linalg.softmax dimension(1) ins(%a : tensor<16x1000xf32>) outs(%e : tensor<16x1000xf32>) -> tensor<16x1000xf32>
  return %r : tensor<16x1000xf32>
}
