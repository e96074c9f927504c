"""Files for programs: the file objects, functions and record files behind `gfile`, `io` and `python_io`.

Every call blocks until the file system has answered, as in TensorFlow; a coroutine makes it in a thread (`asyncio.to_thread`).
Errors are canonical: a missing file raises NotFoundError.
"""
