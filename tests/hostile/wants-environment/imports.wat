(import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))
(import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))
