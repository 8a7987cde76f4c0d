//! WASI for method modules: the parts that many toolchains require, without anything that could make two answers
//! to the same question differ.
//!
//! | Interfaces of WASI 0.2 | Behavior |
//! |---|---|
//! | `clocks` | the clock stays at the time of the context; a wait ends at once |
//! | `random` | bytes that depend only on the context ([`SeededRandom`](super::seeded_random::SeededRandom)) |
//! | `cli` | no arguments, no environment, no terminal; output is logged by line |
//! | `filesystem` | no files |
//! | `io` | as the others require it |
//!
//! `sockets`, `http` and all other interfaces are refused by name when a module is loaded. `describe` has no
//! context: the clock stays at 1970, and the random bytes are always the same.
//!
//! Decided 2026-11-21: implemented here instead of using `wasmtime-wasi`. The synchronous part of that crate waits
//! for real time on a Tokio runtime, but `rank` runs on a thread that must not wait. The crate would also link
//! files and sockets, which modules must not have, and features of `rustix` that make wasmtime compile again.

mod cli;
mod clocks;
mod files;
mod io;
mod random;

use wasmtime::Engine;
use wasmtime::component::types::{ComponentInstance, ComponentItem};
use wasmtime::component::{Component, Linker, LinkerInstance};

use crate::guest::method::MethodState;

/// The linked interfaces. A module may import any version 0.2.x.
const OFFERED: [&str; 20] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/stderr",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:cli/terminal-stderr",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
];

/// Whether an import belongs to WASI, of any version.
pub(crate) fn is_wasi(import: &str) -> bool {
    import.starts_with("wasi:")
}

/// Whether an import gives access to the network.
pub(crate) fn is_network(import: &str) -> bool {
    ["wasi:sockets/", "wasi:http/"]
        .iter()
        .any(|package| import.starts_with(package))
}

/// Returns the name without its version if a method may import it.
pub(crate) fn offered(import: &str) -> Option<&'static str> {
    let (name, version) = import.split_once('@')?;
    let patch = version.strip_prefix("0.2.")?;
    let released = !patch.is_empty() && patch.bytes().all(|byte| byte.is_ascii_digit());
    OFFERED
        .into_iter()
        .find(|offered| released && *offered == name)
}

/// Defines the WASI imports of a component. Returns whether it has any. All must be [`offered`].
pub(crate) fn link(
    linker: &mut Linker<MethodState>,
    component: &Component,
) -> wasmtime::Result<bool> {
    let (mut any, engine) = (false, component.engine());
    for (import, item) in component.component_type().imports(engine) {
        let (Some(name), ComponentItem::ComponentInstance(wanted)) = (offered(import), item.ty)
        else {
            continue;
        };
        any = true;
        define(name, &mut linker.instance(import)?, engine, &wanted)?;
    }
    Ok(any)
}

fn define(
    name: &str,
    to: &mut LinkerInstance<'_, MethodState>,
    engine: &Engine,
    wanted: &ComponentInstance,
) -> wasmtime::Result<()> {
    match name {
        "wasi:cli/environment" => cli::environment(to),
        "wasi:cli/exit" => cli::exit(to),
        "wasi:cli/stdin" => cli::stdin(to),
        "wasi:cli/stdout" => cli::stdout(to),
        "wasi:cli/stderr" => cli::stderr(to),
        "wasi:cli/terminal-input" => cli::terminal_input(to),
        "wasi:cli/terminal-output" => cli::terminal_output(to),
        "wasi:cli/terminal-stdin" => cli::terminal_stdin(to),
        "wasi:cli/terminal-stdout" => cli::terminal_of_output(to, "get-terminal-stdout"),
        "wasi:cli/terminal-stderr" => cli::terminal_of_output(to, "get-terminal-stderr"),
        "wasi:clocks/monotonic-clock" => clocks::monotonic(to),
        "wasi:clocks/wall-clock" => clocks::wall(to),
        "wasi:filesystem/preopens" => files::preopens(to),
        "wasi:filesystem/types" => files::types(to, engine, wanted),
        "wasi:io/error" => io::error(to),
        "wasi:io/poll" => io::poll(to),
        "wasi:io/streams" => io::streams(to),
        "wasi:random/insecure" => random::insecure(to),
        "wasi:random/insecure-seed" => random::insecure_seed(to),
        "wasi:random/random" => random::random(to),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_wasi_only_released_0_2_without_network_is_offered() {
        let name = offered("wasi:clocks/wall-clock@0.2.12");
        assert_eq!(name, Some("wasi:clocks/wall-clock"));
        assert!(offered("wasi:random/random@0.2.0").is_some());
        for import in [
            "wasi:clocks/wall-clock",
            "wasi:clocks/wall-clock@0.2",
            "wasi:clocks/wall-clock@0.2.0-rc-2023-11-10",
            "wasi:clocks/wall-clock@0.3.0",
            "wasi:clocks/timezone@0.2.0",
            "wasi:sockets/tcp@0.2.0",
            "wasi:http/outgoing-handler@0.2.0",
            "wasi:keyvalue/store@0.2.0",
        ] {
            assert_eq!(offered(import), None, "{import}");
        }
    }
}
