"""Reading and writing GraphDefs, FunctionDefs and MetaGraphDefs."""
