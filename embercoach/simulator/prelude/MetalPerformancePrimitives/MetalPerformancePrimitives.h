#error "Metal Performance Primitives (tensor operations) are not supported by the simulator"
