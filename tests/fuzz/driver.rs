//! What libFuzzer calls.
#![no_main]

use std::path::Path;
use std::sync::OnceLock;

use kassette_fuzz::{TARGETS, Target, corpus};

/// The target, from the environment: libFuzzer's own arguments are all taken.
fn target() -> Target {
    static TARGET: OnceLock<Target> = OnceLock::new();
    *TARGET.get_or_init(|| {
        let name = std::env::var("KASSETTE_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.into_iter().find(|(target, _)| *target == name);
        found.unwrap_or_else(|| panic!("KASSETTE_FUZZ_TARGET={name:?} is no target"))
    })
}

/// Does what `run` asks for beside fuzzing, and has every panic end the process: those that a router
/// catches and answers with 500 too.
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
    // SAFETY: libFuzzer owns so many bytes there until this function returns; none may be null.
    let input = match size {
        0 => &[][..],
        _ => unsafe { std::slice::from_raw_parts(data, size) },
    };
    run(input);
    0
}
