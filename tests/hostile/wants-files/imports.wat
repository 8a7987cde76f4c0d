(import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $folders (param i32)))
