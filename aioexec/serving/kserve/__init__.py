"""KServe v2, the Open Inference Protocol: `http_routes` over HTTP, `grpc_service` over gRPC."""
