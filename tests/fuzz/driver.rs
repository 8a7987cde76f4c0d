//! Entry points for libFuzzer.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use kassette_fuzz::{TARGETS, Target, corpus};

/// The target, from an environment variable, because libFuzzer parses all arguments itself.
fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("KASSETTE_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.into_iter().find(|(target, _)| *target == name);
        found.unwrap_or_else(|| panic!("KASSETTE_FUZZ_TARGET={name:?} is no target"))
    })
}

/// Packs or unpacks the corpus if `run` requests it, and makes every panic end the process, also those that a
/// router converts to a response with status 500.
#[unsafe(no_mangle)]
extern "C" fn LLVMFuzzerInitialize(_: *const i32, _: *const *const *const u8) -> i32 {
    let (name, _) = target();
    let folder = |variable| std::env::var_os(variable).map(std::path::PathBuf::from);
    if let Some(folder) = folder("KASSETTE_FUZZ_UNPACK") {
        corpus::unpack(name, Path::new(&folder));
        std::process::exit(0);
    }
    if let Some(folder) = folder("KASSETTE_FUZZ_PACK") {
        corpus::pack(name, Path::new(&folder));
        std::process::exit(0);
    }
    let told = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        std::process::abort();
    }));
    0
}

#[unsafe(no_mangle)]
extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> i32 {
    let (_, run) = target();
    // SAFETY: libFuzzer owns `size` bytes at `data` until this function returns. `data` may be null if `size` is
    // 0.
    let input = match size {
        0 => &[][..],
        _ => unsafe { std::slice::from_raw_parts(data, size) },
    };
    run(input);
    0
}
