//! `kassette migrate`: the tables of a database.

use clap::Args;
use kassette_store::postgres;

use super::stopped_store::{StoppedStore, StoreLocation};

#[derive(Args, Debug)]
pub(super) struct MigrateArgs {
    #[command(flatten)]
    store: StoppedStore,
}

/// Makes the tables, or brings them to this release's form.
///
/// # Errors
/// A sentence: what stands in the way.
#[expect(
    clippy::print_stdout,
    reason = "this is what the person at the terminal reads"
)]
pub(super) async fn migrate(args: MigrateArgs) -> Result<(), String> {
    match args.store.place()? {
        StoreLocation::Folder(options) => println!(
            "the store is in {}: the next start brings it to this release's form by itself",
            options.path.display()
        ),
        StoreLocation::Database(options) => {
            let migrated = postgres::migrate(&options).await;
            migrated.map_err(|error| error.to_string())?;
            println!("the database has the tables of this release");
        }
    }
    Ok(())
}
