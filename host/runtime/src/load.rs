//! Loads a module: from the bytes of a file to a module that may serve.
//!
//! Each step is a function, so that more can be added between them, for example test vectors after `describe`.

use std::sync::Arc;
use std::time::Instant;

use kassette_domain::id::{Digest, Slot, SlotKind};
use parking_lot::Mutex;
use wasmtime::component::Component;

use crate::engine::LoadedComponent;
use crate::error::{LoadError, MESSAGE};

use crate::guest::log::LINES_PER_SECOND;
use crate::guest::wasi;
use crate::host::{Host, Identity};
use crate::limits::{MAX_MODULE_BYTES, ModuleClass};
use crate::method::MethodModule;
use crate::provider::ProviderModule;
use crate::quarantine::Quarantines;
use crate::sampled::Sampled;
use crate::signature;
use crate::text;
use crate::v0_2::VERSION;

/// First bytes of every WebAssembly file.
const MAGIC: &[u8] = b"\0asm";
/// Next bytes of a component: version 13, layer 1.
const COMPONENT: &[u8] = &[0x0d, 0, 1, 0];
/// Next bytes of a core module.
const CORE: &[u8] = &[1, 0, 0, 0];

/// Number of modules that are compiled in parallel at the start. Each compiler has two threads, but uses only one
/// for a third of its time.
const PRECOMPILE_THREADS: usize = 2;

/// A module of either world.
#[derive(Clone, Debug)]
pub enum Module {
    /// World `method`.
    Method(Arc<MethodModule>),
    /// World `provider`.
    Provider(Arc<ProviderModule>),
}

impl Module {
    pub(crate) fn identity(&self) -> &Identity {
        match self {
            Self::Method(module) => module.identity(),
            Self::Provider(module) => module.identity(),
        }
    }

    /// Digest of the module file.
    pub fn digest(&self) -> Digest {
        self.identity().digest
    }

    /// Class, which decides the limits.
    pub fn class(&self) -> ModuleClass {
        self.identity().class
    }

    /// Number of failures since loading that the module caused, without those of callbacks, which strangers send.
    pub fn faults(&self) -> u64 {
        self.identity().quarantine.faults()
    }
}

/// Creates a module for a slot from a file. Takes as long as a compilation.
pub(crate) fn load(
    host: &Arc<Host>,
    slot: &Slot,
    digest: Digest,
    bytes: &[u8],
) -> Result<Module, LoadError> {
    let started = Instant::now();
    check_origin(host, slot, digest, bytes)?;
    let loaded = load_or_compile(host, &digest, bytes)?;
    let module = link(host, slot, digest, bytes, &loaded)?;
    tracing::debug!(
        plugin.slot = %slot,
        plugin.load_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "loaded {slot}",
    );
    Ok(module)
}

/// Like [`load`], but only from the cache of compiled modules. `None` if the module would have to be compiled.
pub(crate) fn load_precompiled(
    host: &Arc<Host>,
    slot: &Slot,
    digest: Digest,
    bytes: &[u8],
) -> Option<Result<Module, LoadError>> {
    if let Err(refused) = check_origin(host, slot, digest, bytes) {
        return Some(Err(refused));
    }
    let loaded = host.artifacts.get(&host.engines, &digest)?;
    Some(link(host, slot, digest, bytes, &loaded))
}

/// Checks whether a file may be compiled for a slot: its header is that of a component, and it has a signature if
/// the slot requires one. Modules contained in the program need none.
fn check_origin(host: &Host, slot: &Slot, digest: Digest, bytes: &[u8]) -> Result<(), LoadError> {
    check_header(bytes)?;
    if host.shipped.contains(&(slot.clone(), digest)) {
        return Ok(());
    }
    Ok(signature::check(&host.config.signing_keys, slot, bytes)?)
}

/// Loads a module for a trial. It has its own quarantine, neither uses nor fills the answer cache, and does not
/// appear in metrics or logs.
pub(crate) fn load_trial(
    host: &Arc<Host>,
    slot: &Slot,
    digest: Digest,
    bytes: &[u8],
) -> Result<Module, LoadError> {
    check_origin(host, slot, digest, bytes)?;
    let loaded = load_or_compile(host, &digest, bytes)?;
    linked(host, identity(host, slot, digest, bytes, true), &loaded)
}

/// Compiles a file after checking its header and size, or loads its compiled code.
pub(crate) fn compile_checked(
    host: &Host,
    digest: &Digest,
    bytes: &[u8],
) -> Result<LoadedComponent, LoadError> {
    check_header(bytes)?;
    load_or_compile(host, digest, bytes)
}

/// Returns the slot that a component names in its description.
pub(crate) fn described_slot(
    host: &Arc<Host>,
    digest: Digest,
    bytes: &[u8],
    component: &Component,
) -> Result<Slot, LoadError> {
    let kind = kind(component)?;
    // Used until the description has been read.
    let unnamed = match kind {
        SlotKind::Method => Slot::parse("method.unnamed"),
        SlotKind::Provider => Slot::parse("provider.unnamed"),
    };
    let unnamed = unnamed.ok_or(LoadError::NoWorld)?;
    check_world(&unnamed, component)?;
    let identity = identity(host, &unnamed, digest, bytes, false);
    let (says, slot) = match kind {
        SlotKind::Method => {
            let says = MethodModule::described_id(&identity, component)?;
            let slot = Slot::parse(&format!("method.{says}"));
            (says, slot)
        }
        SlotKind::Provider => {
            let says = ProviderModule::described_id(&identity, component)?;
            let slot = Slot::of_provider(&says);
            (says, slot)
        }
    };
    slot.ok_or_else(|| LoadError::NoSlot(text::cut(&says, 40)))
}

/// The world of a component, according to its exports.
fn kind(component: &Component) -> Result<SlotKind, LoadError> {
    for (export, _) in component.component_type().exports(component.engine()) {
        let kind = match Name::parse(export) {
            Name::Contract {
                interface: "routing",
                compatible,
            } => (SlotKind::Method, compatible),
            Name::Contract {
                interface: "payments",
                compatible,
            } => (SlotKind::Provider, compatible),
            _ => continue,
        };
        return match kind {
            (kind, true) => Ok(kind),
            (_, false) => Err(other_version(export)),
        };
    }
    Err(LoadError::NoWorld)
}

/// The contract version in the names of a module's exports, or the host's version if they have none.
pub(crate) fn version_of(exports: &[String]) -> String {
    let ours = exports
        .iter()
        .find_map(|name| name.strip_prefix("kassette:plugin/"));
    let version = ours.and_then(|name| name.split_once('@'));
    version.map_or(VERSION, |(_, version)| version).to_owned()
}

/// Checks imports and exports of a component, links it and reads its description.
pub(crate) fn link(
    host: &Arc<Host>,
    slot: &Slot,
    digest: Digest,
    bytes: &[u8],
    loaded: &LoadedComponent,
) -> Result<Module, LoadError> {
    linked(host, identity(host, slot, digest, bytes, false), loaded)
}

fn linked(
    host: &Arc<Host>,
    identity: Arc<Identity>,
    loaded: &LoadedComponent,
) -> Result<Module, LoadError> {
    check_world(&identity.slot, loaded.first())?;
    Ok(match identity.slot.kind() {
        SlotKind::Method => Module::Method(Arc::new(MethodModule::load(host, identity, loaded)?)),
        SlotKind::Provider => Module::Provider(Arc::new(ProviderModule::load(
            host,
            identity,
            loaded.first(),
        )?)),
    })
}

/// The identity of a module, with the limits of its class.
fn identity(
    host: &Host,
    slot: &Slot,
    digest: Digest,
    bytes: &[u8],
    is_trial: bool,
) -> Arc<Identity> {
    let class = host.config.classes.get(slot).copied();
    let class = class.unwrap_or_else(|| ModuleClass::guess(bytes.len()));
    Arc::new(Identity {
        slot: slot.clone(),
        digest,
        class,
        limits: host.config.limits.for_class(class),
        quarantine: Quarantines::new(host.config.quarantine_rules),
        is_trial,
        clock: Arc::clone(&host.config.clock),
        log_limit: Sampled::new("module", LINES_PER_SECOND),
        callback_failure_limit: Sampled::new("callback-failure", 1),
    })
}

/// Checks the size and the first bytes.
fn check_header(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.len() > MAX_MODULE_BYTES {
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

/// Compiles modules in parallel at the start, because no request is served before all are ready. They are still
/// activated one by one.
pub(crate) fn precompile<'a>(
    host: &Host,
    modules: impl Iterator<Item = (&'a Slot, impl AsRef<[u8]>)> + Send,
) {
    let next = Mutex::new(modules);
    let take = || next.lock().next();
    let work = || {
        while let Some((slot, bytes)) = take() {
            precompile_one(host, slot, bytes.as_ref());
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..PRECOMPILE_THREADS {
            scope.spawn(work);
        }
    });
}

/// Compiles a file before it is loaded. Errors are reported when it is loaded.
fn precompile_one(host: &Host, slot: &Slot, bytes: &[u8]) {
    let digest = Digest::hash(bytes);
    if check_origin(host, slot, digest, bytes).is_err() {
        return;
    }
    let loaded = load_or_compile(host, &digest, bytes);
    host.precompiled.lock().insert(digest, loaded);
}

/// Loads a module from the cache, or compiles it.
fn load_or_compile(
    host: &Host,
    digest: &Digest,
    bytes: &[u8],
) -> Result<LoadedComponent, LoadError> {
    let precompiled = host.precompiled.lock().remove(digest);
    if let Some(loaded) = precompiled {
        return loaded;
    }
    if let Some(loaded) = host.artifacts.get(&host.engines, digest) {
        return Ok(loaded);
    }
    let code = host
        .config
        .compiler
        .compile(host.engines.compiler(), bytes)?;
    let loaded = code.load(&host.engines);
    let loaded = loaded.map_err(|error| LoadError::invalid(&format!("{error:#}")))?;
    host.artifacts.put(digest, &code);
    Ok(loaded)
}

/// Checks by name whether a component fits the world of its slot.
fn check_world(slot: &Slot, component: &Component) -> Result<(), LoadError> {
    let (world, imports, export): (_, &[&str], _) = match slot.kind() {
        SlotKind::Method => ("method", &["types", "log"], "routing"),
        SlotKind::Provider => ("provider", &["types", "log", "http", "secrets"], "payments"),
    };
    let (engine, types) = (component.engine(), component.component_type());
    for (import, _) in types.imports(engine) {
        match Name::parse(import) {
            Name::Contract {
                interface,
                compatible: true,
            } if imports.contains(&interface) => {}
            Name::Contract {
                compatible: false, ..
            } => return Err(other_version(import)),
            Name::Other if wasi::is_wasi(import) => check_wasi(slot, world, import)?,
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
    let (mut hint, mut found) = ("", false);
    for (name, _) in types.exports(engine) {
        match Name::parse(name) {
            Name::Contract {
                interface,
                compatible,
            } if interface == export || interface == "refunds" => {
                if !compatible {
                    return Err(other_version(name));
                }
                found |= interface == export;
            }
            Name::Contract {
                interface: "routing",
                ..
            } => {
                hint = "; it is a payment method's module, which belongs into a slot `method.<id>`";
            }
            Name::Contract {
                interface: "payments",
                ..
            } => {
                hint = "; it is a provider's module, which belongs into a slot `provider.<id>`";
            }
            _ => {}
        }
    }
    if found {
        return Ok(());
    }
    let export = format!("kassette:plugin/{export}@{VERSION}");
    Err(LoadError::MissingExport {
        export,
        slot: slot.clone(),
        hint,
    })
}

fn check_wasi(slot: &Slot, world: &'static str, import: &str) -> Result<(), LoadError> {
    let (instead, offer) = match slot.kind() {
        SlotKind::Method if wasi::offered(import).is_some() => return Ok(()),
        SlotKind::Method => (
            "",
            "of WASI a method is offered the released 0.2 of cli, clocks, filesystem, io and random; build it for wasm32-wasip2, or stub WASI",
        ),
        SlotKind::Provider => (
            ", it talks to its vendor through kassette:plugin/http",
            "a provider is offered no WASI; build it for wasm32-unknown-unknown, or stub WASI",
        ),
    };
    let name = text::cut(import, MESSAGE);
    Err(match wasi::is_network(import) {
        true => LoadError::Network {
            import: name,
            world,
            instead,
        },
        false => LoadError::Wasi {
            import: name,
            offer,
        },
    })
}

fn other_version(name: &str) -> LoadError {
    LoadError::OtherVersion {
        name: text::cut(name, MESSAGE),
        host: VERSION,
    }
}

/// Name of an import or export.
enum Name<'a> {
    /// `kassette:plugin/<interface>@<version>`.
    Contract {
        interface: &'a str,
        compatible: bool,
    },
    Other,
}

impl<'a> Name<'a> {
    fn parse(name: &'a str) -> Self {
        let Some(rest) = name.strip_prefix("kassette:plugin/") else {
            return Self::Other;
        };
        let (interface, version) = rest.split_once('@').unwrap_or((rest, ""));
        // Before 1.0, the minor version decides compatibility; afterwards only the major version does.
        let major = |version: &str| {
            let mut parts = version.split('.').map(str::to_owned);
            let first = parts.next();
            if first.as_deref() == Some("0") {
                (first, parts.next())
            } else {
                (first, None)
            }
        };
        Self::Contract {
            interface,
            compatible: major(version) == major(VERSION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_told_by_its_first_bytes() {
        assert_eq!(check_header(b""), Err(LoadError::NotWasm));
        assert_eq!(check_header(b"#!/bin/sh"), Err(LoadError::NotWasm));
        assert_eq!(check_header(b"\0asm\x01\0\0\0"), Err(LoadError::CoreModule));
        assert_eq!(check_header(b"\0asm\x0d\0\x01\0"), Ok(()));
        assert_eq!(
            check_header(&vec![0; MAX_MODULE_BYTES + 1]),
            Err(LoadError::TooLarge)
        );
    }

    #[test]
    fn names_of_another_major_version_are_not_compatible() {
        let compatible = |name| {
            matches!(
                Name::parse(name),
                Name::Contract {
                    compatible: true,
                    ..
                }
            )
        };
        assert!(compatible("kassette:plugin/log@0.2.0"));
        assert!(compatible("kassette:plugin/log@0.2.7"));
        assert!(!compatible("kassette:plugin/log@0.1.0"));
        assert!(!compatible("kassette:plugin/log@0.3.0"));
        assert!(!compatible("kassette:plugin/log@1.1.0"));
        assert!(!compatible("kassette:plugin/log"));
        assert!(matches!(
            Name::parse("wasi:cli/environment@0.2.0"),
            Name::Other
        ));
    }
}
