//! From a file's bytes to a module that may serve.
//!
//! Each step is a function, so that others fit between: a signature before the compiler, vectors
//! after `describe`.

use std::sync::Arc;
use std::time::Instant;

use kassette_domain::id::{Digest, Slot, SlotKind};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::compile::invalid;
use crate::conduct::Conduct;
use crate::error::LoadError;
use crate::host::{Host, Identity};
use crate::method::MethodModule;
use crate::provider::ProviderModule;
use crate::text;
use crate::v0_1::VERSION;

/// Largest module, in bytes; a Python guest has 18 MiB.
pub const MAX_BYTES: usize = 32 << 20;
/// Bytes of the engine's message that are shown.
const MESSAGE: usize = 300;

/// How every WebAssembly file begins.
const MAGIC: &[u8] = b"\0asm";
/// What follows in a component: version 13, layer 1.
const COMPONENT: &[u8] = &[0x0d, 0, 1, 0];
/// What follows in a core module.
const CORE: &[u8] = &[1, 0, 0, 0];

/// A module of either world.
#[derive(Clone, Debug)]
pub(crate) enum Module {
    Method(Arc<MethodModule>),
    Provider(Arc<ProviderModule>),
}

impl Module {
    pub(crate) fn who(&self) -> &Identity {
        match self {
            Self::Method(module) => module.who(),
            Self::Provider(module) => module.who(),
        }
    }
}

/// Makes a module of a file for a slot. Takes the time of a compilation.
pub(crate) fn load(
    host: &Arc<Host>,
    slot: &Slot,
    digest: Digest,
    bytes: &[u8],
) -> Result<Module, LoadError> {
    let started = Instant::now();
    form(bytes)?;
    let component = component(host, &digest, bytes)?;
    let module = link(host, slot, digest, bytes, &component)?;
    tracing::debug!(
        plugin.slot = %slot,
        plugin.load_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "loaded {slot}",
    );
    Ok(module)
}

/// The same where the module was compiled before; none where that would take a compilation.
pub(crate) fn load_compiled(
    host: &Arc<Host>,
    slot: &Slot,
    digest: Digest,
    bytes: &[u8],
) -> Option<Result<Module, LoadError>> {
    let component = host.artifacts.get(&host.engine, &digest)?;
    Some(link(host, slot, digest, bytes, &component))
}

/// Checks what a component imports and exports, links and describes it.
fn link(
    host: &Arc<Host>,
    slot: &Slot,
    digest: Digest,
    bytes: &[u8],
    component: &Component,
) -> Result<Module, LoadError> {
    world(&host.engine, slot, component)?;
    let class = host.config.classes.get(slot).copied();
    let class = class.unwrap_or_else(|| crate::config::Class::guess(bytes.len()));
    let limits = host.config.limits.of(class);
    let who = Arc::new(Identity {
        slot: slot.clone(),
        digest,
        class,
        limits,
        conduct: Conduct::new(host.config.benching),
        clock: Arc::clone(&host.config.clock),
    });
    Ok(match slot.kind() {
        SlotKind::Method => Module::Method(Arc::new(MethodModule::load(host, who, component)?)),
        SlotKind::Provider => {
            Module::Provider(Arc::new(ProviderModule::load(host, who, component)?))
        }
    })
}

/// What can be told from the first bytes.
fn form(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.len() > MAX_BYTES {
        return Err(LoadError::TooLarge);
    }
    let rest = bytes.strip_prefix(MAGIC).ok_or(LoadError::NotWasm)?;
    if rest.starts_with(COMPONENT) {
        Ok(())
    } else if rest.starts_with(CORE) {
        Err(LoadError::CoreModule)
    } else {
        Err(LoadError::NotWasm)
    }
}

/// Compiles a file whose turn has not come. What becomes of it is said in its turn.
pub(crate) fn ahead(host: &Host, bytes: &[u8]) {
    if form(bytes).is_err() {
        return;
    }
    let digest = Digest::of(bytes);
    let component = component(host, &digest, bytes);
    host.ahead.lock().insert(digest, component);
}

/// From the cache where this very file was compiled before, else from the compiler.
fn component(host: &Host, digest: &Digest, bytes: &[u8]) -> Result<Component, LoadError> {
    let ahead = host.ahead.lock().remove(digest);
    if let Some(component) = ahead {
        return component;
    }
    if let Some(component) = host.artifacts.get(&host.engine, digest) {
        return Ok(component);
    }
    let code = host.config.compiler.compile(&host.engine, bytes)?;
    let component = code.load(&host.engine);
    let component = component.map_err(|error| invalid(&format!("{error:#}")))?;
    host.artifacts.put(digest, &code);
    Ok(component)
}

/// A module's types differ from the contract's although the names fit.
pub(crate) fn types(error: wasmtime::Error) -> LoadError {
    LoadError::Types(text::cut(&format!("{error:#}"), MESSAGE))
}

/// A module must call itself what its slot is called.
pub(crate) fn same_id(says: &str, slot: &Slot) -> Result<(), LoadError> {
    if says == slot.name() {
        return Ok(());
    }
    Err(LoadError::OtherId {
        says: text::cut(says, 40),
        slot: slot.clone(),
    })
}

/// Checks by name that a component belongs to its slot's world.
fn world(engine: &Engine, slot: &Slot, component: &Component) -> Result<(), LoadError> {
    let (world, imports, export): (_, &[&str], _) = match slot.kind() {
        SlotKind::Method => ("method", &["types", "log"], "routing"),
        SlotKind::Provider => ("provider", &["types", "log", "http", "secrets"], "payments"),
    };
    let component = component.component_type();
    for (import, _) in component.imports(engine) {
        match Name::of(import) {
            Name::Ours {
                interface,
                fits: true,
            } if imports.contains(&interface) => {}
            Name::Ours { fits: false, .. } => return Err(other_version(import)),
            _ => {
                let offered: Vec<_> = imports
                    .iter()
                    .map(|name| format!("kassette:plugin/{name}@{VERSION}"))
                    .collect();
                return Err(LoadError::UnknownImport {
                    import: text::cut(import, MESSAGE),
                    world,
                    offered: offered.join(", "),
                });
            }
        }
    }
    let mut hint = "";
    for (name, _) in component.exports(engine) {
        match Name::of(name) {
            Name::Ours {
                interface,
                fits: true,
            } if interface == export => return Ok(()),
            Name::Ours {
                interface,
                fits: false,
            } if interface == export => {
                return Err(other_version(name));
            }
            Name::Ours {
                interface: "routing",
                ..
            } => {
                hint = "; it is a payment method's module, which belongs into a slot `method.<id>`";
            }
            Name::Ours {
                interface: "payments",
                ..
            } => {
                hint = "; it is a provider's module, which belongs into a slot `provider.<id>`";
            }
            _ => {}
        }
    }
    let export = format!("kassette:plugin/{export}@{VERSION}");
    Err(LoadError::MissingExport {
        export,
        slot: slot.clone(),
        hint,
    })
}

fn other_version(name: &str) -> LoadError {
    LoadError::OtherVersion {
        name: text::cut(name, MESSAGE),
        host: VERSION,
    }
}

/// The name of an import or export.
enum Name<'a> {
    /// `kassette:plugin/<interface>@<version>`.
    Ours {
        interface: &'a str,
        fits: bool,
    },
    Other,
}

impl<'a> Name<'a> {
    fn of(name: &'a str) -> Self {
        let Some(rest) = name.strip_prefix("kassette:plugin/") else {
            return Self::Other;
        };
        let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
        // Before 1.0 a minor version is a major one; after it only the first number counts.
        let major = |version: &str| {
            let mut parts = version.split('.').map(str::to_owned);
            let first = parts.next();
            if first.as_deref() == Some("0") {
                (first, parts.next())
            } else {
                (first, None)
            }
        };
        Self::Ours {
            interface,
            fits: major(version) == major(VERSION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_first_bytes() {
        assert_eq!(form(b""), Err(LoadError::NotWasm));
        assert_eq!(form(b"#!/bin/sh"), Err(LoadError::NotWasm));
        assert_eq!(form(b"\0asm\x01\0\0\0"), Err(LoadError::CoreModule));
        assert_eq!(form(b"\0asm\x0d\0\x01\0"), Ok(()));
        assert_eq!(form(&vec![0; MAX_BYTES + 1]), Err(LoadError::TooLarge));
    }

    #[test]
    fn names_of_another_major_version_do_not_fit() {
        let fits = |name| matches!(Name::of(name), Name::Ours { fits: true, .. });
        assert!(fits("kassette:plugin/log@0.1.0"));
        assert!(fits("kassette:plugin/log@0.1.7"));
        assert!(!fits("kassette:plugin/log@0.2.0"));
        assert!(!fits("kassette:plugin/log@1.1.0"));
        assert!(!fits("kassette:plugin/log"));
        assert!(matches!(
            Name::of("wasi:cli/environment@0.2.0"),
            Name::Other
        ));
    }
}
