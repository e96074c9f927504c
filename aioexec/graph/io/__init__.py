"""Reading and writing of GraphDefs, FunctionDefs and MetaGraphDefs."""
