//! Machine code that this host's compiler made, and the folder where it is kept between starts.
//!
//! Compiling a module takes hundreds of milliseconds, loading what was compiled a tenth of one. So
//! each artifact is kept by the module's digest and the engine's settings. Loading machine code is
//! running it: an attacker who can plant an artifact can do whatever this process can. So none is accepted
//! from outside, the folder is this user's alone, and each file carries a MAC under a key that is
//! derived from the master key. The MAC is checked over the very bytes that are then loaded, before
//! any of them is looked at. What does not fit is removed and compiled anew: the cache saves time
//! and decides nothing.

mod code;
mod folder;
mod seal;

use std::path::PathBuf;

use kassette_domain::id::Digest;
use metrics::counter;
use wasmtime::Engine;

pub(crate) use self::code::Code;
use self::folder::Folder;
pub use self::seal::CacheKey;
use self::seal::{Seal, Settings};
use crate::engine::{Engines, LoadedComponent};
use crate::error::short;

/// Room for every version of every slot with interpreters among them (60 MiB each) many times over.
const MOST_BYTES: u64 = 1 << 30;

/// Where compiled modules are kept.
#[derive(Clone, Debug)]
pub struct CacheConfig {
    /// A folder for nothing else. It is made with mode 0700; one that others may enter is not used.
    pub folder: PathBuf,
    /// What the files are authenticated with.
    pub key: CacheKey,
    /// Most bytes of all files together.
    pub most_bytes: u64,
}

impl CacheConfig {
    /// A folder with the default bound of 1 GiB.
    pub fn new(folder: impl Into<PathBuf>, key: CacheKey) -> Self {
        Self {
            folder: folder.into(),
            key,
            most_bytes: MOST_BYTES,
        }
    }
}

/// The artifacts of one engine.
pub(crate) struct Artifacts(Option<Cache>);

struct Cache {
    folder: Folder,
    seal: Seal,
    settings: Settings,
}

impl Artifacts {
    /// Opens the cache for an engine. A folder that cannot be trusted or used is said in the log,
    /// and nothing is cached.
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
                settings: Settings::of(engine),
            })
        }))
    }

    /// The component of a digest, where it was compiled before with these settings.
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

    /// Keeps what was compiled. Where that fails the log says so, and nothing else happens.
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

    /// Removes what none of these digests needs; they come in the order of their weight, and where
    /// all together are too large the last ones go too.
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
