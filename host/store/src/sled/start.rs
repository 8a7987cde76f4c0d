//! Starting the store.

use std::sync::Arc;

use kassette_engine::DiskHooks;

use crate::rows::seal::{Sealer, Secrets};
use crate::sled::mark;
use crate::sled::open::{OpenError, OpenOptions, open_in};
use crate::sled::store::SledStore;

impl SledStore {
    /// Opens the store in a folder, or creates one. Blocks: it reads the part of the log that is not yet in a
    /// snapshot.
    ///
    /// # Errors
    /// The reason, with the remedy.
    pub fn open(options: &OpenOptions) -> Result<Arc<Self>, OpenError> {
        mark::check(&options.path)?;
        Self::start(options, DiskHooks::default())
    }

    /// Opens a store with hooks around the disk.
    pub(crate) fn start(options: &OpenOptions, hooks: DiskHooks) -> Result<Arc<Self>, OpenError> {
        let sealer = Sealer::new(&options.master);
        let folder = options.take_folder()?;
        let (opened, marker) = open_in(&folder, &sealer)?;
        Self::on(folder, opened, Secrets { sealer, marker }, hooks)
    }
}
