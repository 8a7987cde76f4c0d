(component (import "wasi:filesystem/preopens@0.2.0" (instance)))
