func.func @transpose(%a: tensor<128x96xf32>) -> tensor<96x128xf32> {
  %e = tensor.empty() : tensor<96x128xf32>
  %r = linalg.transpose ins(%a : tensor<128x96xf32>) outs(%e : tensor<96x128xf32>) permutation = [1, 0]
  return %r : tensor<96x128xf32>
}
