//! Machine code from this host's compiler, and the folder that keeps it between starts.
//!
//! Compiling a module takes hundreds of milliseconds, loading compiled code a tenth of one. So artifacts are
//! stored by the digest of the module and the settings of the engine. Loading machine code means running it: an
//! attacker who can plant an artifact controls this process. Therefore no artifact from outside is accepted, only
//! this user has access to the folder, and each file has a MAC with a key derived from the master key. The MAC is
//! checked on the same bytes in memory that are then loaded, before they are parsed. A file that does not match is
//! removed and its module compiled again: the cache only saves time.

mod code;
mod folder;
mod seal;

use std::path::PathBuf;

use kassette_domain::id::Digest;
use metrics::counter;
use wasmtime::Engine;

pub(crate) use self::code::Code;
use self::folder::Folder;
pub use self::seal::MacKey;
use self::seal::{Seal, Settings};
use crate::engine::{Engines, LoadedComponent};
use crate::error::short;

/// Enough for all versions of all slots many times over, even with some interpreters (60 MiB each).
const MOST_BYTES: u64 = 1 << 30;

/// Settings of the cache of compiled modules.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// A folder only for this. Created with mode 0700, and not used if others have access to it.
    pub folder: PathBuf,
    /// Key of the files' MACs.
    pub key: MacKey,
    /// Maximum total size of the files, in bytes.
    pub most_bytes: u64,
}

impl CacheConfig {
    /// A folder with the default limit of 1 GiB.
    pub fn new(folder: impl Into<PathBuf>, key: MacKey) -> Self {
        Self {
            folder: folder.into(),
            key,
            most_bytes: MOST_BYTES,
        }
    }
}

/// The artifacts of one engine. `None` if nothing is cached.
pub(crate) struct Artifacts(Option<Cache>);

struct Cache {
    folder: Folder,
    seal: Seal,
    settings: Settings,
}

impl Artifacts {
    /// Opens the cache for an engine. If the folder cannot be trusted or used, logs a warning and caches nothing.
    pub(crate) fn open(config: Option<&CacheConfig>, engine: &Engine) -> Self {
        Self(config.and_then(|config| {
            let folder = Folder::open(&config.folder, config.most_bytes)
                .inspect_err(|error| {
                    tracing::warn!(
                        plugin.cache = %config.folder.display(),
                        "compiled modules are not kept in {}: {error}", config.folder.display(),
                    );
                })
                .ok()?;
            Some(Cache {
                folder,
                seal: Seal::new(&config.key),
                settings: Settings::new(engine),
            })
        }))
    }

    /// Returns the component with this digest if it was compiled before with these settings.
    pub(crate) fn get(&self, engines: &Engines, digest: &Digest) -> Option<LoadedComponent> {
        let cache = self.0.as_ref()?;
        let name = cache.name(digest);
        let Some(file) = cache.folder.read(&name) else {
            count("miss");
            return None;
        };
        let opened = cache
            .seal
            .open(digest, &cache.settings, &file)
            .map(|code| code.load(engines));
        if let Some(Ok(component)) = opened {
            count("hit");
            return Some(component);
        }
        count("refused");
        cache.folder.remove(&name);
        tracing::warn!(
            plugin.digest = short(digest),
            "the compiled module {name} is not what this host wrote under its master key; it was removed and is compiled anew",
        );
        None
    }

    /// Stores compiled code. Only logs a failure.
    pub(crate) fn put(&self, digest: &Digest, code: &Code<'_>) {
        let Some(cache) = &self.0 else { return };
        let sealed = cache.seal.close(digest, &cache.settings, code);
        if let Err(error) = cache
            .folder
            .write(&cache.name(digest), &sealed, code.bytes())
        {
            tracing::warn!(
                plugin.digest = short(digest),
                "the compiled module {} was not kept: {error}",
                short(digest),
            );
        }
    }

    /// Removes all artifacts except those with these digests. They are in order of importance: if their total size
    /// exceeds the limit, the last ones are removed too.
    pub(crate) fn retain(&self, needed: &[Digest]) {
        if let Some(cache) = &self.0 {
            let names: Vec<String> = needed.iter().map(|digest| cache.name(digest)).collect();
            cache.folder.retain(&names);
        }
    }
}

impl Cache {
    fn name(&self, digest: &Digest) -> String {
        format!("{digest}-{}.cwasm", self.settings)
    }
}

fn count(outcome: &'static str) {
    counter!("kassette_plugin_cache_total", "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests;
