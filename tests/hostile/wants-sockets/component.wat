(component (import "wasi:sockets/tcp@0.2.0" (instance)))
