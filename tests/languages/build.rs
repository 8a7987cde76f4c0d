//! Builds modules with the tools of their languages.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wit_component::ComponentEncoder;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/languages")
}

/// Runs a tool and fails unless it succeeds.
fn run(command: &mut Command) {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// Builds `cash_app.c` and its bindings.
pub fn c() -> Vec<u8> {
    let aside = tempfile::tempdir().unwrap();
    run(Command::new("wit-bindgen")
        .args(["c", "--world", "method", "--out-dir"])
        .arg(aside.path())
        .arg(super::support::wit()));
    let core = aside.path().join("core.wasm");
    run(Command::new("clang-14")
        .args([
            "--target=wasm32-wasi",
            "-std=c11",
            "-Os",
            "-Wall",
            "-Wextra",
            "-Werror",
        ])
        // WASI is not needed without start files and with an `abort` that traps.
        .args(["-mexec-model=reactor", "-nostartfiles", "-Wl,--no-entry"])
        // A stack of only 32 KiB, because every new instance has to clear its memory.
        .args(["-Wl,-z,stack-size=32768", "-Wl,--strip-debug"])
        .arg("-I")
        .arg(aside.path())
        .arg(folder().join("c/cash_app.c"))
        .arg(aside.path().join("method.c"))
        .arg(aside.path().join("method_component_type.o"))
        .arg("-o")
        .arg(&core));
    let core = fs::read(core).unwrap();
    ComponentEncoder::default()
        .validate(true)
        .module(&core)
        .unwrap()
        .encode()
        .unwrap()
}

/// Builds a module of `javascript/`, with WASI or with stubs instead.
pub fn javascript(file: &str, stub_wasi: bool) -> Vec<u8> {
    let folder = folder().join("javascript");
    let aside = tempfile::tempdir().unwrap();
    for name in [file, "package.json"] {
        fs::copy(folder.join(name), aside.path().join(name)).unwrap();
    }
    // A lock file cannot be used: `npm ci` requires all optional bindings, one of which was never published.
    run(Command::new("npm")
        .args(["install", "--silent", "--no-package-lock"])
        .args(["--no-audit", "--no-fund"])
        .current_dir(aside.path()));
    let component = aside.path().join("method.wasm");
    let mut command = Command::new("node_modules/.bin/componentize-qjs");
    command
        .arg("--wit")
        .arg(super::support::wit().canonicalize().unwrap())
        .args([
            "--world",
            "method",
            "--sync",
            "--opt-size",
            "--js",
            file,
            "--output",
        ])
        .arg(&component)
        .current_dir(aside.path());
    if stub_wasi {
        command.arg("--stub-wasi");
    }
    run(&mut command);
    fs::read(component).unwrap()
}

/// Builds the package in `rust/` for a target with WASI.
pub fn rust_with_std() -> Vec<u8> {
    const TARGET: &str = "wasm32-wasip2";
    let aside = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wasip2");
    run(Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--locked",
            "--target",
            TARGET,
            "--manifest-path",
        ])
        .arg(folder().join("rust/Cargo.toml"))
        .arg("--target-dir")
        .arg(&aside)
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", "-Clink-arg=-zstack-size=32768"));
    let built = format!("{TARGET}/release/kassette_method_paypal.wasm");
    fs::read(aside.join(built)).unwrap()
}
